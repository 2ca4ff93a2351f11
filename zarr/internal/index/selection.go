package index

import (
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/zarr/internal/grid"
)

// Selection is elements of an array. An outer selection has Axes: the elements at all
// combinations of one position per axis. A selection of points has Points: one list of
// coordinates per axis, of one length.
type Selection struct {
	// Shape is the shape of the result. It lacks the dropped axes.
	Shape []int64
	// Axes are the positions along each axis of the array. Dropped axes have one.
	Axes    []Positions
	Dropped []bool
	// Points are coordinates in C order of the result.
	Points [][]int64
	// IsPoints distinguishes a selection of points from an outer selection of an array
	// without axes.
	IsPoints bool
}

// Whole returns the selection of a whole array.
func Whole(shape []int64) Selection {
	s := Selection{Shape: shape, Axes: make([]Positions, len(shape)), Dropped: make([]bool, len(shape))}
	for i, n := range shape {
		s.Axes[i] = Range(0, 1, n)
	}
	return s
}

// Outer returns the elements of s at all combinations of one position per axis of its
// result. Axes that are dropped have one position.
func (s Selection) Outer(axes []Positions, dropped []bool) Selection {
	if s.IsPoints {
		return s.outerOfPoints(axes, dropped)
	}
	out := Selection{Shape: []int64{}, Axes: slices.Clone(s.Axes), Dropped: slices.Clone(s.Dropped)}
	k := 0
	for i := range s.Axes {
		if s.Dropped[i] {
			continue
		}
		out.Axes[i], out.Dropped[i] = s.Axes[i].Pick(axes[k]), dropped[k]
		if !dropped[k] {
			out.Shape = append(out.Shape, axes[k].Len)
		}
		k++
	}
	return out
}

func (s Selection) outerOfPoints(axes []Positions, dropped []bool) Selection {
	out, counts := Selection{IsPoints: true, Shape: []int64{}}, make([]int64, len(axes))
	for k, p := range axes {
		counts[k] = p.Len
		if !dropped[k] {
			out.Shape = append(out.Shape, p.Len)
		}
	}
	numbers := make([]int64, 0, grid.Size(counts))
	for at := range grid.Indices(counts) {
		number := int64(0)
		for k, p := range axes {
			number = number*s.Shape[k] + p.At(at[k])
		}
		numbers = append(numbers, number)
	}
	out.Points = s.pointsAt(numbers)
	return out
}

// pointsAt returns the points with the given numbers, which count in C order.
func (s Selection) pointsAt(numbers []int64) [][]int64 {
	points := make([][]int64, len(s.Points))
	for i, axis := range s.Points {
		points[i] = make([]int64, len(numbers))
		for j, number := range numbers {
			points[i][j] = axis[number]
		}
	}
	return points
}

// Pick returns the elements of s at coordinates of its result, in the given shape. Each
// axis has one list of coordinates, with one entry per element of the shape.
func (s Selection) Pick(coordinates [][]int64, shape []int64) Selection {
	out := Selection{IsPoints: true, Shape: shape}
	n := grid.Size(shape)
	if s.IsPoints {
		numbers := make([]int64, n)
		for k, axis := range coordinates {
			for j, c := range axis {
				numbers[j] = numbers[j]*s.Shape[k] + c
			}
		}
		out.Points = s.pointsAt(numbers)
		return out
	}
	out.Points = make([][]int64, len(s.Axes))
	k := 0
	for i, axis := range s.Axes {
		points := make([]int64, n)
		if s.Dropped[i] {
			for j := range points {
				points[j] = axis.At(0)
			}
		} else {
			for j, c := range coordinates[k] {
				points[j] = axis.At(c)
			}
			k++
		}
		out.Points[i] = points
	}
	return out
}

// Box returns the box of an outer selection whose positions all have step 1, otherwise
// false.
func (s Selection) Box() (grid.Box, bool) {
	if s.IsPoints {
		return grid.Box{}, false
	}
	box := grid.Box{Origin: make([]int64, len(s.Axes)), Shape: make([]int64, len(s.Axes))}
	for i, p := range s.Axes {
		if !p.isRun(1) {
			return grid.Box{}, false
		}
		box.Origin[i], box.Shape[i] = p.Start, p.Len
	}
	return box, true
}

// FullShape returns the shape of the result with an extent of 1 for each dropped axis.
func (s Selection) FullShape() []int64 {
	if s.IsPoints {
		return []int64{grid.Size(s.Shape)}
	}
	shape := make([]int64, len(s.Axes))
	for i, p := range s.Axes {
		shape[i] = p.Len
	}
	return shape
}

// Part returns the selection as a part of the array, whose elements go to the result in
// C order of FullShape.
func (s Selection) Part() Part {
	p := Part{Paired: s.IsPoints}
	if s.IsPoints {
		p.To = []Positions{Range(0, 1, grid.Size(s.Shape))}
		for _, axis := range s.Points {
			p.From = append(p.From, List(axis))
		}
		return p
	}
	p.From = s.Axes
	for _, axis := range s.Axes {
		p.To = append(p.To, Range(0, 1, axis.Len))
	}
	return p
}

// CheckInside returns an error if a selected position is outside an array of the shape.
func (s Selection) CheckInside(shape []int64) error {
	check := func(axis int, p Positions) error {
		if p.Len == 0 {
			return nil
		}
		if low, high := p.bounds(); low < 0 || high >= shape[axis] {
			return fmt.Errorf("positions from %d to %d of axis %d, which has %d", low, high, axis, shape[axis])
		}
		return nil
	}
	for axis, p := range s.Axes {
		if err := check(axis, p); err != nil {
			return err
		}
	}
	for axis, p := range s.Points {
		if err := check(axis, List(p)); err != nil {
			return err
		}
	}
	return nil
}
