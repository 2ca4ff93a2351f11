package zarr

import (
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
	"github.com/quiver-gpu/quiver/zarr/internal/index"
)

// ParseSelection parses a selection from JSON: the kinds box, point, points, slice and
// transform of zarr-python's package zarr-indexing. The shape of the result is that of
// the domain, and steps may be negative. Positions do not count from the end. Infinite
// bounds are those of the array. It returns an error wrapping [ErrSelection] if the JSON
// is malformed.
func ParseSelection(raw []byte) (Selection, error) {
	t, err := index.ParseTransform(raw)
	if err != nil {
		return Selection{}, fmt.Errorf("zarr.ParseSelection: %w: %w", err, ErrSelection)
	}
	return Selection{kind: selectTransform, transform: t}, nil
}

func (s Selection) applyTransform(base index.Selection) (index.Selection, error) {
	t := s.transform
	if len(t.Output) != len(base.Shape) {
		return index.Selection{}, fmt.Errorf("output of %d axes for %d: %w", len(t.Output), len(base.Shape), ErrSelection)
	}
	low, shape, err := resolveDomain(t, base.Shape)
	if err != nil {
		return index.Selection{}, err
	}
	axes := make([]index.Positions, len(t.Output))
	dropped := make([]bool, len(axes))
	next, outer := 0, true // outer: every axis of the domain is used once, in order
	for i, m := range t.Output {
		switch {
		case m.Axis >= 0:
			outer = outer && m.Axis == next
			next++
			axes[i] = index.Range(m.Offset+m.Stride*low[m.Axis], m.Stride, shape[m.Axis])
		case m.Array == nil:
			axes[i], dropped[i] = index.Range(m.Offset, 1, 1), true
		case len(shape) == 1 && slices.Equal(m.Array.Shape, shape):
			outer = outer && len(t.Output) == 1
			next++
			list := make([]int64, len(m.Array.Values))
			for j, v := range m.Array.Values {
				list[j] = m.Offset + m.Stride*v
			}
			axes[i] = index.List(list)
		default:
			outer = false
		}
	}
	var out index.Selection
	if outer && next == len(shape) {
		if err := (index.Selection{Axes: axes}).CheckInside(base.Shape); err != nil {
			return out, fmt.Errorf("%w: %w", err, arrowbuf.ErrOutOfRange)
		}
		return base.Outer(axes, dropped), nil
	}
	points, err := transformPoints(t, low, shape)
	if err != nil {
		return out, err
	}
	if err := (index.Selection{Points: points}).CheckInside(base.Shape); err != nil {
		return out, fmt.Errorf("%w: %w", err, arrowbuf.ErrOutOfRange)
	}
	return base.Pick(points, shape), nil
}

// resolveDomain returns the origin and the shape of the domain of a transform of an
// array of the given shape.
func resolveDomain(t *index.Transform, array []int64) (low, shape []int64, err error) {
	low, shape = make([]int64, len(t.Min)), make([]int64, len(t.Min))
	for axis := range t.Min {
		from, to := t.Min[axis].Value, t.Max[axis].Value
		if t.Min[axis].Infinite != 0 || t.Max[axis].Infinite != 0 {
			i := slices.IndexFunc(t.Output, func(m index.Map) bool { return m.Axis == axis && m.Stride == 1 })
			if i < 0 {
				return nil, nil, fmt.Errorf("axis %d is infinite: %w", axis, ErrSelection)
			}
			if t.Min[axis].Infinite != 0 {
				from = -t.Output[i].Offset
			}
			if t.Max[axis].Infinite != 0 {
				to = array[i] - t.Output[i].Offset
			}
		}
		low[axis], shape[axis] = from, max(to-from, 0)
	}
	if _, err := grid.ByteSize(shape, 8); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", err, ErrSelection)
	}
	return low, shape, nil
}

// transformPoints returns the coordinates of all elements of a domain.
func transformPoints(t *index.Transform, low, shape []int64) ([][]int64, error) {
	n := grid.Size(shape)
	if err := arrowbuf.CheckHostMemory(n); err != nil {
		return nil, err
	}
	points := make([][]int64, len(t.Output))
	for i, m := range t.Output {
		if n == 0 && m.Array != nil && len(m.Array.Values) == 0 {
			continue // nested lists cannot show the axes after an empty one
		}
		if m.Array != nil && len(m.Array.Shape) != len(shape) {
			return nil, fmt.Errorf("index array of shape %v for a domain of shape %v: %w", m.Array.Shape, shape, ErrSelection)
		}
		if m.Array != nil {
			for axis, extent := range m.Array.Shape {
				if extent != 1 && extent != shape[axis] {
					return nil, fmt.Errorf("index array of shape %v for a domain of shape %v: %w", m.Array.Shape, shape, ErrSelection)
				}
			}
		}
		points[i] = make([]int64, 0, n)
		for at := range grid.Indices(shape) {
			position := m.Offset
			switch {
			case m.Axis >= 0:
				position += m.Stride * (low[m.Axis] + at[m.Axis])
			case m.Array != nil:
				number := int64(0)
				for axis, extent := range m.Array.Shape {
					number = number*extent + min(at[axis], extent-1)
				}
				position += m.Stride * m.Array.Values[number]
			}
			points[i] = append(points[i], position)
		}
	}
	return points, nil
}
