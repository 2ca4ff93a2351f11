package element

import (
	"fmt"
	"math"
	"slices"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
)

// Values are the elements of a chunk, of some rows or of an array: either an
// *ndview.NDBuffer or a *VLen, never anything else. They are reference counted;
// a function that is given values does not release them, and who is returned
// values releases them once.
type Values interface {
	// Shape is the number of elements along each axis. The caller must not
	// write to it.
	Shape() []int64
	Retain()
	Release()
}

var (
	_ Values = (*ndview.NDBuffer)(nil)
	_ Values = (*VLen)(nil)
)

// CheckValues answers an error unless the values can be elements of the type.
func (t Type) CheckValues(v Values) error {
	switch v := v.(type) {
	case *ndview.NDBuffer:
		if !t.IsVLen() && v != nil && v.DType() == t.dtype {
			return nil
		}
		if v != nil {
			return fmt.Errorf("values of %s for an array of %s", v.DType(), t)
		}
	case *VLen:
		if t.IsVLen() && v != nil {
			return nil
		}
		if v != nil {
			return fmt.Errorf("values of variable length for an array of %s", t)
		}
	}
	return fmt.Errorf("values of Go type %T for an array of %s", v, t)
}

// Slice returns elements start, ..., stop-1 along an axis. An NDBuffer is
// sliced without a copy; a VLen too, along the first axis.
func Slice(v Values, axis int, start, stop int64) (Values, error) {
	switch v := v.(type) {
	case *ndview.NDBuffer:
		return orNil(v.Slice(axis, start, stop))
	case *VLen:
		return orNil(v.Slice(axis, start, stop))
	default:
		return nil, fmt.Errorf("values of Go type %T", v)
	}
}

// Box returns extent[i] elements from at[i] on along each axis i.
func Box(v Values, at, extent []int64) (Values, error) {
	v.Retain()
	for axis := range at {
		part, err := Slice(v, axis, at[axis], at[axis]+extent[axis])
		v.Release()
		if err != nil {
			return nil, err
		}
		v = part
	}
	return v, nil
}

// Transpose permutes the axes: axis i of the result is axis order[i] of v. An
// NDBuffer is transposed without a copy.
func Transpose(v Values, order []int) (Values, error) {
	if len(order) == 0 { // which ndview takes for "reverse"; the same, of no axes
		v.Retain()
		return v, nil
	}
	switch v := v.(type) {
	case *ndview.NDBuffer:
		return orNil(v.Transpose(order...))
	case *VLen:
		return v.transpose(order), nil
	default:
		return nil, fmt.Errorf("values of Go type %T", v)
	}
}

// orNil keeps a nil pointer from becoming an interface that is not nil.
func orNil[V Values](v V, err error) (Values, error) {
	if err != nil {
		return nil, err
	}
	return v, nil
}

// Offset is the type of the offsets of Arrow's string (32 bits) and large
// string (64 bits) columns.
type Offset interface{ int32 | int64 }

// VLen is an N-dimensional array of byte strings on the host, in Arrow's
// layout: element i, counted in C order, is bytes [offsets[i], offsets[i+1]) of
// the data. The first offset need not be 0. A VLen is not written to.
type VLen struct {
	shape     []int64
	offsets32 []int32 // these or
	offsets64 []int64 // those
	data      []byte
}

// NewVLen looks at offsets and data as an array of the given shape, without a
// copy; both must stay unchanged while it is used. There is one more offset
// than elements (or none, for no elements), and they do not descend.
func NewVLen[O Offset](offsets []O, data []byte, shape ...int64) (*VLen, error) {
	n, err := grid.Bytes(shape, 1)
	if err != nil {
		return nil, err
	}
	if n == 0 && len(offsets) == 0 {
		offsets = []O{0}
	}
	if int64(len(offsets)) != n+1 {
		return nil, fmt.Errorf("%d offsets for %d strings, which want one more than that", len(offsets), n)
	}
	if offsets[0] < 0 || int64(offsets[n]) > int64(len(data)) {
		return nil, fmt.Errorf("offsets from %d to %d into %d bytes", offsets[0], offsets[n], len(data))
	}
	for i := range n {
		if offsets[i+1] < offsets[i] {
			return nil, fmt.Errorf("offset %d is %d, after %d", i+1, offsets[i+1], offsets[i])
		}
	}
	return newVLen(offsets, data, slices.Clone(shape)), nil
}

func newVLen[O Offset](offsets []O, data []byte, shape []int64) *VLen {
	v := &VLen{shape: shape, data: data}
	switch o := any(offsets).(type) {
	case []int32:
		v.offsets32 = o
	case []int64:
		v.offsets64 = o
	}
	return v
}

// Strings packs byte strings, in C order, into an array of the given shape.
// Offsets have 32 bits where that reaches.
func Strings[S ~string | ~[]byte](elements []S, shape ...int64) (*VLen, error) {
	if n, err := grid.Bytes(shape, 1); err != nil || n != int64(len(elements)) {
		return nil, fmt.Errorf("%d strings for shape %v", len(elements), shape)
	}
	total := 0
	for _, e := range elements {
		total += len(e)
	}
	if total <= math.MaxInt32 {
		return pack[int32](elements, total, shape), nil
	}
	return pack[int64](elements, total, shape), nil
}

func pack[O Offset, S ~string | ~[]byte](elements []S, total int, shape []int64) *VLen {
	offsets, data := make([]O, len(elements)+1), make([]byte, 0, total)
	for i, e := range elements {
		data = append(data, e...)
		offsets[i+1] = O(len(data))
	}
	return newVLen(offsets, data, slices.Clone(shape))
}

// Shape is the number of elements along each axis.
func (v *VLen) Shape() []int64 { return v.shape }

// Len is the number of elements.
func (v *VLen) Len() int64 { return grid.Size(v.shape) }

// Offsets are the offsets, of one width; the other result is nil.
func (v *VLen) Offsets() ([]int32, []int64) { return v.offsets32, v.offsets64 }

// Data is what the offsets point into.
func (v *VLen) Data() []byte { return v.data }

// At is element i in C order, in place.
func (v *VLen) At(i int64) []byte {
	if v.offsets32 != nil {
		return v.data[v.offsets32[i]:v.offsets32[i+1]]
	}
	return v.data[v.offsets64[i]:v.offsets64[i+1]]
}

// NBytes is the number of bytes that the elements take, without offsets.
func (v *VLen) NBytes() int64 {
	if o := v.offsets32; o != nil {
		return int64(o[len(o)-1]) - int64(o[0])
	}
	return v.offsets64[len(v.offsets64)-1] - v.offsets64[0]
}

// Elements returns all elements in C order, each in place.
func (v *VLen) Elements() [][]byte {
	all := make([][]byte, v.Len())
	for i := range all {
		all[i] = v.At(int64(i))
	}
	return all
}

// Slice returns elements start, ..., stop-1 along one axis: along the first
// without a copy of the data.
func (v *VLen) Slice(axis int, start, stop int64) (*VLen, error) {
	if axis < 0 || axis >= len(v.shape) {
		return nil, fmt.Errorf("axis %d of an array of %d axes", axis, len(v.shape))
	}
	if start < 0 || stop < start || stop > v.shape[axis] {
		return nil, fmt.Errorf("slice [%d:%d) of an axis of %d elements", start, stop, v.shape[axis])
	}
	shape := slices.Clone(v.shape)
	shape[axis] = stop - start
	if axis > 0 {
		at := make([]int64, len(shape))
		at[axis] = start
		part := make([][]byte, grid.Size(shape))
		grid.Copy(part, shape, make([]int64, len(shape)), v.Elements(), v.shape, at, shape, 1)
		return Strings(part, shape...)
	}
	row := grid.Size(shape[1:])
	if v.offsets32 != nil {
		return newVLen(v.offsets32[start*row:stop*row+1], v.data, shape), nil
	}
	return newVLen(v.offsets64[start*row:stop*row+1], v.data, shape), nil
}

func (v *VLen) transpose(order []int) *VLen {
	shape := make([]int64, len(order))
	for i, axis := range order {
		shape[i] = v.shape[axis]
	}
	moved := make([][]byte, v.Len())
	grid.Transpose(moved, v.Elements(), v.shape, order, 1)
	out, _ := Strings(moved, shape...) // as many strings as before
	return out
}

// Retain does nothing: the memory is Go's. It makes a VLen Values.
func (v *VLen) Retain() {}

// Release does nothing; see Retain.
func (v *VLen) Release() {}
