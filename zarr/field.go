package zarr

import (
	"context"
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
)

// recordField is a range of the bytes of each element.
type recordField struct {
	names        []string // from the outermost record
	elements     element.Type
	shape        []int64 // of a subarray
	offset, size int64   // bytes
}

// Field returns a view of one field of records, as zarr-python's a["name"]. A field that is
// a subarray adds its axes at the end of the shape. Writing a field reads the chunks that
// have its elements and keeps their other fields. It returns an error wrapping
// [ErrSelection] if the elements have no such field.
func (v *View) Field(name string) (*View, error) {
	fail := func(err error) (*View, error) {
		return nil, fmt.Errorf("zarr.View.Field: array %q: field %q: %w", v.array.path, name, err)
	}
	of, f := v.elementType(), &recordField{size: v.array.dataType.Size()}
	if v.field != nil {
		*f = *v.field
	}
	if len(f.shape) > 0 {
		return fail(fmt.Errorf("of a subarray of records: %w", ErrSelection))
	}
	fields := of.Fields()
	i := slices.IndexFunc(fields, func(f element.Field) bool { return f.Name == name })
	if i < 0 {
		return fail(fmt.Errorf("%s does not have it: %w", of, ErrSelection))
	}
	dtype, _ := of.DType()
	in, _ := dtype.Field(name) // a struct has the fields of its dtype
	f.names = append(slices.Clone(f.names), name)
	f.elements, f.shape = fields[i].Type, fields[i].Shape
	f.offset, f.size = f.offset+in.Offset, in.Size()
	return &View{v.array, v.selected, f}, nil
}

// elementType returns the type of the values that the view reads and writes.
func (v *View) elementType() element.Type {
	if v.field != nil {
		return v.field.elements
	}
	return v.array.dataType
}

// readFieldInto reads the field of a box of records by way of whole records on the device
// of dst.
func (v *View) readFieldInto(ctx context.Context, dst *ndview.NDBuffer, box grid.Box, jobs int) error {
	dtype, _ := v.array.dataType.DType()
	records, err := PrototypeOn(dst.Device()).NDBuffer(dtype, v.selected.Shape...)
	if err != nil {
		return err
	}
	defer func() { records.Release() }()
	if err := v.array.readBoxInto(ctx, records, box, jobs); err != nil {
		return err
	}
	for _, name := range v.field.names {
		field, err := records.Field(name)
		if err != nil {
			return err
		}
		records.Release()
		records = field
	}
	return dst.CopyFrom(records)
}

// of returns the bytes of the field of one element.
func (f *recordField) of(one []byte) []byte { return one[f.offset : f.offset+f.size] }

// extract moves the field of all elements of some width to the start of raw, and returns
// it. It overwrites the elements.
func (f *recordField) extract(raw []byte, width int64) []byte {
	if f.size == width {
		return raw
	}
	n := int64(len(raw)) / width
	for i := range n {
		copy(raw[i*f.size:(i+1)*f.size], f.of(raw[i*width:]))
	}
	return raw[:n*f.size]
}

// insert replaces the field of all elements of raw.
func (f *recordField) insert(raw, values []byte, width int64) {
	for i := range int64(len(raw)) / width {
		copy(f.of(raw[i*width:]), values[i*f.size:(i+1)*f.size])
	}
}
