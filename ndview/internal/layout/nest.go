package layout

import (
	"cmp"
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
