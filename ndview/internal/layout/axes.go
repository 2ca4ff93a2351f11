package layout

import (
	"cmp"
	"fmt"
	"slices"
)

// Axis is the place of an axis that may be counted from the end, among n.
func Axis(axis, n int) (int, error) {
	if axis < -n || axis >= n {
		return 0, fmt.Errorf("axis %d of an array of %d axes: %w", axis, n, ErrShape)
	}
	if axis < 0 {
		axis += n
	}
	return axis, nil
}

// Axes tells for each of n axes whether it is named. Naming one twice is
// ErrShape.
func Axes(axes []int, n int) ([]bool, error) {
	named := make([]bool, n)
	for _, axis := range axes {
		i, err := Axis(axis, n)
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

// Permute makes axis order[i] of r axis i of the result.
func (r Run) Permute(order []int) (Run, error) {
	n := len(r.Shape)
	if len(order) != n {
		return Run{}, fmt.Errorf("order %v for %d axes: %w", order, n, ErrShape)
	}
	if _, err := Axes(order, n); err != nil {
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

// Squeeze drops axes of extent 1: those named, or all if none is. Another extent
// is ErrShape.
func (r Run) Squeeze(axes []int) (Run, error) {
	named, err := Axes(axes, len(r.Shape))
	if err != nil {
		return Run{}, err
	}
	out := Run{Offset: r.Offset, Size: r.Size, Shape: []int64{}, Strides: []int64{}}
	for i, d := range r.Shape {
		switch {
		case d == 1 && (named[i] || len(axes) == 0):
		case named[i]:
			return Run{}, fmt.Errorf("squeezing axis %d of shape %v: its extent is not 1: %w", i, r.Shape, ErrShape)
		default:
			out.Shape, out.Strides = append(out.Shape, d), append(out.Strides, r.Strides[i])
		}
	}
	return out, nil
}

// Expand puts axes of extent 1 where the result is to have them.
func (r Run) Expand(axes []int) (Run, error) {
	n := len(r.Shape) + len(axes)
	named, err := Axes(axes, n)
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
	out, _ := r.Reshape(shape, false) // axes of extent 1 never ask for a copy
	return out, nil
}

// Falling is the order of axes by which their strides fall, whatever their sign.
func Falling(strides []int64) []int {
	order := make([]int, len(strides))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(magnitude(strides[j]), magnitude(strides[i])) })
	return order
}

// Walked is the order in which NumPy's iterators go over axes in order K: as
// Falling has it, but an axis that repeats elements, of stride 0, is compared with
// no other, and stays where it is among them.
func Walked(shape, strides []int64) []int {
	order := make([]int, 0, len(strides)) // from the innermost
	for axis := len(strides) - 1; axis >= 0; axis-- {
		step, place := magnitude(strides[axis]), len(order)
		for k := len(order) - 1; k >= 0 && step != 0 && shape[axis] > 1; k-- {
			other := magnitude(strides[order[k]])
			if other == 0 || shape[order[k]] == 1 {
				continue
			}
			if other <= step {
				break
			}
			place = k
		}
		order = slices.Insert(order, place, axis)
	}
	slices.Reverse(order)
	return order
}

// Stretched is r repeated to a shape, which has been checked and to which it
// broadcasts.
func (r Run) Stretched(shape []int64) (Run, error) {
	strides, err := Stretch(r.Shape, r.Strides, shape)
	if err != nil {
		return Run{}, err
	}
	for i, d := range shape {
		if d == 1 {
			strides[i] = 0 // as NumPy has it
		}
	}
	return Run{Offset: r.Offset, Size: r.Size, Shape: slices.Clone(shape), Strides: strides}, nil
}
