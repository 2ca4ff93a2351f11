package layout

import (
	"cmp"
	"math/bits"
	"slices"
)

// Nest is the nest of loops that walks one or more arrays of one shape
// together: the fewest axes that visit the same tuples of elements. The last
// axis is the innermost loop.
type Nest struct {
	Shape   []int64   // no extent is 1; none at all for a single element
	Strides [][]int64 // of each array, along each axis of Shape
	Offsets []int64   // to add to where each array begins
}

// Collapse makes a nest of arrays of one shape, where the order of visits is of
// no matter: axes of extent 1 are dropped, an axis along which the first array
// that moves goes backwards is turned around for all, axes are sorted so that the first
// array's strides fall towards the last axis (ties by the other arrays' in
// turn), and neighbours that are one run in every array are joined. A shape
// without elements gives a nest with an extent of 0.
func Collapse(shape []int64, strides ...[]int64) Nest {
	var axesRoom [usual]int
	axes := axesRoom[:0]
	for i, d := range shape {
		if d == 0 {
			return Nest{Shape: []int64{0}, Strides: zeros(len(strides)), Offsets: make([]int64, len(strides))}
		}
		if d != 1 {
			axes = append(axes, i)
		}
	}
	// All that the nest holds is one piece of memory: a small operation makes many.
	room := make([]int64, (1+len(strides))*len(axes)+len(strides))
	part := func(n int) (p []int64) {
		p, room = room[:n:n], room[n:]
		return p
	}
	n := Nest{Offsets: part(len(strides)), Shape: part(len(axes))[:0], Strides: make([][]int64, len(strides))}
	for a := range strides {
		n.Strides[a] = part(len(axes))[:0]
	}
	var signRoom [usual]int64
	sign := append(signRoom[:0], shape...) // as long; 1 or -1 for each of axes
	for _, i := range axes {
		sign[i] = 1
		if first(strides, i) < 0 {
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
		if k := len(n.Shape) - 1; k >= 0 && joins(n, strides, k, i, shape[i], sign[i]) {
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

// usual is how many axes arrays have at most, as a rule.
const usual = 8

// first is the stride of the first array that moves along the axis.
func first(strides [][]int64, axis int) int64 {
	for _, s := range strides {
		if s[axis] != 0 {
			return s[axis]
		}
	}
	return 0
}

// joins tells whether axis k of the nest steps over exactly axis i of the
// arrays, in each of them.
func joins(n Nest, strides [][]int64, k, i int, extent, sign int64) bool {
	for a, s := range strides {
		if n.Strides[a][k] != s[i]*sign*extent {
			return false
		}
	}
	return true
}

func magnitude(stride int64) int64 { return max(stride, -stride) }

func zeros(n int) [][]int64 {
	out := make([][]int64, n)
	for i := range out {
		out[i] = []int64{0}
	}
	return out
}

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
