package layout

import (
	"cmp"
	"math/bits"
	"slices"
)

// Nest is a nest of loops over one or more arrays of the same shape, with as few axes
// as visit the same tuples of elements. The last axis is the innermost loop.
type Nest struct {
	Shape   []int64   // without extents of 1; empty for a single element
	Strides [][]int64 // per array, per axis of Shape
	Offsets []int64   // to add to the address of each array
}

// Collapse returns a nest of arrays of one shape; the order of visits is not preserved.
// Axes of extent 1 are dropped. An axis along which the first array with a nonzero
// stride goes backwards is reversed for all arrays. Axes are sorted by descending
// strides of the first array, then of the others in turn. Neighbouring axes that are
// one run in every array are merged. If there are no elements, the nest has an extent
// of 0.
func Collapse(shape []int64, strides ...[]int64) Nest {
	var axesArray [usualAxes]int
	axes := axesArray[:0]
	for i, d := range shape {
		if d == 0 {
			return Nest{Shape: []int64{0}, Strides: zeroStrides(len(strides)), Offsets: make([]int64, len(strides))}
		}
		if d != 1 {
			axes = append(axes, i)
		}
	}
	// The nest is one allocation, as small operations make many.
	memory := make([]int64, (1+len(strides))*len(axes)+len(strides))
	part := func(n int) (p []int64) {
		p, memory = memory[:n:n], memory[n:]
		return p
	}
	n := Nest{Offsets: part(len(strides)), Shape: part(len(axes))[:0], Strides: make([][]int64, len(strides))}
	for a := range strides {
		n.Strides[a] = part(len(axes))[:0]
	}
	var signArray [usualAxes]int64
	sign := append(signArray[:0], shape...) // same length; 1 or -1 per axis
	for _, i := range axes {
		sign[i] = 1
		if firstStride(strides, i) < 0 {
			sign[i] = -1
			for a, s := range strides {
				n.Offsets[a] += s[i] * (shape[i] - 1)
			}
		}
	}
	slices.SortStableFunc(axes, func(i, j int) int {
		for _, s := range strides {
			if c := cmp.Compare(magnitude(s[j]), magnitude(s[i])); c != 0 {
				return c
			}
		}
		return 0
	})
	for _, i := range axes {
		if k := len(n.Shape) - 1; k >= 0 && canMerge(n, strides, k, i, shape[i], sign[i]) {
			n.Shape[k] *= shape[i]
			for a, s := range strides {
				n.Strides[a][k] = s[i] * sign[i]
			}
			continue
		}
		n.Shape = append(n.Shape, shape[i])
		for a, s := range strides {
			n.Strides[a] = append(n.Strides[a], s[i]*sign[i])
		}
	}
	return n
}

// usualAxes is the number of axes that is rarely exceeded.
const usualAxes = 8

// firstStride returns the first nonzero stride along an axis.
func firstStride(strides [][]int64, axis int) int64 {
	for _, s := range strides {
		if s[axis] != 0 {
			return s[axis]
		}
	}
	return 0
}

// canMerge reports whether a step along axis k of the nest is a whole axis i in every
// array.
func canMerge(n Nest, strides [][]int64, k, i int, extent, sign int64) bool {
	for a, s := range strides {
		if n.Strides[a][k] != s[i]*sign*extent {
			return false
		}
	}
	return true
}

func magnitude(stride int64) int64 { return max(stride, -stride) }

func zeroStrides(n int) [][]int64 {
	out := make([][]int64, n)
	for i := range out {
		out[i] = []int64{0}
	}
	return out
}

// UnitNest returns the nest over two arrays of elements of size bytes, in units of width
// bytes. width is the largest power of two up to 16 that divides the runs of bytes that
// both arrays have, all strides, and align, which combines both addresses. Extents of
// the nest count units, so an element of several units is an axis.
func UnitNest(size int64, align uint64, shape, dst, src []int64) (width int64, n Nest) {
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
		last++ // the axis of single bytes was removed
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

// Split splits n into nests of at most most tuples of elements and at most axes axes, and
// calls do for each. The innermost axes are split last. Each part has its own Offsets.
func (n Nest) Split(most int64, axes int, do func(Nest) error) error {
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
		if err := part.Split(most, axes, do); err != nil {
			return err
		}
	}
	return nil
}
