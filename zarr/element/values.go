package element

import (
	"fmt"

	"github.com/quiver-gpu/quiver/ndview"
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
