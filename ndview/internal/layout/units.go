package layout

import (
	"math/bits"
	"slices"
)

// Units makes the nest that walks two arrays of elements of size bytes together,
// and says in which units elements are moved: width is the largest power of two,
// up to 16, that divides the runs of bytes that both have, all strides, and
// align, which has both addresses. The extents of the nest count units, so an
// element that is no unit is an axis of its own.
func Units(size int64, align uint64, shape, dst, src []int64) (width int64, n Nest) {
	grow := func(s []int64, last int64) []int64 { return append(s[:len(s):len(s)], last) }
	n = Collapse(grow(shape, size), grow(dst, 1), grow(src, 1))
	last := len(n.Shape) - 1
	if last < 0 {
		return 1, n
	}
	run := int64(1)
	if n.Strides[0][last] == 1 && n.Strides[1][last] == 1 {
		run = n.Shape[last]
	} else {
		last++ // a single byte has no axis
	}
	align |= uint64(run) | 16
	for k := range last {
		align |= uint64(n.Strides[0][k]) | uint64(n.Strides[1][k])
	}
	width = 1 << bits.TrailingZeros64(align|uint64(n.Offsets[0])|uint64(n.Offsets[1]))
	switch {
	case run == 1:
	case run == width:
		n.Shape = n.Shape[:last]
		n.Strides[0], n.Strides[1] = n.Strides[0][:last], n.Strides[1][:last]
	default:
		n.Shape[last] = run / width
		n.Strides[0][last], n.Strides[1][last] = width, width
	}
	return width, n
}

// Cut calls do with nests of at most so many tuples of elements and so many axes
// which together are n; the last are cut last. Each has its own Offsets.
func (n Nest) Cut(most int64, axes int, do func(Nest) error) error {
	if len(n.Shape) <= axes && Product(n.Shape) <= most {
		return do(n)
	}
	inner := Product(n.Shape[1:])
	step := max(most/inner, 1)
	if len(n.Shape) > axes {
		step = 1
	}
	for i := int64(0); i < n.Shape[0]; i += step {
		part := Nest{Offsets: make([]int64, len(n.Offsets)), Strides: make([][]int64, len(n.Strides))}
		rows, gone := min(step, n.Shape[0]-i), 0
		if rows == 1 {
			gone = 1
		}
		part.Shape = slices.Clone(n.Shape[gone:])
		if gone == 0 {
			part.Shape[0] = rows
		}
		for a := range n.Strides {
			part.Strides[a] = n.Strides[a][gone:]
			part.Offsets[a] = n.Offsets[a] + i*n.Strides[a][0]
		}
		if err := part.Cut(most, axes, do); err != nil {
			return err
		}
	}
	return nil
}
