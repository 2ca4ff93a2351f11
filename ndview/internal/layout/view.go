package layout

import (
	"cmp"
	"fmt"
	"slices"
)

// NormalizeAxis returns the position of an axis, which may be counted from the end, among n
// axes.
func NormalizeAxis(axis, n int) (int, error) {
	if axis < -n || axis >= n {
		return 0, fmt.Errorf("axis %d of an array of %d axes: %w", axis, n, ErrShape)
	}
	if axis < 0 {
		axis += n
	}
	return axis, nil
}

// MarkAxes reports for each of n axes whether it is named. Naming an axis twice returns
// ErrShape.
func MarkAxes(axes []int, n int) ([]bool, error) {
	named := make([]bool, n)
	for _, axis := range axes {
		i, err := NormalizeAxis(axis, n)
		if err != nil {
			return nil, err
		}
		if named[i] {
			return nil, fmt.Errorf("axes %v name axis %d twice: %w", axes, i, ErrShape)
		}
		named[i] = true
	}
	return named, nil
}

// AxesByStride returns the axes in order of descending magnitudes of strides.
func AxesByStride(strides []int64) []int {
	order := make([]int, len(strides))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(magnitude(strides[j]), magnitude(strides[i])) })
	return order
}

// IterationOrder returns the axes in the order of NumPy's iterators with order K: as Falling,
// but an axis of stride 0 is not compared with others, and keeps its position among
// them.
func IterationOrder(shape, strides []int64) []int {
	order := make([]int, 0, len(strides)) // innermost first
	for axis := len(strides) - 1; axis >= 0; axis-- {
		step, position := magnitude(strides[axis]), len(order)
		for k := len(order) - 1; k >= 0 && step != 0 && shape[axis] > 1; k-- {
			other := magnitude(strides[order[k]])
			if other == 0 || shape[order[k]] == 1 {
				continue
			}
			if other <= step {
				break
			}
			position = k
		}
		order = slices.Insert(order, position, axis)
	}
	slices.Reverse(order)
	return order
}

// InferShape returns a shape for n elements, in which one extent may be -1 and is computed
// from the others. It returns ErrShape if that is ambiguous, or if the shape does not
// have n elements.
func InferShape(shape []int64, n int64) ([]int64, error) {
	out, open := slices.Clone(shape), -1
	for i, d := range shape {
		switch {
		case d < -1:
			return nil, fmt.Errorf("shape %v has a negative extent other than -1: %w", shape, ErrShape)
		case d == -1 && open >= 0:
			return nil, fmt.Errorf("shape %v has more than one extent of -1: %w", shape, ErrShape)
		case d == -1:
			open, out[i] = i, 1
		}
	}
	known, err := CheckShape(1, out)
	if err != nil {
		return nil, err
	}
	if open >= 0 && known > 0 && n%known == 0 {
		out[open], known = n/known, n
	} else if open >= 0 {
		known = -1
	}
	if known != n {
		return nil, fmt.Errorf("reshaping %d elements to %v: %w", n, shape, ErrShape)
	}
	return out, nil
}

// Permute returns r with its axes reordered: axis i of the result is axis order[i] of
// r.
func (r Run) Permute(order []int) (Run, error) {
	n := len(r.Shape)
	if len(order) != n {
		return Run{}, fmt.Errorf("order %v for %d axes: %w", order, n, ErrShape)
	}
	if _, err := MarkAxes(order, n); err != nil {
		return Run{}, err
	}
	out := Run{Offset: r.Offset, Size: r.Size, Shape: make([]int64, n), Strides: make([]int64, n)}
	for i, from := range order {
		if from < 0 {
			from += n
		}
		out.Shape[i], out.Strides[i] = r.Shape[from], r.Strides[from]
	}
	return out, nil
}

// Squeeze removes the named axes of extent 1. It returns ErrShape if one has another
// extent.
func (r Run) Squeeze(axes []int) (Run, error) {
	named, err := MarkAxes(axes, len(r.Shape))
	if err != nil {
		return Run{}, err
	}
	out := Run{Offset: r.Offset, Size: r.Size, Shape: []int64{}, Strides: []int64{}}
	for i, d := range r.Shape {
		switch {
		case d == 1 && named[i]:
		case named[i]:
			return Run{}, fmt.Errorf("squeezing axis %d of shape %v: its extent is not 1: %w", i, r.Shape, ErrShape)
		default:
			out.Shape, out.Strides = append(out.Shape, d), append(out.Strides, r.Strides[i])
		}
	}
	return out, nil
}

// Expand inserts axes of extent 1 at the given positions of the result.
func (r Run) Expand(axes []int) (Run, error) {
	n := len(r.Shape) + len(axes)
	named, err := MarkAxes(axes, n)
	if err != nil {
		return Run{}, err
	}
	shape, from := make([]int64, n), 0
	for i := range shape {
		shape[i] = 1
		if !named[i] {
			shape[i] = r.Shape[from]
			from++
		}
	}
	out, _ := r.Reshape(shape, false) // axes of extent 1 never need a copy
	return out, nil
}

// Reshape returns r with another shape of as many elements, in the same C order, or
// Fortran order. It returns false if no strides do that, so that a copy is necessary.
func (r Run) Reshape(shape []int64, fortran bool) (Run, bool) {
	out := Run{Offset: r.Offset, Size: r.Size, Shape: shape}
	switch {
	case fortran && IsFContiguous(r.Size, r.Shape, r.Strides):
		out.Strides = FStrides(r.Size, shape)
		return out, true
	case !fortran && IsCContiguous(r.Size, r.Shape, r.Strides):
		out.Strides = CStrides(r.Size, shape)
		return out, true
	}
	var from, by []int64 // r without axes of extent 1
	for i, d := range r.Shape {
		if d != 1 {
			from, by = append(from, d), append(by, r.Strides[i])
		}
	}
	// Divide both shapes into the smallest groups of axes with equal products. The old
	// axes of a group must be one run, which the new axes divide.
	out.Strides = make([]int64, 0, len(shape))
	for i, j := 0, 0; i < len(from); {
		old, new := i+1, j+1
		for a, b := from[i], shape[j]; a != b; {
			if a < b {
				a *= from[old]
				old++
			} else {
				b *= shape[new]
				new++
			}
		}
		for k := i + 1; k < old; k++ {
			if fortran && by[k] != by[k-1]*from[k-1] || !fortran && by[k-1] != by[k]*from[k] {
				return Run{}, false
			}
		}
		// Strides of an array whose elements are as far apart as along the group's
		// fastest axis.
		if fortran {
			out.Strides = append(out.Strides, FStrides(by[i], shape[j:new])...)
		} else {
			out.Strides = append(out.Strides, CStrides(by[old-1], shape[j:new])...)
		}
		i, j = old, new
	}
	// Axes of extent 1 at the end.
	last := len(out.Strides) - 1
	stride := out.Strides[last]
	if fortran {
		stride *= shape[last]
	}
	for len(out.Strides) < len(shape) {
		out.Strides = append(out.Strides, stride)
	}
	return out, true
}

// Retype returns r with elements of another size, by NumPy's rule: the last axis, which
// must be contiguous, changes its extent. It returns ErrShape if there is no axis, or
// if the new size does not divide its bytes.
func (r Run) Retype(size int64) (Run, error) {
	out := Run{Offset: r.Offset, Size: size, Shape: slices.Clone(r.Shape), Strides: slices.Clone(r.Strides)}
	if size == r.Size {
		return out, nil
	}
	last := len(r.Shape) - 1
	if last < 0 {
		return Run{}, fmt.Errorf("an element of %d bytes as %d bytes: an array without axes keeps its size: %w", r.Size, size, ErrShape)
	}
	extent, stride := r.Shape[last], r.Strides[last]
	if extent != 1 && stride != r.Size && Product(r.Shape) > 0 {
		return Run{}, fmt.Errorf("elements of %d bytes as %d bytes: the last axis has stride %d, not %d: %w",
			r.Size, size, stride, r.Size, ErrShape)
	}
	if size < r.Size && r.Size%size != 0 || size > r.Size && extent*r.Size%size != 0 {
		return Run{}, fmt.Errorf("elements of %d bytes, %d along the last axis, as elements of %d bytes: they do not divide: %w",
			r.Size, extent, size, ErrShape)
	}
	out.Shape[last], out.Strides[last] = extent*r.Size/size, size
	return out, nil
}
