package ndview

import (
	"fmt"
	"strings"

	"github.com/quiver-gpu/quiver/ndview/internal/text"
)

// recordWords prints records as tuples of their fields, each field as wide as in
// the other records. A record by itself shows its floats as single numbers.
func (t DType) recordWords(raw []byte, form wordForm) []string {
	words := make([][]string, int64(len(raw))/t.Size())
	for _, f := range t.record.fields {
		column := f.DType.words(t.column(raw, f), wordForm{form.single && f.Shape == nil, form.plain})
		each := int(product(f.Shape))
		for i := range words {
			shown := column[i*each : (i+1)*each]
			words[i] = append(words[i], bracketed(&shown, f.Shape, product(f.Shape)))
		}
	}
	return each(words, text.Record)
}

// column are the bytes of one field, record after record.
func (t DType) column(raw []byte, f Field) []byte {
	n := int64(len(raw)) / t.Size()
	column := aligned(n * f.Size())
	for i := range n {
		copy(column[i*f.Size():][:f.Size()], raw[i*t.Size()+f.Offset:])
	}
	return column
}

// bracketed takes the words of a small array of n elements in a record, or that
// of a single element.
func bracketed(words *[]string, shape []int64, n int64) string {
	if len(shape) == 0 {
		word := (*words)[0]
		*words = (*words)[1:]
		return word
	}
	head, tail := text.Shown(n, shape[0])
	var parts []string
	for i := range shape[0] {
		part := bracketed(words, shape[1:], n)
		switch {
		case i < head || i >= shape[0]-tail:
			parts = append(parts, part)
		case i == head:
			parts = append(parts, "...")
		}
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// pythonRecord is a record as NumPy prints its dtype.
func (t DType) pythonRecord() string {
	var names, formats, offsets, items []string
	packed, end := true, int64(0)
	for _, f := range t.record.fields {
		format, name := f.DType.pythonFormat(), quoted(f.Name)
		packed = packed && f.Offset == end
		end = f.Offset + f.Size()
		names, offsets = append(names, name), append(offsets, fmt.Sprint(f.Offset))
		if f.Shape == nil {
			items = append(items, fmt.Sprintf("(%s, %s)", name, format))
			formats = append(formats, format)
			continue
		}
		shape := text.Record(each(f.Shape, func(n int64) string { return fmt.Sprint(n) }))
		items = append(items, fmt.Sprintf("(%s, %s, %s)", name, format, shape))
		formats = append(formats, fmt.Sprintf("(%s, %s)", format, shape))
	}
	if packed && end == t.Size() {
		return "[" + strings.Join(items, ", ") + "]"
	}
	list := func(words []string) string { return "[" + strings.Join(words, ", ") + "]" }
	return fmt.Sprintf("{'names': %s, 'formats': %s, 'offsets': %s, 'itemsize': %d}", list(names), list(formats), list(offsets), t.Size())
}

func (t DType) pythonFormat() string {
	switch t.kind {
	case KindRecord:
		return t.pythonRecord()
	case KindBool:
		return "'?'"
	default:
		return quoted(strings.TrimPrefix(t.NumPy(), "|"))
	}
}

// quoted is a string of Python.
func quoted(s string) string {
	quote := "'"
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = `"`
	}
	return quote + strings.NewReplacer(`\`, `\\`, quote, `\`+quote, "\n", `\n`, "\t", `\t`, "\r", `\r`).Replace(s) + quote
}
