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
	if dtype.size < 1 {
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
