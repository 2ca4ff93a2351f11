package ndview

import (
	"fmt"
	"slices"
)

// Slice returns elements start, start+1, ... stop-1 along one axis, as a view.
// Unlike Python's slices it does not clamp: 0 <= start <= stop <= extent.
func (a *NDBuffer) Slice(axis int, start, stop int64) (*NDBuffer, error) {
	if axis < 0 || axis >= len(a.shape) {
		return nil, fmt.Errorf("axis %d of an array of %d axes: %w", axis, len(a.shape), ErrShape)
	}
	if start < 0 || stop < start || stop > a.shape[axis] {
		return nil, fmt.Errorf("slice [%d:%d) of an axis of %d elements: %w", start, stop, a.shape[axis], ErrShape)
	}
	shape := slices.Clone(a.shape)
	shape[axis] = stop - start
	offset := a.offset
	if product(shape) > 0 {
		offset += start * a.strides[axis]
	}
	a.buf.Retain()
	return view(a.buf, a.dtype, offset, shape, slices.Clone(a.strides)), nil
}

// Transpose permutes the axes: axis i of the result is axis order[i] of a. No
// order reverses them. The result is a view.
func (a *NDBuffer) Transpose(order ...int) (*NDBuffer, error) {
	n := len(a.shape)
	if len(order) == 0 {
		for i := n - 1; i >= 0; i-- {
			order = append(order, i)
		}
	}
	shape, strides := make([]int64, n), make([]int64, n)
	seen := make([]bool, n)
	if len(order) != n {
		return nil, fmt.Errorf("order %v for %d axes: %w", order, n, ErrShape)
	}
	for i, from := range order {
		if from < 0 || from >= n || seen[from] {
			return nil, fmt.Errorf("order %v is not a permutation of %d axes: %w", order, n, ErrShape)
		}
		seen[from] = true
		shape[i], strides[i] = a.shape[from], a.strides[from]
	}
	a.buf.Retain()
	return view(a.buf, a.dtype, a.offset, shape, strides), nil
}

// Reshape gives a C-contiguous array another shape of as many elements, as a
// view.
func (a *NDBuffer) Reshape(shape ...int64) (*NDBuffer, error) {
	n, err := byteCount(a.dtype, shape)
	if err != nil {
		return nil, err
	}
	if n != a.NBytes() {
		return nil, fmt.Errorf("reshaping %v to %v: %w", a.shape, shape, ErrShape)
	}
	if !a.IsContiguous() {
		return nil, fmt.Errorf("reshaping an array of strides %v, which is not C-contiguous: %w", a.strides, ErrShape)
	}
	a.buf.Retain()
	return view(a.buf, a.dtype, a.offset, slices.Clone(shape), cStrides(a.dtype, shape)), nil
}

// View looks at the same bytes as elements of another dtype of the same size.
func (a *NDBuffer) View(dtype DType) (*NDBuffer, error) {
	if dtype.size != a.dtype.size {
		return nil, fmt.Errorf("viewing %s as %s: %w", a.dtype, dtype, ErrDType)
	}
	a.buf.Retain()
	return view(a.buf, dtype, a.offset, slices.Clone(a.shape), slices.Clone(a.strides)), nil
}
