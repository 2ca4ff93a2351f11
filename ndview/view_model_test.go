package ndview_test

import (
	"math/rand/v2"
	"slices"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// model is the reference of a view, without strides: a function from coordinates to
// the bytes of an element, composed of one function per step.
type model struct {
	shape   []int64
	element func(at []int64) []byte
}

// contiguous returns the model of elements in C order at the start of memory.
func contiguous(memory []byte, size int64, shape []int64) model {
	return model{shape, func(at []int64) []byte {
		n := cOrderIndex(shape, at)
		return memory[n*size : (n+1)*size]
	}}
}

// cOrderIndex returns the index of an element of a shape in C order.
func cOrderIndex(shape, at []int64) int64 {
	n := int64(0)
	for i, c := range at {
		n = n*shape[i] + c
	}
	return n
}

// walk visits all coordinates of a shape in C order.
func walk(shape []int64, visit func(at []int64)) {
	at := make([]int64, len(shape))
	var from func(axis int)
	from = func(axis int) {
		if axis == len(shape) {
			visit(at)
			return
		}
		for at[axis] = 0; at[axis] < shape[axis]; at[axis]++ {
			from(axis + 1)
		}
	}
	from(0)
}

// bytes returns all elements in C order.
func (m model) bytes() []byte {
	all := []byte{}
	walk(m.shape, func(at []int64) { all = append(all, m.element(at)...) })
	return all
}

// pick selects indices along one axis.
func (m model) pick(axis int, places []int64) model {
	shape := slices.Clone(m.shape)
	shape[axis] = int64(len(places))
	return model{shape, func(at []int64) []byte {
		at = slices.Clone(at)
		at[axis] = places[at[axis]]
		return m.element(at)
	}}
}

// drop removes an axis of extent 1, and insert adds one.
func (m model) drop(axis int) model {
	shape := slices.Delete(slices.Clone(m.shape), axis, axis+1)
	return model{shape, func(at []int64) []byte { return m.element(slices.Insert(slices.Clone(at), axis, 0)) }}
}

func (m model) insert(axis int) model {
	shape := slices.Insert(slices.Clone(m.shape), axis, 1)
	return model{shape, func(at []int64) []byte { return m.element(slices.Delete(slices.Clone(at), axis, axis+1)) }}
}

func (m model) transpose(order []int) model {
	shape := make([]int64, len(order))
	for i, from := range order {
		shape[i] = m.shape[from]
	}
	return model{shape, func(at []int64) []byte {
		before := make([]int64, len(at))
		for i, from := range order {
			before[from] = at[i]
		}
		return m.element(before)
	}}
}

// repeat repeats an axis of extent 1 n times.
func (m model) repeat(axis int, n int64) model {
	shape := slices.Clone(m.shape)
	shape[axis] = n
	return model{shape, func(at []int64) []byte {
		at = slices.Clone(at)
		at[axis] = 0
		return m.element(at)
	}}
}

// reshape counts elements in C order or in Fortran order.
func (m model) reshape(shape []int64, fortran bool) model {
	if fortran {
		reversed := slices.Clone(shape)
		slices.Reverse(reversed)
		return m.transpose(reversal(len(m.shape))).reshape(reversed, false).transpose(reversal(len(shape)))
	}
	var all [][]byte
	walk(m.shape, func(at []int64) { all = append(all, m.element(at)) })
	return model{shape, func(at []int64) []byte { return all[cOrderIndex(shape, at)] }}
}

func reversal(n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = n - 1 - i
	}
	return order
}

// retype divides the bytes of the last axis into elements of another size.
func (m model) retype(from, to int64) model {
	last := len(m.shape) - 1
	shape := slices.Clone(m.shape)
	shape[last] = shape[last] * from / to
	return model{shape, func(at []int64) []byte {
		at = slices.Clone(at)
		first := at[last] * to
		out := []byte{}
		for b := first; b < first+to; b++ {
			at[last] = b / from
			out = append(out, m.element(at)[b%from])
		}
		return out
	}}
}

// span returns the indices that Python's slice(start, stop, step) selects, found by
// testing each; nil is None.
func span(start, stop *int64, step, n int64) []int64 {
	count := func(i *int64) int64 {
		if *i < 0 {
			return *i + n
		}
		return *i
	}
	reached := func(i int64, bound *int64) bool { // when walking from 0, or from the end
		return step > 0 && i >= count(bound) || step < 0 && i <= count(bound)
	}
	places := []int64{}
	next, chosen := int64(0), false
	for k := range n {
		i := k
		if step < 0 {
			i = n - 1 - k
		}
		switch {
		case start != nil && !reached(i, start) || stop != nil && reached(i, stop):
		case !chosen:
			places, next, chosen = append(places, i), i+step, true
		case i == next:
			places, next = append(places, i), i+step
		}
	}
	return places
}

// randomIndex returns random keys for all axes, and the model of the elements that
// they select.
func randomIndex(rng *rand.Rand, m model) ([]ndview.Key, model) {
	var keys []ndview.Key
	axis := 0
	for _, extent := range slices.Clone(m.shape) {
		if rng.IntN(6) == 0 {
			keys = append(keys, ndview.NewAxis)
			m = m.insert(axis)
			axis++
		}
		if extent > 0 && rng.IntN(4) == 0 {
			at := rng.Int64N(2*extent) - extent
			keys = append(keys, ndview.At(at))
			m = m.pick(axis, []int64{(at + extent) % extent}).drop(axis)
			continue
		}
		bounds := []int64{ndview.Open, ndview.Open}
		var given [2]*int64
		for i := range bounds {
			if rng.IntN(3) > 0 {
				bounds[i] = rng.Int64N(2*extent+5) - extent - 2
				given[i] = &bounds[i]
			}
		}
		step := []int64{1, 1, 2, 3, -1, -2, 9, -9}[rng.IntN(8)]
		keys = append(keys, ndview.SpanStep(bounds[0], bounds[1], step))
		m = m.pick(axis, span(given[0], given[1], step, extent))
		axis++
	}
	if rng.IntN(3) == 0 {
		keys = append(keys, ndview.Ellipsis)
	}
	return keys, m
}

// randomShape returns a shape of n elements.
func randomShape(rng *rand.Rand, n int64) []int64 {
	if n == 0 {
		return []int64{rng.Int64N(4), 0, 2}
	}
	shape := []int64{}
	for n > 1 && len(shape) < 3 {
		d := 1 + rng.Int64N(n)
		for n%d != 0 {
			d--
		}
		shape = append(shape, d)
		n /= d
	}
	return append(shape, n)
}

// randomView returns a random view or copy of a, and its model.
func randomView(rng *rand.Rand, a *ndview.NDBuffer, m model) (*ndview.NDBuffer, model, error) {
	axes, size := len(m.shape), a.DType().Size()
	switch choice := rng.IntN(9); {
	case choice == 0:
		keys, m := randomIndex(rng, m)
		v, err := a.Index(keys...)
		return v, m, err
	case choice == 1:
		shape, order := randomShape(rng, a.Size()), []ndview.Order{'C', 'F', 'A'}[rng.IntN(3)]
		v, err := a.ReshapeOrder(order, shape...)
		return v, m.reshape(shape, order == 'F' || order == 'A' && a.Flags().FNC()), err
	case choice == 2 && axes < 4:
		axis := rng.IntN(axes + 1)
		v, err := a.ExpandDims(axis - axes - 1)
		return v, m.insert(axis), err
	case choice == 3 && slices.Contains(m.shape, 1):
		axis := slices.Index(m.shape, 1)
		if rng.IntN(2) == 0 {
			v, err := a.Squeeze(axis - axes)
			return v, m.drop(axis), err
		}
		n := rng.Int64N(4)
		m := m.repeat(axis, n)
		v, err := a.BroadcastTo(m.shape...)
		return v, m, err
	case choice == 4 && axes > 0 && a.IsContiguous():
		for _, to := range []int64{8, 6, 4, 3, 2, 1} {
			if to != size && (size%to == 0 || to%size == 0 && m.shape[axes-1]*size%to == 0) {
				v, err := a.View(ndview.Bytes(int32(to)))
				return v, m.retype(size, to), err
			}
		}
		v, err := a.View(a.DType())
		return v, m, err
	case choice == 5:
		return ravel(rng, a, m)
	case choice == 6 && axes > 0:
		i, j := rng.IntN(axes), rng.IntN(axes)
		order := slices.Delete(reversal(axes), axes-1-i, axes-i)
		slices.Reverse(order)
		v, err := a.MoveAxis(i, j-axes)
		return v, m.transpose(slices.Insert(order, j, i)), err
	case choice == 7 && axes > 0:
		i, j := rng.IntN(axes), rng.IntN(axes)
		order := reversal(axes)
		slices.Reverse(order)
		order[i], order[j] = order[j], order[i]
		v, err := a.SwapAxes(i-axes, j)
		return v, m.transpose(order), err
	default:
		order := rng.Perm(axes)
		v, err := a.Transpose(order...)
		return v, m.transpose(order), err
	}
}

func ravel(rng *rand.Rand, a *ndview.NDBuffer, m model) (*ndview.NDBuffer, model, error) {
	order := []ndview.Order{'C', 'F', 'A', 'K'}[rng.IntN(4)]
	if order == 'K' && !a.IsContiguous() {
		m = m.transpose(layout.IterationOrder(a.Shape(), a.Strides())) // compared with NumPy in programs.txt
	}
	v, err := a.Ravel(order)
	return v, m.reshape([]int64{a.Size()}, order == 'F' || order == 'A' && a.Flags().FNC()), err
}
