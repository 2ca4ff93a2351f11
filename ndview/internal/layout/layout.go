// Package layout computes shapes and strides: where the elements of an array are, and
// how several arrays are traversed together. It knows neither memory nor types.
// Extents count elements; strides and offsets count bytes.
package layout

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrShape is returned for shapes, strides or axes that do not fit each other.
var ErrShape = errors.New("shape mismatch")

// Run describes the elements of an array: each has Size bytes, at Offset plus the sum
// of index times stride over the axes. Offsets of two runs count from one origin;
// addresses may be used, too. All bytes lie within memory, so positions and their
// differences are far below 2^62.
type Run struct {
	Offset, Size   int64
	Shape, Strides []int64
}

// Product returns the number of elements of a shape that Bytes has checked.
func Product(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return n
}

// CheckShape checks a shape, and returns the bytes of a contiguous array of elements of size
// bytes. As in NumPy, the other extents of an empty array must be valid, too. Errors
// wrap ErrShape.
func CheckShape(size int64, shape []int64) (int64, error) {
	n, empty := size, false
	for _, d := range shape {
		if d < 0 {
			return 0, fmt.Errorf("shape %v has a negative extent: %w", shape, ErrShape)
		}
		if d == 0 {
			empty = true
			continue
		}
		if n > math.MaxInt64/d {
			return 0, fmt.Errorf("shape %v of elements of %d bytes exceeds 2^63 bytes: %w", shape, size, ErrShape)
		}
		n *= d
	}
	if empty {
		return 0, nil
	}
	return n, nil
}

// CStrides returns the strides of a contiguous array whose last axis varies fastest.
func CStrides(size int64, shape []int64) []int64 {
	strides := make([]int64, len(shape))
	for i := len(shape) - 1; i >= 0; i-- {
		strides[i] = size
		size *= max(shape[i], 1)
	}
	return strides
}

// FStrides returns the strides of a contiguous array whose first axis varies fastest.
func FStrides(size int64, shape []int64) []int64 {
	strides := make([]int64, len(shape))
	for i := range shape {
		strides[i] = size
		size *= max(shape[i], 1)
	}
	return strides
}

// IsCContiguous reports whether the elements are contiguous in C order. Arrays of at most one
// element are.
func IsCContiguous(size int64, shape, strides []int64) bool {
	gapless := true
	for i := len(shape) - 1; i >= 0; i-- {
		if shape[i] == 0 {
			return true
		}
		if shape[i] != 1 {
			gapless = gapless && strides[i] == size
			size *= shape[i]
		}
	}
	return gapless
}

// IsFContiguous reports whether the elements are contiguous in Fortran order. Arrays of at most
// one element are.
func IsFContiguous(size int64, shape, strides []int64) bool {
	gapless := true
	for i := range shape {
		if shape[i] == 0 {
			return true
		}
		if shape[i] != 1 {
			gapless = gapless && strides[i] == size
			size *= shape[i]
		}
	}
	return gapless
}

// ByteBounds returns the half-open range of bytes that the elements occupy, which is empty
// for no elements. It returns false if the range exceeds an int64.
func ByteBounds(size, offset int64, shape, strides []int64) (low, high int64, ok bool) {
	if Product(shape) == 0 {
		return offset, offset, true
	}
	low, high = offset, offset
	for i, d := range shape {
		steps := d - 1
		reach := steps * strides[i]
		if steps > 0 && reach/steps != strides[i] {
			return 0, 0, false
		}
		switch {
		case reach < 0 && low < math.MinInt64-reach, reach > 0 && high > math.MaxInt64-reach:
			return 0, 0, false
		case reach < 0:
			low += reach
		default:
			high += reach
		}
	}
	if high > math.MaxInt64-size {
		return 0, 0, false
	}
	return low, high + size, true
}

// BroadcastTo returns r broadcast to a shape, which Bytes has checked.
func (r Run) BroadcastTo(shape []int64) (Run, error) {
	strides, err := BroadcastStrides(r.Shape, r.Strides, shape)
	if err != nil {
		return Run{}, err
	}
	for i, d := range shape {
		if d == 1 {
			strides[i] = 0 // as in NumPy
		}
	}
	return Run{Offset: r.Offset, Size: r.Size, Shape: slices.Clone(shape), Strides: strides}, nil
}

// Broadcast returns the common shape of arrays by NumPy's rule: axes are matched from
// the last, a missing axis counts as 1, and 1 takes the extent of the others.
func Broadcast(shapes ...[]int64) ([]int64, error) {
	n := 0
	for _, s := range shapes {
		n = max(n, len(s))
	}
	out := make([]int64, n)
	for i := range out {
		out[i] = 1
	}
	for _, s := range shapes {
		for i, d := range s {
			o := &out[n-len(s)+i]
			switch {
			case d == *o || d == 1:
			case *o == 1:
				*o = d
			default:
				return nil, fmt.Errorf("shapes %v do not broadcast: %w", shapes, ErrShape)
			}
		}
	}
	return out, nil
}

// BroadcastStrides returns strides that broadcast an array of one shape to another: 0 along the
// axes that are repeated.
func BroadcastStrides(shape, strides, to []int64) ([]int64, error) {
	skip := len(to) - len(shape)
	if skip < 0 {
		return nil, fmt.Errorf("shape %v does not broadcast to %v: %w", shape, to, ErrShape)
	}
	out := make([]int64, len(to))
	for i, d := range shape {
		switch {
		case d == to[skip+i]:
			out[skip+i] = strides[i]
		case d != 1:
			return nil, fmt.Errorf("shape %v does not broadcast to %v: %w", shape, to, ErrShape)
		}
	}
	return out, nil
}
