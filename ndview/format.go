package ndview

import (
	"fmt"
	"strings"
	"unsafe"

	"github.com/quiver-gpu/quiver/ndview/internal/half"
	"github.com/quiver-gpu/quiver/ndview/internal/text"
)

// String is what str of NumPy 2 gives for the array, with its default options:
// arrays of more than 1,000 elements are shown by three at each end of an axis.
// Only the elements that are shown come from the device. An array that cannot
// be read says why, in angle brackets.
func (a *NDBuffer) String() string {
	words, err := a.words()
	switch {
	case err != nil:
		return a.unreadable(err)
	case len(a.shape) == 0:
		return words[0]
	default:
		return text.Str(words, a.shape)
	}
}

// GoString is what repr of NumPy 2 gives, with the dtype where the elements do
// not tell it; fmt prints it for %#v.
func (a *NDBuffer) GoString() string {
	raw, err := a.shown()
	if err != nil {
		return a.unreadable(err)
	}
	return text.Repr(a.dtype.words(raw, wordForm{single: len(a.shape) == 0}), a.shape, a.reprDType())
}

func (a *NDBuffer) unreadable(err error) string {
	return fmt.Sprintf("<array of %s %v: %v>", a.dtype, a.shape, err)
}

// words are those of str, which prints the only element of an array without axes
// as a scalar.
func (a *NDBuffer) words() ([]string, error) {
	raw, err := a.shown()
	if err != nil {
		return nil, err
	}
	if len(a.shape) == 0 {
		return []string{a.dtype.scalar(raw)}, nil
	}
	return a.dtype.words(raw, wordForm{}), nil
}

// shown copies the elements that are printed to the host. An axis with dots in
// its middle is looked at as two, the ends and what lies in each.
func (a *NDBuffer) shown() ([]byte, error) {
	var shape, strides []int64
	for i, extent := range a.shape {
		head, tail := text.Shown(a.Size(), extent)
		if tail > 0 {
			shape = append(shape, 2)
			strides = append(strides, (extent-tail)*a.strides[i])
		}
		shape, strides = append(shape, head), append(strides, a.strides[i])
	}
	ends, err := a.view(a.dtype, a.offset, shape, strides)
	if err != nil {
		return nil, err
	}
	defer ends.Release()
	return ends.Bytes()
}

// reprDType is the dtype as repr tells it, or nothing for what NumPy takes the
// elements for without.
func (a *NDBuffer) reprDType() string {
	switch a.dtype {
	case Bool, Int64, Float64, Complex128:
		if a.Size() > 0 {
			return ""
		}
	}
	switch a.dtype.kind {
	case KindDatetime, KindTimedelta:
		if a.dtype.unit == Generic {
			return a.dtype.String()
		}
		return "'" + a.dtype.String() + "'"
	case KindBytes:
		return "'|" + a.dtype.String() + "'"
	case KindRecord:
		return a.dtype.pythonRecord()
	default:
		return a.dtype.String()
	}
}

// wordForm is how elements are printed.
type wordForm struct {
	single bool // the array has no axes, so there is nothing to align with
	plain  bool // floats as single numbers, as within str of a record
}

// words prints elements, each as wide as the others.
func (t DType) words(raw []byte, form wordForm) []string {
	switch t.kind {
	case KindBool:
		return text.Bools(valuesAs(raw, 1, func(p unsafe.Pointer) bool { return *(*byte)(p) != 0 }), form.single)
	case KindInt:
		return text.Integers(t.ints(raw))
	case KindUint:
		return text.Integers(t.uints(raw))
	case KindFloat:
		if form.plain {
			return each(t.floats(raw), func(v float64) string { return text.Float(v, int(t.size)*8) })
		}
		return text.Floats(t.floats(raw), int(t.size)*8)
	case KindBFloat:
		return each(t.floats(raw), text.BFloat)
	case KindComplex:
		return text.Complexes(t.complexes(raw), int(t.size)*4)
	case KindDatetime:
		return text.Datetimes(t.ints(raw), int64(t.step), string(t.unit))
	case KindTimedelta:
		return text.Timedeltas(t.ints(raw))
	case KindRecord:
		return t.recordWords(raw, form)
	default:
		return each(valuesAs(raw, t.Size(), func(p unsafe.Pointer) []byte { return unsafe.Slice((*byte)(p), t.size) }), text.Raw)
	}
}

// scalar prints one element by itself.
func (t DType) scalar(raw []byte) string {
	switch t.kind {
	case KindFloat:
		return text.Float(t.floats(raw)[0], int(t.size)*8)
	case KindComplex:
		return text.Complex(t.complexes(raw)[0], int(t.size)*4)
	case KindDatetime:
		return text.Datetime(t.ints(raw)[0], int64(t.step), string(t.unit))
	case KindTimedelta:
		return text.Timedelta(t.ints(raw)[0], int64(t.step), string(t.unit))
	default:
		return t.words(raw, wordForm{single: true, plain: true})[0]
	}
}

// ints and the functions below read elements as the widest type of their kind.
func (t DType) ints(raw []byte) []int64 {
	return valuesAs(raw, t.Size(), func(p unsafe.Pointer) int64 {
		switch t.size {
		case 1:
			return int64(*(*int8)(p))
		case 2:
			return int64(*(*int16)(p))
		case 4:
			return int64(*(*int32)(p))
		default:
			return *(*int64)(p)
		}
	})
}

func (t DType) uints(raw []byte) []uint64 {
	return valuesAs(raw, t.Size(), func(p unsafe.Pointer) uint64 {
		switch t.size {
		case 1:
			return uint64(*(*uint8)(p))
		case 2:
			return uint64(*(*uint16)(p))
		case 4:
			return uint64(*(*uint32)(p))
		default:
			return *(*uint64)(p)
		}
	})
}

func (t DType) floats(raw []byte) []float64 {
	return valuesAs(raw, t.Size(), func(p unsafe.Pointer) float64 {
		switch {
		case t.kind == KindBFloat:
			return float64(half.BFloat16ToFloat32(*(*uint16)(p)))
		case t.size == 2:
			return float64(half.Float16ToFloat32(*(*uint16)(p)))
		case t.size == 4:
			return float64(*(*float32)(p))
		default:
			return *(*float64)(p)
		}
	})
}

func (t DType) complexes(raw []byte) []complex128 {
	return valuesAs(raw, t.Size(), func(p unsafe.Pointer) complex128 {
		if t.size == 8 {
			return complex128(*(*complex64)(p))
		}
		return *(*complex128)(p)
	})
}

// valuesAs reads elements of a size, which are aligned: host memory of an array
// is copied to begin at a multiple of 8.
func valuesAs[T any](raw []byte, size int64, read func(unsafe.Pointer) T) []T {
	values := make([]T, int64(len(raw))/size)
	for i := range values {
		values[i] = read(unsafe.Pointer(&raw[int64(i)*size]))
	}
	return values
}

func each[T any](values []T, word func(T) string) []string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = word(v)
	}
	return words
}

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
