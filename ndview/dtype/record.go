package dtype

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// Field is a named part of a record: one element of a type, or a subarray in C order.
type Field struct {
	Name   string
	DType  DType
	Offset int64   // bytes from the start of the record
	Shape  []int64 // of a subarray; nil for one element
}

// Size returns the number of bytes of the field.
func (f Field) Size() int64 { return f.DType.Size() * layout.Product(f.Shape) }

// byteSize returns the number of bytes of the field, or ErrDType unless it is from 1
// to an int32's maximum.
func (f Field) byteSize() (int64, error) {
	n, err := layout.CheckShape(f.DType.Size(), f.Shape)
	if err != nil {
		return 0, fmt.Errorf("field %q: %w: %w", f.Name, err, ErrDType)
	}
	if f.DType.kind == 0 || n < 1 || n > math.MaxInt32 {
		return 0, fmt.Errorf("field %q has %d bytes of dtype %s, want 1 to %d: %w", f.Name, n, f.DType, math.MaxInt32, ErrDType)
	}
	return n, nil
}

// record holds the fields of a record type. Equal records share one, so that DTypes
// compare by pointer; it is never freed.
type record struct {
	fields    []Field
	depth     int   // of nested records
	alignment int64 // that of a C struct of this layout, otherwise 1
}

// maxDepth limits the nesting of records, because the text of a type, which names all
// nested fields, could otherwise grow exponentially.
const maxDepth = 32

var records sync.Map // from the text of a record to its *record

// Record returns NumPy's structured type: elements that consist of fields. Such
// elements can be moved, compared and viewed, but not computed with. Fields must have
// distinct, non-empty names and lie within size bytes; they may be in any order,
// overlap and leave gaps. Otherwise Record returns ErrDType.
func Record(size int64, fields ...Field) (DType, error) {
	if err := checkFields(size, fields); err != nil {
		return DType{}, fmt.Errorf("dtype.Record: %d bytes: %w", size, err)
	}
	fields, depth := cloneFields(fields), 1
	var text strings.Builder
	for _, f := range fields {
		if f.DType.kind == KindRecord {
			depth = max(depth, f.DType.record.depth+1)
		}
		fmt.Fprintf(&text, "%q %s %d %d;", f.Name, f.DType, f.Offset, f.Shape)
	}
	if depth > maxDepth {
		return DType{}, fmt.Errorf("records nested %d deep, want at most %d: %w", depth, maxDepth, ErrDType)
	}
	fmt.Fprint(&text, size)
	r, _ := records.LoadOrStore(text.String(), &record{fields, depth, structAlignment(size, fields)})
	return DType{kind: KindRecord, size: int32(size), record: r.(*record)}, nil
}

// Packed returns a record whose fields follow each other without gaps. It ignores
// their Offset.
func Packed(fields ...Field) (DType, error) { return layOut(fields, false) }

// Aligned returns a record with the layout of a C struct: each field lies at a
// multiple of its alignment, and the size is a multiple of the largest. It ignores
// their Offset.
func Aligned(fields ...Field) (DType, error) { return layOut(fields, true) }

// layOut computes the offsets of fields, aligned as in C if align is true.
func layOut(fields []Field, align bool) (DType, error) {
	fields = slices.Clone(fields)
	end, widest := int64(0), int64(1)
	for i, f := range fields {
		n, err := f.byteSize()
		if err != nil {
			return DType{}, err
		}
		if a := f.DType.Alignment(); align {
			widest, end = max(widest, a), roundUp(end, a)
		}
		fields[i].Offset = end
		end += n
	}
	return Record(roundUp(end, widest), fields...)
}

func roundUp(n, multiple int64) int64 { return (n + multiple - 1) / multiple * multiple }

// structAlignment returns the largest alignment of the fields if their layout is that
// of a C struct, otherwise 1.
func structAlignment(size int64, fields []Field) int64 {
	end, widest := int64(0), int64(1)
	for _, f := range fields {
		a := f.DType.Alignment()
		if f.Offset != roundUp(end, a) {
			return 1
		}
		widest, end = max(widest, a), f.Offset+f.Size()
	}
	if size != roundUp(end, widest) {
		return 1
	}
	return widest
}

// Alignment returns the alignment of an element's address: that of the number, of each
// part of a complex number, or of the C struct.
func (t DType) Alignment() int64 {
	switch t.kind {
	case KindComplex:
		return t.Size() / 2
	case KindBytes:
		return 1
	case KindRecord:
		return t.record.alignment
	default:
		return t.Size()
	}
}

func checkFields(size int64, fields []Field) error {
	if size < 1 || size > math.MaxInt32 {
		return fmt.Errorf("want a size of 1 to %d bytes: %w", math.MaxInt32, ErrDType)
	}
	if len(fields) == 0 {
		return fmt.Errorf("no fields: %w", ErrDType)
	}
	names := map[string]bool{"": true}
	for _, f := range fields {
		if names[f.Name] {
			return fmt.Errorf("field name %q is empty or a duplicate: %w", f.Name, ErrDType)
		}
		names[f.Name] = true
		n, err := f.byteSize()
		if err != nil {
			return err
		}
		if f.Offset < 0 || f.Offset > size-n {
			return fmt.Errorf("field %q, %d bytes of %s at %d, does not fit: %w", f.Name, n, f.DType, f.Offset, ErrDType)
		}
	}
	return nil
}

// Fields returns a copy of the fields of a record, in its order, otherwise nil.
func (t DType) Fields() []Field {
	if t.kind != KindRecord {
		return nil
	}
	return cloneFields(t.record.fields)
}

func cloneFields(fields []Field) []Field {
	fields = slices.Clone(fields)
	for i := range fields {
		fields[i].Shape = slices.Clone(fields[i].Shape)
	}
	return fields
}

// Field returns the field of a record with a name, and false if it does not exist.
func (t DType) Field(name string) (Field, bool) {
	fields := t.Fields()
	i := slices.IndexFunc(fields, func(f Field) bool { return f.Name == name })
	if i < 0 {
		return Field{}, false
	}
	return fields[i], true
}

// structuredDict is the dict of a structured type in NumPy. Titles, second names of
// fields, are not kept.
type structuredDict struct {
	Names    []string          `json:"names"`
	Formats  []json.RawMessage `json:"formats"`
	Offsets  []int64           `json:"offsets,omitempty"`
	Titles   []any             `json:"titles,omitempty"`
	ItemSize int64             `json:"itemsize,omitempty"`
	Aligned  bool              `json:"aligned,omitempty"`
}

func parseStructured(s string) (DType, ByteOrder, error) { return parseFormat(json.RawMessage(s), 0) }

// parseFormat parses the type of a field: a string, a list or a dict. NoOrder combines
// with either byte order.
func parseFormat(raw json.RawMessage, depth int) (DType, ByteOrder, error) {
	raw = bytes.TrimSpace(raw)
	switch {
	case depth > maxDepth:
		return DType{}, 0, fmt.Errorf("records nested more than %d deep: %w", maxDepth, ErrDType)
	case bytes.HasPrefix(raw, []byte("[")):
		return parseDescr(raw, depth)
	case bytes.HasPrefix(raw, []byte("{")):
		return parseDict(raw, depth)
	}
	var s string
	if err := decodeJSON(raw, &s); err != nil {
		return DType{}, 0, err
	}
	return parseSimple(s)
}

// parseDescr parses a list of fields that follow each other.
func parseDescr(raw json.RawMessage, depth int) (DType, ByteOrder, error) {
	var list [][]json.RawMessage
	if err := decodeJSON(raw, &list); err != nil {
		return DType{}, 0, err
	}
	var fields []Field
	var end int64
	order := NoOrder
	for i, item := range list {
		if len(item) != 2 && len(item) != 3 {
			return DType{}, 0, fmt.Errorf("field %d: want [name, format] or [name, format, shape]: %w", i, ErrDType)
		}
		f, fieldOrder, err := parseField(item, depth)
		if err == nil {
			order, err = mergeByteOrder(order, fieldOrder)
		}
		var n int64
		if err == nil {
			n, err = f.byteSize()
		}
		if err != nil {
			return DType{}, 0, fmt.Errorf("field %d: %w", i, err)
		}
		f.Offset = end
		end += n
		if f.Name == "" && f.DType.kind == KindBytes { // a gap
			continue
		}
		if f.Name == "" {
			f.Name = fmt.Sprint("f", i)
		}
		fields = append(fields, f)
	}
	t, err := Record(end, fields...)
	return t, order, err
}

// parseField parses [name, format] or [name, format, shape], where the name may be a
// list of title and name.
func parseField(item []json.RawMessage, depth int) (Field, ByteOrder, error) {
	var f Field
	var titled []string // title and name
	if decodeJSON(item[0], &titled) == nil && len(titled) == 2 {
		f.Name = titled[1]
	} else if err := decodeJSON(item[0], &f.Name); err != nil {
		return f, 0, err
	}
	var err error
	if len(item) == 3 {
		if f.Shape, err = parseShape(item[2]); err != nil {
			return f, 0, err
		}
	}
	var order ByteOrder
	f.DType, order, err = parseFormat(item[1], depth+1)
	return f, order, err
}

// parseShape parses the shape of a subarray: one extent or a list of them.
func parseShape(raw json.RawMessage) ([]int64, error) {
	var one int64
	if decodeJSON(raw, &one) == nil {
		return []int64{one}, nil
	}
	var shape []int64
	err := decodeJSON(raw, &shape)
	if len(shape) == 0 {
		shape = nil
	}
	return shape, err
}

// parseDict parses a dict of names, formats, offsets and itemsize.
func parseDict(raw json.RawMessage, depth int) (DType, ByteOrder, error) {
	var d structuredDict
	if err := decodeJSON(raw, &d); err != nil {
		return DType{}, 0, err
	}
	if len(d.Formats) != len(d.Names) || d.Offsets != nil && len(d.Offsets) != len(d.Names) {
		return DType{}, 0, fmt.Errorf("want as many formats and offsets as names: %w", ErrDType)
	}
	order := NoOrder
	fields := make([]Field, len(d.Names))
	for i, format := range d.Formats {
		var err error
		if fields[i], err = d.field(i, format, depth, &order); err != nil {
			return DType{}, 0, fmt.Errorf("field %q: %w", d.Names[i], err)
		}
	}
	t, err := d.record(fields)
	return t, order, err
}

// field parses one format of a dict: as in a list, or [format, shape].
func (d structuredDict) field(i int, format json.RawMessage, depth int, order *ByteOrder) (Field, error) {
	name, _ := json.Marshal(d.Names[i])
	item := []json.RawMessage{name, format}
	var pair []json.RawMessage
	if decodeJSON(format, &pair) == nil && len(pair) == 2 {
		if _, err := parseShape(pair[1]); err == nil {
			item = []json.RawMessage{name, pair[0], pair[1]}
		}
	}
	f, fieldOrder, err := parseField(item, depth)
	if err != nil {
		return f, err
	}
	if d.Offsets != nil {
		f.Offset = d.Offsets[i]
	}
	*order, err = mergeByteOrder(*order, fieldOrder)
	return f, err
}

// record returns the record of the fields of a dict, and computes missing offsets.
func (d structuredDict) record(fields []Field) (DType, error) {
	if d.Offsets == nil {
		packed, err := layOut(fields, d.Aligned)
		if err != nil || d.ItemSize == 0 || d.ItemSize == packed.Size() {
			return packed, err
		}
		fields = packed.Fields()
	}
	end, widest := int64(0), int64(1)
	for _, f := range fields {
		n, err := f.byteSize()
		if err != nil {
			return DType{}, err
		}
		if a := f.DType.Alignment(); d.Aligned && f.Offset%a != 0 {
			return DType{}, fmt.Errorf("field %q: offset %d, want a multiple of %d: %w", f.Name, f.Offset, a, ErrDType)
		} else if d.Aligned {
			widest = max(widest, a)
		}
		end = max(end, f.Offset+n)
	}
	end = roundUp(end, widest)
	if size := d.ItemSize; size != 0 && (size < end || size%widest != 0) {
		return DType{}, fmt.Errorf("itemsize %d, want a multiple of %d of at least %d: %w", size, widest, end, ErrDType)
	}
	return Record(max(end, d.ItemSize), fields...)
}

// mergeByteOrder returns the byte order of two fields, or ErrDType if they differ.
func mergeByteOrder(a, b ByteOrder) (ByteOrder, error) {
	switch {
	case a == NoOrder:
		return b, nil
	case b == NoOrder, a == b:
		return a, nil
	default:
		return 0, fmt.Errorf("fields of both byte orders in one record: %w", ErrDType)
	}
}

// decodeJSON decodes one JSON value and refuses unknown keys and trailing data.
func decodeJSON(raw json.RawMessage, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("%w: %w", err, ErrDType)
	}
	if d.More() {
		return fmt.Errorf("trailing data after the type: %w", ErrDType)
	}
	return nil
}

// structuredJSON returns a record as JSON, see NumPy.
func (t DType) structuredJSON(order ByteOrder) string {
	fields := t.record.fields
	inOrder, end := true, int64(0)
	for _, f := range fields {
		inOrder = inOrder && f.Offset >= end
		end = f.Offset + f.Size()
	}
	if inOrder {
		return t.descrJSON(order)
	}
	d := structuredDict{ItemSize: t.Size()}
	for _, f := range fields {
		d.Names, d.Offsets = append(d.Names, f.Name), append(d.Offsets, f.Offset)
		format := f.DType.formatJSON(order)
		if f.Shape != nil {
			format = encodeJSON([]any{format, f.Shape})
		}
		d.Formats = append(d.Formats, format)
	}
	return string(encodeJSON(d))
}

// descrJSON returns a record whose fields are in order as a list.
func (t DType) descrJSON(order ByteOrder) string {
	var items []any
	end := int64(0)
	gap := func(to int64) {
		if to > end {
			items = append(items, []any{"", Bytes(int32(to - end)).NumPy()})
		}
	}
	for _, f := range t.record.fields {
		gap(f.Offset)
		item := []any{f.Name, f.DType.formatJSON(order)}
		if f.Shape != nil {
			item = append(item, f.Shape)
		}
		items, end = append(items, item), f.Offset+f.Size()
	}
	gap(t.Size())
	return string(encodeJSON(items))
}

// formatJSON returns the type as JSON within a structured type.
func (t DType) formatJSON(order ByteOrder) json.RawMessage {
	if t.kind == KindRecord {
		return json.RawMessage(t.structuredJSON(order))
	}
	return encodeJSON(t.NumPyIn(order))
}

// encodeJSON returns the JSON of a value that cannot fail to have one. It does not
// escape "<".
func encodeJSON(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
	return bytes.TrimSpace(b.Bytes())
}
