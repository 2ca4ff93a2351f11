package ndview

import (
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// Reshape gives the elements, counted in C order, another shape. One extent may
// be -1: it is what the others leave. The result is a view where strides can
// say it, else a copy in C order.
func (a *NDBuffer) Reshape(shape ...int64) (*NDBuffer, error) {
	return a.ReshapeOrder(OrderC, shape...)
}

// ReshapeOrder is Reshape with the elements counted, and a copy laid out, in
// another order: C, F, or with A the one in which a lies.
func (a *NDBuffer) ReshapeOrder(order Order, shape ...int64) (*NDBuffer, error) {
	if err := order.check(); err != nil {
		return nil, err
	}
	if order == OrderK {
		return nil, fmt.Errorf("reshaping in order 'K': want 'C', 'F' or 'A': %w", ErrShape)
	}
	if slices.Equal(shape, a.shape) {
		return a.show(a.dtype, a.run(), nil)
	}
	shape, err := layout.Infer(shape, a.Size())
	if err != nil {
		return nil, err
	}
	if _, err := byteCount(a.dtype, shape); err != nil {
		return nil, err
	}
	fortran := order.fortran(a)
	if run, ok := a.run().Reshape(shape, fortran); ok {
		return a.show(a.dtype, run, nil)
	}
	if fortran {
		return a.dense(backwards(len(a.shape)), shape, layout.F(a.dtype.Size(), shape))
	}
	return a.dense(forwards(len(a.shape)), shape, cStrides(a.dtype, shape))
}

// Ravel is all elements along one axis, counted in any order; in order K they
// come as they lie in memory, but no axis is turned around, and one that repeats
// elements stays where it is among the others. It is a view where
// they lie in that order without gaps, else a copy.
func (a *NDBuffer) Ravel(order Order) (*NDBuffer, error) {
	if err := order.check(); err != nil {
		return nil, err
	}
	axes := forwards(len(a.shape))
	switch {
	case order == OrderK && !a.IsContiguous():
		axes = layout.Falling(a.strides)
	case order.fortran(a):
		axes = backwards(len(a.shape))
	}
	sorted, err := a.run().Permute(axes)
	if err != nil {
		return nil, err
	}
	flat := []int64{a.Size()}
	if !layout.IsC(sorted.Size, sorted.Shape, sorted.Strides) {
		if order == OrderK {
			axes = layout.Walked(a.shape, a.strides)
		}
		return a.dense(axes, flat, cStrides(a.dtype, flat))
	}
	return a.view(a.dtype, a.offset, flat, cStrides(a.dtype, flat))
}

// dense copies the elements, in C order with the axes permuted, to an array of
// another shape, whose strides leave no gaps.
func (a *NDBuffer) dense(axes []int, shape, strides []int64) (*NDBuffer, error) {
	turned, err := a.Transpose(axes...)
	if err != nil {
		return nil, err
	}
	defer turned.Release()
	c, err := turned.inCOrder()
	if err != nil {
		return nil, err
	}
	defer c.Release()
	c.buf.Retain()
	return over(c.buf, c.dtype, c.offset, shape, strides), nil
}

// forwards are n axes from the first, backwards from the last.
func forwards(n int) []int {
	axes := make([]int, n)
	for i := range axes {
		axes[i] = i
	}
	return axes
}

func backwards(n int) []int {
	axes := forwards(n)
	slices.Reverse(axes)
	return axes
}
