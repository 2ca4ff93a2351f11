package ndview

import (
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// Slice returns elements start, start+1, ... stop-1 along one axis, as a view.
// Unlike Span it does not clamp: it returns ErrShape unless
// 0 <= start <= stop <= extent.
func (a *NDBuffer) Slice(axis int, start, stop int64) (*NDBuffer, error) {
	return a.call("Slice", func() (*NDBuffer, error) { return a.slice(axis, start, stop) })
}

func (a *NDBuffer) slice(axis int, start, stop int64) (*NDBuffer, error) {
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
	return a.index(keys...)
}

// Transpose permutes the axes: axis i of the result is axis order[i] of a,
// counted from the end if negative. Without arguments it reverses the axes, as
// NumPy's T does. The result is a view.
func (a *NDBuffer) Transpose(order ...int) (*NDBuffer, error) {
	return a.call("Transpose", func() (*NDBuffer, error) { return a.transpose(order...) })
}

func (a *NDBuffer) transpose(order ...int) (*NDBuffer, error) {
	if len(order) == 0 {
		order = backwards(len(a.shape))
	}
	run, err := a.run().Permute(order)
	return a.show(a.dtype, run, err)
}

// SwapAxes exchanges two axes, counted from the end if negative, as a view.
func (a *NDBuffer) SwapAxes(i, j int) (*NDBuffer, error) {
	return a.call("SwapAxes", func() (*NDBuffer, error) { return a.swapAxes(i, j) })
}

func (a *NDBuffer) swapAxes(i, j int) (*NDBuffer, error) {
	if err := a.normalize(&i, &j); err != nil {
		return nil, err
	}
	order := forwards(len(a.shape))
	order[i], order[j] = j, i
	return a.transpose(order...)
}

// MoveAxis moves one axis to another position and keeps the order of the others,
// as a view. Both are counted from the end if negative.
func (a *NDBuffer) MoveAxis(from, to int) (*NDBuffer, error) {
	return a.call("MoveAxis", func() (*NDBuffer, error) { return a.moveAxis(from, to) })
}

func (a *NDBuffer) moveAxis(from, to int) (*NDBuffer, error) {
	if err := a.normalize(&from, &to); err != nil {
		return nil, err
	}
	order := slices.Delete(forwards(len(a.shape)), from, from+1)
	return a.transpose(slices.Insert(order, to, from)...)
}

// normalize replaces negative axes by their index from the first axis.
func (a *NDBuffer) normalize(axes ...*int) (err error) {
	for _, axis := range axes {
		if *axis, err = layout.NormalizeAxis(*axis, len(a.shape)); err != nil {
			return err
		}
	}
	return nil
}

// Squeeze drops the given axes, whose extents must be 1. Negative axes count from the
// end. Without axes it drops none. The result is a view.
func (a *NDBuffer) Squeeze(axes ...int) (*NDBuffer, error) {
	return a.call("Squeeze", func() (*NDBuffer, error) { return a.squeeze(axes) })
}

// SqueezeAll drops all axes of extent 1. The result is a view.
func (a *NDBuffer) SqueezeAll() (*NDBuffer, error) {
	return a.call("SqueezeAll", func() (*NDBuffer, error) {
		var axes []int
		for axis, extent := range a.shape {
			if extent == 1 {
				axes = append(axes, axis)
			}
		}
		return a.squeeze(axes)
	})
}

func (a *NDBuffer) squeeze(axes []int) (*NDBuffer, error) {
	run, err := a.run().Squeeze(axes)
	return a.show(a.dtype, run, err)
}

// ExpandDims inserts axes of extent 1 at the given positions of the result;
// negative ones count from its end. The result is a view.
func (a *NDBuffer) ExpandDims(axes ...int) (*NDBuffer, error) {
	return a.call("ExpandDims", func() (*NDBuffer, error) { return a.expandDims(axes...) })
}

func (a *NDBuffer) expandDims(axes ...int) (*NDBuffer, error) {
	run, err := a.run().Expand(axes)
	return a.show(a.dtype, run, err)
}

// BroadcastTo repeats a to a larger shape by NumPy's rule. The result is a
// read-only view, because its elements share memory.
func (a *NDBuffer) BroadcastTo(shape ...int64) (*NDBuffer, error) {
	return a.call("BroadcastTo", func() (*NDBuffer, error) { return a.broadcastTo(shape...) })
}

func (a *NDBuffer) broadcastTo(shape ...int64) (*NDBuffer, error) {
	if _, err := byteCount(a.dtype, shape); err != nil {
		return nil, err
	}
	run, err := a.run().BroadcastTo(shape)
	v, err := a.show(a.dtype, run, err)
	if err == nil {
		v.readOnly = true
	}
	return v, err
}

// View returns a view of the same bytes as elements of another dtype. If the
// element sizes differ, the extent of the last axis changes: its elements must be
// contiguous and their bytes a multiple of the new size, otherwise the error is
// ErrShape. The caller ensures that elements viewed as Bool are 0 or 1.
func (a *NDBuffer) View(dtype DType) (*NDBuffer, error) {
	return a.call("View", func() (*NDBuffer, error) { return a.viewAs(dtype) })
}

func (a *NDBuffer) viewAs(dtype DType) (*NDBuffer, error) {
	if dtype.Size() < 1 {
		return nil, fmt.Errorf("viewing %s as %s: %w", a.dtype, dtype, ErrDType)
	}
	run, err := a.run().Retype(dtype.Size())
	return a.show(dtype, run, err)
}

// Field returns a view of one field of records, NumPy's a["name"]. A field that is a
// subarray adds its axes at the end. It returns ErrDType if a has no field of the name.
func (a *NDBuffer) Field(name string) (*NDBuffer, error) {
	return a.call("Field", func() (*NDBuffer, error) { return a.field(name) })
}

func (a *NDBuffer) field(name string) (*NDBuffer, error) {
	f, err := a.fieldOf(name)
	if err != nil {
		return nil, err
	}
	offset := a.offset
	if a.Size() > 0 { // an empty view stays where it is, which is within the buffer
		offset += f.Offset
	}
	shape := slices.Concat(a.shape, f.Shape)
	strides := slices.Concat(a.strides, layout.CStrides(f.DType.Size(), f.Shape))
	return a.view(f.DType, offset, shape, strides)
}

// Fields returns a view of the same records with fewer fields, in the given order,
// NumPy's a[["x", "y"]]. The records keep their size, so that the other fields become
// gaps. It returns ErrDType if a has no field of a name, or if a name occurs twice.
func (a *NDBuffer) Fields(names ...string) (*NDBuffer, error) {
	return a.call("Fields", func() (*NDBuffer, error) {
		fields := make([]Field, len(names))
		for i, name := range names {
			var err error
			if fields[i], err = a.fieldOf(name); err != nil {
				return nil, err
			}
		}
		record, err := Record(a.dtype.Size(), fields...)
		if err != nil {
			return nil, err
		}
		return a.view(record, a.offset, a.shape, a.strides)
	})
}

func (a *NDBuffer) fieldOf(name string) (Field, error) {
	f, ok := a.dtype.Field(name)
	if !ok {
		return Field{}, fmt.Errorf("field %q of %s: %w", name, a.dtype, ErrDType)
	}
	return f, nil
}

// ReadOnly returns a view of a on which writes return ErrReadOnly, as on views of
// it.
func (a *NDBuffer) ReadOnly() (*NDBuffer, error) {
	return a.call("ReadOnly", func() (*NDBuffer, error) { return a.asReadOnly() })
}

func (a *NDBuffer) asReadOnly() (*NDBuffer, error) {
	v, err := a.show(a.dtype, a.run(), nil)
	if err == nil {
		v.readOnly = true
	}
	return v, err
}

// Base returns the array that a is a view of, or nil. A view of a view has the same
// base. The caller owns no reference to it; a view retains the memory, not the base.
func (a *NDBuffer) Base() *NDBuffer {
	if a == nil {
		return nil
	}
	return a.base
}

// run returns the layout of the elements in the buffer.
func (a *NDBuffer) run() layout.Run {
	return layout.Run{Offset: a.offset, Size: a.dtype.Size(), Shape: a.shape, Strides: a.strides}
}

// show returns a view of a with the layout run; it passes on the error of the
// function that computed run.
func (a *NDBuffer) show(dtype DType, run layout.Run, err error) (*NDBuffer, error) {
	if err != nil {
		return nil, err
	}
	return a.view(dtype, run.Offset, slices.Clone(run.Shape), slices.Clone(run.Strides))
}

// view returns an array over the buffer of a. The caller ensures that its elements
// are elements of a.
func (a *NDBuffer) view(dtype DType, offset int64, shape, strides []int64) (*NDBuffer, error) {
	if err := a.TryRetain(); err != nil {
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

// Index returns a view of the elements that the keys select, one key per axis from
// the first: a.Index(At(0), Span(1, -1)) is NumPy's a[0, 1:-1]. Axes without a key
// are selected whole. It returns arrowbuf.ErrOutOfRange for an index outside its
// axis, and ErrShape for too many keys, a step of 0, or keys that are arrays.
func (a *NDBuffer) Index(keys ...Key) (*NDBuffer, error) {
	return a.call("Index", func() (*NDBuffer, error) { return a.index(keys...) })
}

func (a *NDBuffer) index(keys ...Key) (*NDBuffer, error) {
	basic := make([]layout.Key, len(keys))
	for i, k := range keys {
		if k.advanced != nil {
			return nil, fmt.Errorf("key %d is an array, which has no view: use Get or Set: %w", i, ErrShape)
		}
		basic[i] = k.basic
	}
	run, err := a.run().Index(basic)
	return a.show(a.dtype, run, err)
}

// Key selects elements along one axis, by the rules of Python and NumPy.
type Key struct {
	basic    layout.Key
	advanced *advancedKey // if the key is an array
}

// advancedKey is a key that is an array, NumPy's advanced index. The caller owns the
// array.
type advancedKey struct {
	array  *NDBuffer // of indices, or a mask
	list   []int64   // indices if array is nil
	isMask bool
}

// Open is an absent bound or step.
const Open = layout.Open

var (
	// All selects a whole axis: NumPy's a[:].
	All = SpanStep(Open, Open, Open)
	// Ellipsis selects all axes without another key whole: a[...]. At most one is
	// allowed.
	Ellipsis = Key{basic: layout.Key{Kind: layout.KeyEllipsis}}
	// NewAxis inserts an axis of extent 1: a[None].
	NewAxis = Key{basic: layout.Key{Kind: layout.KeyNewAxis}}
)

// At selects one element and drops the axis. A negative index counts from the end.
func At(i int64) Key { return Key{basic: layout.Key{Kind: layout.KeyIndex, At: i}} }

// Span selects elements start, start+1, ... below stop: a[start:stop]. A negative
// bound counts from the end, a bound beyond an end is clamped, and Open means the
// end.
func Span(start, stop int64) Key { return SpanStep(start, stop, 1) }

// SpanStep selects elements start, start+step, ... up to stop, backwards if step is
// negative: a[start:stop:step]. A step of 0 is an error.
func SpanStep(start, stop, step int64) Key {
	return Key{basic: layout.Key{Kind: layout.KeySlice, Start: start, Stop: stop, Step: step}}
}

// IntArray selects the elements at indices, in their shape. The indices are of any
// integer type and on the device of the indexed array; negative ones count from the
// end. Only Get and Set accept such keys.
func IntArray(indices *NDBuffer) Key { return Key{advanced: &advancedKey{array: indices}} }

// Ints is IntArray for a list of indices.
func Ints(indices ...int64) Key {
	return Key{advanced: &advancedKey{list: append([]int64{}, indices...)}}
}

// Mask selects the elements at which an array of dtype Bool is true. It applies to
// as many axes as it has, whose extents must be its shape. Only Get and Set accept
// such keys.
func Mask(mask *NDBuffer) Key { return Key{advanced: &advancedKey{array: mask, isMask: true}} }

// Reshape returns the elements, counted in C order, in another shape. One extent
// may be -1 and is computed from the others. The result is a view if strides can
// express it, otherwise a copy in C order.
func (a *NDBuffer) Reshape(shape ...int64) (*NDBuffer, error) {
	return a.call("Reshape", func() (*NDBuffer, error) { return a.reshape(shape...) })
}

func (a *NDBuffer) reshape(shape ...int64) (*NDBuffer, error) {
	return a.reshapeAs(OrderC, shape, CopyIfNeeded)
}

// ReshapeView is Reshape that never copies: if no strides express the result, it
// returns ErrCopy.
func (a *NDBuffer) ReshapeView(shape ...int64) (*NDBuffer, error) {
	return a.call("ReshapeView", func() (*NDBuffer, error) { return a.reshapeAs(OrderC, shape, CopyNever) })
}

// ReshapeOrder is Reshape with elements counted, and a copy laid out, in order C, F,
// or with A the order in which a lies.
func (a *NDBuffer) ReshapeOrder(order Order, shape ...int64) (*NDBuffer, error) {
	return a.call("ReshapeOrder", func() (*NDBuffer, error) { return a.reshapeAs(order, shape, CopyIfNeeded) })
}

// reshapeAs is ReshapeOrder with the copy mode IfNeeded or Never.
func (a *NDBuffer) reshapeAs(order Order, shape []int64, mode CopyMode) (*NDBuffer, error) {
	if err := order.check(); err != nil {
		return nil, err
	}
	if order == OrderK {
		return nil, fmt.Errorf("reshaping in order 'K': want 'C', 'F' or 'A': %w", ErrShape)
	}
	if slices.Equal(shape, a.shape) {
		return a.show(a.dtype, a.run(), nil)
	}
	shape, err := layout.InferShape(shape, a.Size())
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
	if mode == CopyNever {
		return nil, fmt.Errorf("strides %v of shape %v as shape %v: %w", a.strides, a.shape, shape, ErrCopy)
	}
	if fortran {
		return a.dense(backwards(len(a.shape)), shape, layout.FStrides(a.dtype.Size(), shape))
	}
	return a.dense(forwards(len(a.shape)), shape, cStrides(a.dtype, shape))
}

// Ravel returns all elements along one axis, counted in the given order. Order K
// sorts the axes as they lie in memory, but reverses none, and leaves axes of stride
// 0 in their position. The result is a view if the elements lie in that order
// without gaps, otherwise a copy.
func (a *NDBuffer) Ravel(order Order) (*NDBuffer, error) {
	return a.call("Ravel", func() (*NDBuffer, error) { return a.ravel(order) })
}

func (a *NDBuffer) ravel(order Order) (*NDBuffer, error) {
	if err := order.check(); err != nil {
		return nil, err
	}
	axes := forwards(len(a.shape))
	switch {
	case order == OrderK && !a.IsContiguous():
		axes = layout.AxesByStride(a.strides)
	case order.fortran(a):
		axes = backwards(len(a.shape))
	}
	sorted, err := a.run().Permute(axes)
	if err != nil {
		return nil, err
	}
	flat := []int64{a.Size()}
	if !layout.IsCContiguous(sorted.Size, sorted.Shape, sorted.Strides) {
		if order == OrderK {
			axes = layout.IterationOrder(a.shape, a.strides)
		}
		return a.dense(axes, flat, cStrides(a.dtype, flat))
	}
	return a.view(a.dtype, a.offset, flat, cStrides(a.dtype, flat))
}

// dense copies the elements, in C order of the permuted axes, to a contiguous array
// of another shape.
func (a *NDBuffer) dense(axes []int, shape, strides []int64) (*NDBuffer, error) {
	permuted, err := a.transpose(axes...)
	if err != nil {
		return nil, err
	}
	defer permuted.Release()
	c, err := permuted.inCOrder()
	if err != nil {
		return nil, err
	}
	defer c.Release()
	c.buf.Retain()
	return over(c.buf, c.dtype, c.offset, shape, strides), nil
}

// forwards returns axes 0 to n-1, backwards the same in reverse.
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

// AtLeast1D returns a view with at least one axis: a scalar gets the shape [1].
func AtLeast1D(a *NDBuffer) (*NDBuffer, error) {
	return callOn("AtLeast1D", func() (*NDBuffer, error) { return atLeast1D(a) }, a)
}

func atLeast1D(a *NDBuffer) (*NDBuffer, error) {
	if len(a.shape) == 0 {
		return a.expandDims(0)
	}
	return a.expandDims()
}

// AtLeast2D returns a view with at least two axes: shape [n] becomes [1, n].
func AtLeast2D(a *NDBuffer) (*NDBuffer, error) {
	return callOn("AtLeast2D", func() (*NDBuffer, error) { return atLeast2D(a) }, a)
}

func atLeast2D(a *NDBuffer) (*NDBuffer, error) {
	switch len(a.shape) {
	case 0:
		return a.expandDims(0, 1)
	case 1:
		return a.expandDims(0)
	default:
		return a.expandDims()
	}
}

// AtLeast3D returns a view with at least three axes: shape [n] becomes [1, n, 1],
// and [m, n] becomes [m, n, 1].
func AtLeast3D(a *NDBuffer) (*NDBuffer, error) {
	return callOn("AtLeast3D", func() (*NDBuffer, error) { return atLeast3D(a) }, a)
}

func atLeast3D(a *NDBuffer) (*NDBuffer, error) {
	switch len(a.shape) {
	case 0:
		return a.expandDims(0, 1, 2)
	case 1:
		return a.expandDims(0, 2)
	case 2:
		return a.expandDims(2)
	default:
		return a.expandDims()
	}
}
