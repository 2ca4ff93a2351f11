package ndview

import (
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// Slice returns elements start, start+1, ... stop-1 along one axis, as a view.
// Unlike Span it does not clamp: 0 <= start <= stop <= extent.
func (a *NDBuffer) Slice(axis int, start, stop int64) (*NDBuffer, error) {
	if axis < 0 || axis >= len(a.shape) {
		return nil, fmt.Errorf("axis %d of an array of %d axes: %w", axis, len(a.shape), ErrShape)
	}
	if start < 0 || stop < start || stop > a.shape[axis] {
		return nil, fmt.Errorf("slice [%d:%d) of an axis of %d elements: %w", start, stop, a.shape[axis], ErrShape)
	}
	keys := make([]Key, axis+1)
	for i := range axis {
		keys[i] = All
	}
	keys[axis] = Span(start, stop)
	return a.Index(keys...)
}

// Transpose permutes the axes: axis i of the result is axis order[i] of a,
// counted from the end if negative. No order reverses them, as NumPy's T does.
// The result is a view.
func (a *NDBuffer) Transpose(order ...int) (*NDBuffer, error) {
	if len(order) == 0 {
		order = backwards(len(a.shape))
	}
	run, err := a.run().Permute(order)
	return a.show(a.dtype, run, err)
}

// SwapAxes exchanges two axes, counted from the end if negative, as a view.
func (a *NDBuffer) SwapAxes(i, j int) (*NDBuffer, error) {
	if err := a.count(&i, &j); err != nil {
		return nil, err
	}
	order := forwards(len(a.shape))
	order[i], order[j] = j, i
	return a.Transpose(order...)
}

// MoveAxis moves one axis to another place and keeps the order of the others,
// as a view. Both are counted from the end if negative.
func (a *NDBuffer) MoveAxis(from, to int) (*NDBuffer, error) {
	if err := a.count(&from, &to); err != nil {
		return nil, err
	}
	order := slices.Delete(forwards(len(a.shape)), from, from+1)
	return a.Transpose(slices.Insert(order, to, from)...)
}

// count makes axes that may be counted from the end count from the first.
func (a *NDBuffer) count(axes ...*int) (err error) {
	for _, axis := range axes {
		if *axis, err = layout.Axis(*axis, len(a.shape)); err != nil {
			return err
		}
	}
	return nil
}

// Squeeze drops the named axes, whose extents must be 1, or without names all
// axes of extent 1. Negative names count from the end. The result is a view.
func (a *NDBuffer) Squeeze(axes ...int) (*NDBuffer, error) {
	run, err := a.run().Squeeze(axes)
	return a.show(a.dtype, run, err)
}

// ExpandDims puts axes of extent 1 where the result is to have them; negative
// ones count from its end. The result is a view.
func (a *NDBuffer) ExpandDims(axes ...int) (*NDBuffer, error) {
	run, err := a.run().Expand(axes)
	return a.show(a.dtype, run, err)
}

// BroadcastTo repeats a to a larger shape by NumPy's rule, as a view that must
// not be written to: its elements share memory.
func (a *NDBuffer) BroadcastTo(shape ...int64) (*NDBuffer, error) {
	if _, err := byteCount(a.dtype, shape); err != nil {
		return nil, err
	}
	run, err := a.run().Stretched(shape)
	v, err := a.show(a.dtype, run, err)
	if err == nil {
		v.readOnly = true
	}
	return v, err
}

// View looks at the same bytes as elements of another dtype. If its size is
// another, the last axis is cut anew: its elements must lie without gaps, and
// their bytes be a multiple of the new size, or the error is ErrShape. The
// elements of Bool must be bytes of 0 and 1, which is the caller's to know.
func (a *NDBuffer) View(dtype DType) (*NDBuffer, error) {
	if dtype.Size() < 1 {
		return nil, fmt.Errorf("viewing %s as %s: %w", a.dtype, dtype, ErrDType)
	}
	run, err := a.run().Retype(dtype.Size())
	return a.show(dtype, run, err)
}

// ReadOnly is a view of all of a that must not be written to: what would write
// to it, or to views of it, answers ErrReadOnly.
func (a *NDBuffer) ReadOnly() (*NDBuffer, error) {
	v, err := a.show(a.dtype, a.run(), nil)
	if err == nil {
		v.readOnly = true
	}
	return v, err
}

// Base is the array that a is a view of, nil if a is none: a view of a view has
// the same base. The caller owns no reference to it, and a view does not keep it
// from being released, only the memory.
func (a *NDBuffer) Base() *NDBuffer { return a.base }

// run says where the elements lie in the buffer.
func (a *NDBuffer) run() layout.Run {
	return layout.Run{Offset: a.offset, Size: a.dtype.Size(), Shape: a.shape, Strides: a.strides}
}

// show is a view of a whose elements lie as run says, unless finding that failed.
func (a *NDBuffer) show(dtype DType, run layout.Run, err error) (*NDBuffer, error) {
	if err != nil {
		return nil, err
	}
	return a.view(dtype, run.Offset, slices.Clone(run.Shape), slices.Clone(run.Strides))
}

// view is an array over the buffer of a, which has all its elements.
func (a *NDBuffer) view(dtype DType, offset int64, shape, strides []int64) (*NDBuffer, error) {
	if err := a.hold(); err != nil {
		return nil, err
	}
	defer a.Release()
	a.buf.Retain()
	v := over(a.buf, dtype, offset, shape, strides)
	v.readOnly = a.readOnly
	if v.base = a.base; v.base == nil {
		v.base = a
	}
	return v, nil
}

// Index returns what the keys take, one key an axis from the first on, as a
// view: a.Index(At(0), Span(1, -1)) is NumPy's a[0, 1:-1]. Axes without a key
// are taken whole. An index outside its axis is arrowbuf.ErrOutOfRange, more
// keys than axes or a step of 0 are ErrShape, and so are keys that are arrays.
func (a *NDBuffer) Index(keys ...Key) (*NDBuffer, error) {
	basic := make([]layout.Key, len(keys))
	for i, k := range keys {
		if k.chosen != nil {
			return nil, fmt.Errorf("key %d is an array, of which there is no view: use Get or Set: %w", i, ErrShape)
		}
		basic[i] = k.basic
	}
	run, err := a.run().Index(basic)
	return a.show(a.dtype, run, err)
}

// Key says what an index takes of one axis. Its rules are Python's and NumPy's.
type Key struct {
	basic  layout.Key
	chosen *chosen // of a key that is an array
}

// chosen is what a key chooses by an array, which the caller owns.
type chosen struct {
	array *NDBuffer // of indices, or a mask
	list  []int64   // indices, where there is no array: not nil
	mask  bool
}

// Open is a bound or a step that is absent.
const Open = layout.Open

var (
	// All takes an axis whole: NumPy's a[:].
	All = SpanStep(Open, Open, Open)
	// Ellipsis takes all axes whole that the other keys leave: a[...]. An index
	// has one at most.
	Ellipsis = Key{basic: layout.Key{Kind: layout.KeyEllipsis}}
	// NewAxis puts an axis of extent 1 into the result: a[None].
	NewAxis = Key{basic: layout.Key{Kind: layout.KeyNewAxis}}
)

// At takes one element, and drops the axis. A negative index counts from the
// end.
func At(i int64) Key { return Key{basic: layout.Key{Kind: layout.KeyAt, At: i}} }

// Span takes elements start, start+1, ... before stop: a[start:stop]. A negative
// bound counts from the end, one beyond an end is cut there, and Open is that
// end itself.
func Span(start, stop int64) Key { return SpanStep(start, stop, 1) }

// SpanStep takes elements start, start+step, ... before stop, or backwards if
// step is negative: a[start:stop:step]. A step of 0 is an error.
func SpanStep(start, stop, step int64) Key {
	return Key{basic: layout.Key{Kind: layout.KeySpan, Start: start, Stop: stop, Step: step}}
}

// IntArray takes the elements at indices, in their shape: an array of any integer
// type on the device of the array that is indexed. Negative indices count from
// the end. Only Get and Set take such keys.
func IntArray(indices *NDBuffer) Key { return Key{chosen: &chosen{array: indices}} }

// Ints is IntArray of one axis of indices.
func Ints(indices ...int64) Key {
	return Key{chosen: &chosen{list: append([]int64{}, indices...)}}
}

// Mask takes the elements at which an array of dtype bool is true, from as many
// axes as it has, which have its shape. Only Get and Set take such keys.
func Mask(mask *NDBuffer) Key { return Key{chosen: &chosen{array: mask, mask: true}} }

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

// AtLeast1D is a view of an array with one axis at least: one element as an axis
// of one.
func AtLeast1D(a *NDBuffer) (*NDBuffer, error) {
	if len(a.shape) == 0 {
		return a.ExpandDims(0)
	}
	return a.ExpandDims()
}

// AtLeast2D is a view of an array with two axes at least: one axis of n becomes
// the shape [1, n].
func AtLeast2D(a *NDBuffer) (*NDBuffer, error) {
	switch len(a.shape) {
	case 0:
		return a.ExpandDims(0, 1)
	case 1:
		return a.ExpandDims(0)
	default:
		return a.ExpandDims()
	}
}

// AtLeast3D is a view of an array with three axes at least: one axis of n becomes
// the shape [1, n, 1], two of m and n become [m, n, 1].
func AtLeast3D(a *NDBuffer) (*NDBuffer, error) {
	switch len(a.shape) {
	case 0:
		return a.ExpandDims(0, 1, 2)
	case 1:
		return a.ExpandDims(0, 2)
	case 2:
		return a.ExpandDims(2)
	default:
		return a.ExpandDims()
	}
}
