package ndview_test

import (
	"math/rand/v2"
	"slices"

	"github.com/quiver-gpu/quiver/ndview"
)

// model is what a view shows, without strides: a function from coordinates to
// the place of an element in memory, made of one function a step.
type model struct {
	shape []int64
	place func(at []int64) int64
}

// contiguous is the model of elements in C order, the first at place first.
func contiguous(first int64, shape []int64) model {
	return model{shape, func(at []int64) int64 {
		var n int64
		for i, c := range at {
			n = n*shape[i] + c
		}
		return first + n
	}}
}

func (m model) slice(axis int, start, stop int64) model {
	shape := slices.Clone(m.shape)
	shape[axis] = stop - start
	return model{shape, func(at []int64) int64 {
		at = slices.Clone(at)
		at[axis] += start
		return m.place(at)
	}}
}

func (m model) flip(axis int) model {
	return model{m.shape, func(at []int64) int64 {
		at = slices.Clone(at)
		at[axis] = m.shape[axis] - 1 - at[axis]
		return m.place(at)
	}}
}

func (m model) transpose(order []int) model {
	shape := make([]int64, len(order))
	for i, from := range order {
		shape[i] = m.shape[from]
	}
	return model{shape, func(at []int64) int64 {
		before := make([]int64, len(at))
		for i, from := range order {
			before[from] = at[i]
		}
		return m.place(before)
	}}
}

// repeat puts an axis of n equal entries in front.
func (m model) repeat(n int64) model {
	return model{append([]int64{n}, m.shape...), func(at []int64) int64 { return m.place(at[1:]) }}
}

func (m model) reshape(shape []int64) model {
	flat := contiguous(0, shape)
	all := m.places()
	return model{shape, func(at []int64) int64 { return all[flat.place(at)] }}
}

// places are those of all elements in C order.
func (m model) places() []int64 {
	all := []int64{}
	var walk func(at []int64)
	walk = func(at []int64) {
		if len(at) == len(m.shape) {
			all = append(all, m.place(at))
			return
		}
		for c := range m.shape[len(at)] {
			walk(append(slices.Clone(at), c))
		}
	}
	walk(nil)
	return all
}

// isContiguous tells whether the places are first, first+1, ...
func (m model) isContiguous() bool {
	for i, p := range m.places() {
		if p != m.places()[0]+int64(i) {
			return false
		}
	}
	return true
}

// randomView makes one more view of a, and what it should show.
func randomView(rng *rand.Rand, a *ndview.NDBuffer, m model) (*ndview.NDBuffer, model, error) {
	axes := len(m.shape)
	switch choice := rng.IntN(4); {
	case choice == 0 && axes > 0:
		axis := rng.IntN(axes)
		start := rng.Int64N(m.shape[axis] + 1)
		stop := start + rng.Int64N(m.shape[axis]-start+1)
		v, err := a.Slice(axis, start, stop)
		return v, m.slice(axis, start, stop), err
	case choice == 1 && a.IsContiguous():
		shape := []int64{a.Size(), 1}
		if a.Size()%2 == 0 {
			shape = []int64{2, a.Size() / 2}
		}
		v, err := a.Reshape(shape...)
		return v, m.reshape(shape), err
	case choice == 2:
		return withStrides(rng, a, m)
	default:
		order := rng.Perm(axes)
		v, err := a.Transpose(order...)
		if axes == 0 {
			order = nil
		}
		return v, m.transpose(order), err
	}
}

// withStrides looks at a's buffer with strides that views alone do not make: an
// axis backwards, or a new one whose entries are all the same.
func withStrides(rng *rand.Rand, a *ndview.NDBuffer, m model) (*ndview.NDBuffer, model, error) {
	offset, strides := a.Offset(), slices.Clone(a.Strides())
	if len(m.shape) == 0 || a.Size() == 0 || rng.IntN(3) == 0 {
		n := rng.Int64N(3)
		m = m.repeat(n)
		strides = append([]int64{0}, strides...)
	} else {
		axis := rng.IntN(len(m.shape))
		m = m.flip(axis)
		offset += (m.shape[axis] - 1) * strides[axis]
		strides[axis] = -strides[axis]
	}
	v, err := ndview.FromBuffer(a.Buffer(), a.DType(), offset, m.shape, strides)
	return v, m, err
}
