package ndview

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// Field is a named part of a record: one element of a type, or a small array of
// them in C order.
type Field struct {
	Name   string
	DType  DType
	Offset int64   // bytes from the start of the record
	Shape  []int64 // of a subarray; nil for a single element
}

// Size is the number of bytes that the field takes.
func (f Field) Size() int64 { return f.DType.Size() * product(f.Shape) }

// check tells whether the field has bytes, and returns how many.
func (f Field) check() (int64, error) {
	n, err := layout.Bytes(f.DType.Size(), f.Shape)
	if err != nil {
		return 0, fmt.Errorf("field %q: %w: %w", f.Name, err, ErrDType)
	}
	if f.DType.kind == 0 || n < 1 || n > math.MaxInt32 {
		return 0, fmt.Errorf("field %q takes %d bytes of dtype %s, where 1 to %d were expected: %w", f.Name, n, f.DType, math.MaxInt32, ErrDType)
	}
	return n, nil
}

// record is what makes a DType a record. There is one for each text, so that
// pointers compare as the records do; it stays as long as the program runs.
type record struct {
	fields    []Field
	depth     int   // of records in records
	alignment int64 // that of a struct in C if it is laid out as one, else 1
}

// maxDepth keeps the text of a foreign type, which names every field within, in
// proportion to what was read.
const maxDepth = 32

var records sync.Map // of *record, by text

// Record is the type of elements that are made of fields, NumPy's structured
// type, as storage: such elements are moved, compared and sliced, not computed
// with. Fields have distinct, non-empty names and lie within size bytes, in any
// order and with any gaps; they may overlap. Anything else is ErrDType.
func Record(size int64, fields ...Field) (DType, error) {
	if err := checkFields(size, fields); err != nil {
		return DType{}, fmt.Errorf("record of %d bytes: %w", size, err)
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
		return DType{}, fmt.Errorf("records nested %d deep, where %d are allowed: %w", depth, maxDepth, ErrDType)
	}
	fmt.Fprint(&text, size)
	r, _ := records.LoadOrStore(text.String(), &record{fields, depth, alignmentOf(size, fields)})
	return DType{kind: KindRecord, size: int32(size), record: r.(*record)}, nil
}

// Packed is a record whose fields follow each other without gaps; their Offset
// is not looked at.
func Packed(fields ...Field) (DType, error) { return place(fields, false) }

// Aligned is a record laid out as C lays out a struct: each field at a multiple
// of its alignment, the size a multiple of the largest. Offset is not looked at.
func Aligned(fields ...Field) (DType, error) { return place(fields, true) }

func place(fields []Field, align bool) (DType, error) {
	fields = slices.Clone(fields)
	end, widest := int64(0), int64(1)
	for i, f := range fields {
		n, err := f.check()
		if err != nil {
			return DType{}, err
		}
		if a := f.DType.alignment(); align {
			widest, end = max(widest, a), roundUp(end, a)
		}
		fields[i].Offset = end
		end += n
	}
	return Record(roundUp(end, widest), fields...)
}

func roundUp(n, multiple int64) int64 { return (n + multiple - 1) / multiple * multiple }

// alignmentOf is the widest alignment of the fields if these lie as in C.
func alignmentOf(size int64, fields []Field) int64 {
	end, widest := int64(0), int64(1)
	for _, f := range fields {
		a := f.DType.alignment()
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

// alignment is what the address of an element is to be a multiple of: that of
// the number, of the two numbers of a complex one, or of the struct in C.
func (t DType) alignment() int64 {
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
		return fmt.Errorf("a size of 1 to %d bytes was expected: %w", math.MaxInt32, ErrDType)
	}
	if len(fields) == 0 {
		return fmt.Errorf("no fields: %w", ErrDType)
	}
	names := map[string]bool{"": true}
	for _, f := range fields {
		if names[f.Name] {
			return fmt.Errorf("field name %q is empty or twice there: %w", f.Name, ErrDType)
		}
		names[f.Name] = true
		n, err := f.check()
		if err != nil {
			return err
		}
		if f.Offset < 0 || f.Offset > size-n {
			return fmt.Errorf("field %q, %d bytes of %s at %d, does not fit: %w", f.Name, n, f.DType, f.Offset, ErrDType)
		}
	}
	return nil
}

// Fields are the fields of a record, in its order, else nil.
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

// Field is the field of a record that has a name; false if there is none.
func (t DType) Field(name string) (Field, bool) {
	fields := t.Fields()
	i := slices.IndexFunc(fields, func(f Field) bool { return f.Name == name })
	if i < 0 {
		return Field{}, false
	}
	return fields[i], true
}
