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
	return a.view(a.dtype, offset, shape, slices.Clone(a.strides))
}

// Transpose permutes the axes: axis i of the result is axis order[i] of a. No
// order reverses them. The result is a view.
func (a *NDBuffer) Transpose(order ...int) (*NDBuffer, error) {
	n := len(a.shape)
	if len(order) == 0 {
		order = make([]int, n)
		for i := range order {
			order[i] = n - 1 - i
		}
	}
	if len(order) != n {
		return nil, fmt.Errorf("order %v for %d axes: %w", order, n, ErrShape)
	}
	shape, strides := make([]int64, n), make([]int64, n)
	seen := make([]bool, n)
	for i, from := range order {
		if from < 0 || from >= n || seen[from] {
			return nil, fmt.Errorf("order %v is not a permutation of %d axes: %w", order, n, ErrShape)
		}
		seen[from] = true
		shape[i], strides[i] = a.shape[from], a.strides[from]
	}
	return a.view(a.dtype, a.offset, shape, strides)
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
	return a.view(a.dtype, a.offset, slices.Clone(shape), cStrides(a.dtype, shape))
}

// View looks at the same bytes as elements of another dtype of the same size.
// The elements of Bool must be bytes of 0 and 1, which is the caller's to know.
func (a *NDBuffer) View(dtype DType) (*NDBuffer, error) {
	if dtype.size != a.dtype.size {
		return nil, fmt.Errorf("viewing %s as %s: %w", a.dtype, dtype, ErrDType)
	}
	return a.view(dtype, a.offset, slices.Clone(a.shape), slices.Clone(a.strides))
}

// view is an array over the buffer of a, which has all its elements.
func (a *NDBuffer) view(dtype DType, offset int64, shape, strides []int64) (*NDBuffer, error) {
	if err := a.hold(); err != nil {
		return nil, err
	}
	defer a.Release()
	a.buf.Retain()
	return over(a.buf, dtype, offset, shape, strides), nil
}
