package element

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
)

// Values are the elements of a chunk, of rows or of an array: an *ndview.NDBuffer or a
// *[VLen]. They are reference counted. A function does not release its arguments, and
// the caller must release the Values that a function returns.
type Values interface {
	// Shape returns the number of elements along each axis. The caller must not modify
	// it.
	Shape() []int64
	Retain()
	Release()
}

var (
	_ Values = (*ndview.NDBuffer)(nil)
	_ Values = (*VLen)(nil)
)

// CheckValues returns an error unless v can hold elements of the type.
func (t Type) CheckValues(v Values) error {
	switch v := v.(type) {
	case *ndview.NDBuffer:
		if !t.IsVLen() && v != nil && v.DType() == t.dtype {
			return nil
		}
		if v != nil {
			return fmt.Errorf("values of type %s, want %s", v.DType(), t)
		}
	case *VLen:
		if t.IsVLen() && v != nil {
			return nil
		}
		if v != nil {
			return fmt.Errorf("variable-length values, want %s", t)
		}
	}
	return fmt.Errorf("values of Go type %T, want %s", v, t)
}

// Slice returns elements [start, stop) along an axis. It copies only a VLen, and only
// along axes other than the first. The caller must release the result.
func Slice(v Values, axis int, start, stop int64) (Values, error) {
	switch v := v.(type) {
	case *ndview.NDBuffer:
		return asValues(v.Slice(axis, start, stop))
	case *VLen:
		return asValues(v.Slice(axis, start, stop))
	default:
		return nil, fmt.Errorf("values of Go type %T", v)
	}
}

// SliceBox returns extent[i] elements from at[i] along each axis i, like [Slice].
func SliceBox(v Values, at, extent []int64) (Values, error) {
	if v == nil {
		return nil, errors.New("element.SliceBox: nil values")
	}
	if nd, ok := v.(*ndview.NDBuffer); ok { // one view for all axes
		keys := make([]ndview.Key, len(at))
		for axis := range at {
			if n := nd.Shape()[axis]; at[axis] < 0 || extent[axis] < 0 || at[axis] > n-extent[axis] { // Index would cut it
				return nil, fmt.Errorf("element.SliceBox: %d elements from %d along axis %d, which has %d: %w", extent[axis], at[axis], axis, n, ndview.ErrShape)
			}
			keys[axis] = ndview.Span(at[axis], at[axis]+extent[axis])
		}
		return asValues(nd.Index(keys...))
	}
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

// Transpose permutes the axes: axis i of the result is axis order[i] of v. It copies
// only a VLen. The caller must release the result.
func Transpose(v Values, order []int) (Values, error) {
	if v == nil {
		return nil, errors.New("element.Transpose: nil values")
	}
	if len(order) == 0 { // ndview would reverse the axes
		v.Retain()
		return v, nil
	}
	switch v := v.(type) {
	case *ndview.NDBuffer:
		return asValues(v.Transpose(order...))
	case *VLen:
		return v.transpose(order), nil
	default:
		return nil, fmt.Errorf("values of Go type %T", v)
	}
}

// asValues returns a nil interface instead of a nil pointer in an interface.
func asValues[V Values](v V, err error) (Values, error) {
	if err != nil {
		return nil, err
	}
	return v, nil
}

// Offset is an offset of Arrow's string (32-bit) or large string (64-bit) layout.
type Offset interface{ int32 | int64 }

// VLen is an immutable N-dimensional array of byte strings on the host, in the layout
// of Arrow. Element i in C order is bytes [offsets[i], offsets[i+1]) of the data. The
// first offset need not be 0.
type VLen struct {
	shape     []int64
	offsets32 []int32 // exactly one of offsets32 and offsets64 is not nil
	offsets64 []int64
	data      []byte
}

// NewVLen wraps offsets and data as an array of the given shape without a copy; the
// caller must not modify them afterwards. It returns an error unless the offsets
// ascend, lie within the data and are one more than the elements. An empty array may
// omit them.
func NewVLen[O Offset](offsets []O, data []byte, shape ...int64) (*VLen, error) {
	n, err := grid.ByteSize(shape, 1)
	if err != nil {
		return nil, err
	}
	if n == 0 && len(offsets) == 0 {
		offsets = []O{0}
	}
	if int64(len(offsets)) != n+1 {
		return nil, fmt.Errorf("%d offsets for %d strings, want %d", len(offsets), n, n+1)
	}
	if offsets[0] < 0 || int64(offsets[n]) > int64(len(data)) {
		return nil, fmt.Errorf("offsets from %d to %d exceed %d bytes", offsets[0], offsets[n], len(data))
	}
	for i := range n {
		if offsets[i+1] < offsets[i] {
			return nil, fmt.Errorf("offset %d is %d, less than its predecessor %d", i+1, offsets[i+1], offsets[i])
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

// PackVLen copies byte strings in C order into an array of the given shape. Offsets
// have 32 bits if those suffice.
func PackVLen[S ~string | ~[]byte](elements []S, shape ...int64) (*VLen, error) {
	if n, err := grid.ByteSize(shape, 1); err != nil || n != int64(len(elements)) {
		return nil, fmt.Errorf("%d strings do not fit shape %v", len(elements), shape)
	}
	total := 0
	for _, e := range elements {
		total += len(e)
	}
	if total <= math.MaxInt32 {
		return packVLen[int32](elements, total, shape), nil
	}
	return packVLen[int64](elements, total, shape), nil
}

func packVLen[O Offset, S ~string | ~[]byte](elements []S, total int, shape []int64) *VLen {
	offsets, data := make([]O, len(elements)+1), make([]byte, 0, total)
	for i, e := range elements {
		data = append(data, e...)
		offsets[i+1] = O(len(data))
	}
	return newVLen(offsets, data, slices.Clone(shape))
}

// Shape returns the number of elements along each axis. The caller must not modify it.
func (v *VLen) Shape() []int64 { return v.shape }

// Len returns the number of elements.
func (v *VLen) Len() int64 { return grid.Size(v.shape) }

// Offsets returns the offsets as 32-bit or as 64-bit integers; the other result is nil.
func (v *VLen) Offsets() ([]int32, []int64) { return v.offsets32, v.offsets64 }

// Data returns the bytes that the offsets refer to.
func (v *VLen) Data() []byte { return v.data }

// At returns element i in C order without a copy.
func (v *VLen) At(i int64) []byte {
	if v.offsets32 != nil {
		return v.data[v.offsets32[i]:v.offsets32[i+1]]
	}
	return v.data[v.offsets64[i]:v.offsets64[i+1]]
}

// NBytes returns the total size of the elements in bytes, excluding offsets.
func (v *VLen) NBytes() int64 {
	if o := v.offsets32; o != nil {
		return int64(o[len(o)-1]) - int64(o[0])
	}
	return v.offsets64[len(v.offsets64)-1] - v.offsets64[0]
}

// Elements returns all elements in C order without copying their bytes.
func (v *VLen) Elements() [][]byte {
	all := make([][]byte, v.Len())
	for i := range all {
		all[i] = v.At(int64(i))
	}
	return all
}

// Slice returns elements [start, stop) along an axis. It copies the data unless axis is
// 0.
func (v *VLen) Slice(axis int, start, stop int64) (*VLen, error) {
	if axis < 0 || axis >= len(v.shape) {
		return nil, fmt.Errorf("axis %d is outside %d axes", axis, len(v.shape))
	}
	if start < 0 || stop < start || stop > v.shape[axis] {
		return nil, fmt.Errorf("slice [%d, %d) is outside %d elements", start, stop, v.shape[axis])
	}
	shape := slices.Clone(v.shape)
	shape[axis] = stop - start
	if axis > 0 {
		at := make([]int64, len(shape))
		at[axis] = start
		part := make([][]byte, grid.Size(shape))
		grid.Copy(part, shape, make([]int64, len(shape)), v.Elements(), v.shape, at, shape, 1)
		return PackVLen(part, shape...)
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
	out, _ := PackVLen(moved, shape...) // cannot fail: the number of strings is unchanged
	return out
}

// Retain does nothing, since the garbage collector owns the memory. It implements
// [Values].
func (v *VLen) Retain() {}

// Release does nothing; see [VLen.Retain].
func (v *VLen) Release() {}
