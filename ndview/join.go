package ndview

import (
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// Concatenate joins arrays along an existing axis in a new array in C order. A
// negative axis counts from the end. The caller must release the result.
//
// At least one array is required, and all extents but that of the axis must be equal,
// otherwise the error is ErrShape. All arrays must be on one device, otherwise it is
// arrowbuf.ErrDevice. The dtype is that of Promote; it is ErrDType if an array cannot
// be cast to it by CastSameKind, such as a datetime to a timedelta.
func Concatenate(arrays []*NDBuffer, axis int) (*NDBuffer, error) {
	return callOn("Concatenate", func() (*NDBuffer, error) { return join(arrays, axis) }, arrays...)
}

func join(arrays []*NDBuffer, axis int) (*NDBuffer, error) {
	return withArrays(arrays, func() (*NDBuffer, error) {
		at, err := layout.NormalizeAxis(axis, len(arrays[0].shape))
		if err != nil {
			return nil, err
		}
		return concatenate(arrays, at)
	})
}

// ConcatenateFlat joins the elements of arrays of any shapes, each in C order, along
// one axis, see Concatenate.
func ConcatenateFlat(arrays []*NDBuffer) (*NDBuffer, error) {
	return callOn("ConcatenateFlat", func() (*NDBuffer, error) { return joinFlat(arrays) }, arrays...)
}

func joinFlat(arrays []*NDBuffer) (*NDBuffer, error) {
	return concatenateAs(arrays, func(a *NDBuffer) (*NDBuffer, error) { return a.ravel(OrderC) }, 0)
}

// Stack joins arrays of one shape along a new axis, see Concatenate. A negative axis
// counts from the end of the result's axes.
func Stack(arrays []*NDBuffer, axis int) (*NDBuffer, error) {
	return callOn("Stack", func() (*NDBuffer, error) { return stack(arrays, axis) }, arrays...)
}

func stack(arrays []*NDBuffer, axis int) (*NDBuffer, error) {
	return withArrays(arrays, func() (*NDBuffer, error) {
		shape := arrays[0].shape
		at, err := layout.NormalizeAxis(axis, len(shape)+1)
		if err != nil {
			return nil, err
		}
		for _, a := range arrays {
			if !slices.Equal(a.shape, shape) {
				return nil, fmt.Errorf("arrays of shapes %v and %v: %w", shape, a.shape, ErrShape)
			}
		}
		return concatenateAs(arrays, func(a *NDBuffer) (*NDBuffer, error) { return a.expandDims(at) }, at)
	})
}

// VStack joins arrays along axis 0, after AtLeast2D, see Concatenate.
func VStack(arrays []*NDBuffer) (*NDBuffer, error) {
	return callOn("VStack", func() (*NDBuffer, error) { return vStack(arrays) }, arrays...)
}

func vStack(arrays []*NDBuffer) (*NDBuffer, error) { return concatenateAs(arrays, atLeast2D, 0) }

// HStack joins arrays along axis 1, see Concatenate, or along axis 0 if the first has
// fewer than two axes.
func HStack(arrays []*NDBuffer) (*NDBuffer, error) {
	return callOn("HStack", func() (*NDBuffer, error) { return hStack(arrays) }, arrays...)
}

func hStack(arrays []*NDBuffer) (*NDBuffer, error) {
	return withArrays(arrays, func() (*NDBuffer, error) {
		axis := 1
		if len(arrays[0].shape) < 2 {
			axis = 0
		}
		return concatenateAs(arrays, atLeast1D, axis)
	})
}

// DStack joins arrays along axis 2, after AtLeast3D, see Concatenate.
func DStack(arrays []*NDBuffer) (*NDBuffer, error) {
	return callOn("DStack", func() (*NDBuffer, error) { return dStack(arrays) }, arrays...)
}

func dStack(arrays []*NDBuffer) (*NDBuffer, error) { return concatenateAs(arrays, atLeast3D, 2) }

// ColumnStack joins arrays along axis 1, see Concatenate. Arrays of fewer than two axes
// become columns.
func ColumnStack(arrays []*NDBuffer) (*NDBuffer, error) {
	return callOn("ColumnStack", func() (*NDBuffer, error) { return columnStack(arrays) }, arrays...)
}

func columnStack(arrays []*NDBuffer) (*NDBuffer, error) {
	return concatenateAs(arrays, func(a *NDBuffer) (*NDBuffer, error) {
		if len(a.shape) > 1 {
			return a.expandDims()
		}
		row, err := atLeast2D(a)
		if err != nil {
			return nil, err
		}
		defer row.Release()
		return row.transpose()
	}, 1)
}

// withArrays retains the arrays during a join. It returns ErrShape if there are no
// arrays.
func withArrays(arrays []*NDBuffer, join func() (*NDBuffer, error)) (*NDBuffer, error) {
	if len(arrays) == 0 {
		return nil, fmt.Errorf("joining no arrays, want at least one: %w", ErrShape)
	}
	release, err := retainAll(arrays...)
	if err != nil {
		return nil, err
	}
	defer release()
	return join()
}

// concatenateAs joins the results of convert, which are views or copies of the arrays,
// along an axis.
func concatenateAs(arrays []*NDBuffer, convert func(*NDBuffer) (*NDBuffer, error), axis int) (*NDBuffer, error) {
	var converted []*NDBuffer
	defer func() { releaseAll(converted) }()
	for _, a := range arrays {
		c, err := convert(a)
		if err != nil {
			return nil, err
		}
		converted = append(converted, c)
	}
	return join(converted, axis)
}

// concatenate is Concatenate for retained arrays and an axis that is not negative.
func concatenate(arrays []*NDBuffer, axis int) (*NDBuffer, error) {
	first := arrays[0]
	shape := slices.Clone(first.shape)
	types := []DType{first.dtype}
	for _, a := range arrays[1:] {
		if a.Device() != first.Device() {
			return nil, fmt.Errorf("joining arrays on %s and %s: %w", first.Device(), a.Device(), arrowbuf.ErrDevice)
		}
		types = append(types, a.dtype)
		if len(a.shape) != len(shape) || !equalExcept(axis, a.shape, shape) {
			return nil, fmt.Errorf("joining arrays of shapes %v and %v along axis %d: %w", first.shape, a.shape, axis, ErrShape)
		}
		shape[axis] += a.shape[axis]
	}
	dtype, err := Promote(types...)
	if err != nil {
		return nil, fmt.Errorf("joining arrays: %w", err)
	}
	for _, t := range types {
		if !CanCast(t, dtype, CastSameKind) {
			return nil, fmt.Errorf("joining arrays: cannot cast %s to %s: %w", t, dtype, ErrDType)
		}
	}
	out, err := Empty(first.Device(), dtype, shape...)
	if err != nil {
		return nil, err
	}
	pos := int64(0)
	for _, a := range arrays {
		if err := out.assignPart(axis, pos, a); err != nil {
			out.Release()
			return nil, err
		}
		pos += a.shape[axis]
	}
	return out, nil
}

// equalExcept reports whether two shapes are equal except along one axis.
func equalExcept(axis int, a, b []int64) bool {
	return slices.Equal(a[:axis], b[:axis]) && slices.Equal(a[axis+1:], b[axis+1:])
}

// assignPart assigns src to the slice of a that begins at index start of an axis.
func (a *NDBuffer) assignPart(axis int, start int64, src *NDBuffer) error {
	part, err := a.slice(axis, start, start+src.shape[axis])
	if err != nil {
		return err
	}
	defer part.Release()
	if src.dtype == a.dtype {
		return part.CopyFrom(src)
	}
	return part.Assign(src)
}

// SplitAt splits a along an axis before the given indices, into len(indices)+1 views,
// which the caller must release. A negative axis counts from the end. As in NumPy the
// views are Python's slices between neighbouring indices: negative indices count from
// the end, and a view is empty if its second index is not after its first.
func SplitAt(a *NDBuffer, indices []int64, axis int) ([]*NDBuffer, error) {
	return a.callForAll("SplitAt", func() ([]*NDBuffer, error) { return splitAt(a, indices, axis) })
}

func splitAt(a *NDBuffer, indices []int64, axis int) ([]*NDBuffer, error) {
	at, err := layout.NormalizeAxis(axis, len(a.shape))
	if err != nil {
		return nil, err
	}
	keys := slices.Repeat([]Key{All}, at+1)
	views := make([]*NDBuffer, 0, len(indices)+1)
	start := int64(0)
	for _, stop := range append(slices.Clip(indices), a.shape[at]) {
		keys[at] = Span(start, max(stop, Open+1)) // the least index is not an absent bound
		view, err := a.index(keys...)
		if err != nil {
			releaseAll(views)
			return nil, err
		}
		views = append(views, view)
		start = stop
	}
	return views, nil
}

// ArraySplit splits a along an axis into n views, which the caller must release. The
// first extent%n views have one element more than the others. Views are empty if n
// exceeds the extent. It returns ErrShape if n is less than 1, or greater than both
// the extent and 2^20.
func ArraySplit(a *NDBuffer, n int64, axis int) ([]*NDBuffer, error) {
	return a.callForAll("ArraySplit", func() ([]*NDBuffer, error) { return arraySplit(a, n, axis) })
}

func arraySplit(a *NDBuffer, n int64, axis int) ([]*NDBuffer, error) {
	at, err := layout.NormalizeAxis(axis, len(a.shape))
	if err != nil {
		return nil, err
	}
	if n < 1 {
		return nil, fmt.Errorf("%d parts, want at least 1: %w", n, ErrShape)
	}
	extent := a.shape[at]
	if most := max(extent, 1<<20); n > most {
		return nil, fmt.Errorf("%d elements into %d parts, want at most %d: %w", extent, n, most, ErrShape)
	}
	indices := make([]int64, n-1)
	for i := range indices {
		k := int64(i) + 1
		indices[i] = extent/n*k + min(k, extent%n)
	}
	return splitAt(a, indices, at)
}

// Split is ArraySplit into n views of equal size. It returns ErrShape if n does not
// divide the extent.
func Split(a *NDBuffer, n int64, axis int) ([]*NDBuffer, error) {
	return a.callForAll("Split", func() ([]*NDBuffer, error) { return split(a, n, axis) })
}

func split(a *NDBuffer, n int64, axis int) ([]*NDBuffer, error) {
	at, err := layout.NormalizeAxis(axis, len(a.shape))
	if err != nil {
		return nil, err
	}
	if n > 0 && a.shape[at]%n != 0 {
		return nil, fmt.Errorf("%d elements into %d equal parts: %w", a.shape[at], n, ErrShape)
	}
	return arraySplit(a, n, at)
}

// HSplit is Split along axis 1, or along axis 0 if a has one axis.
func HSplit(a *NDBuffer, n int64) ([]*NDBuffer, error) {
	return a.callForAll("HSplit", func() ([]*NDBuffer, error) { return hSplit(a, n) })
}

func hSplit(a *NDBuffer, n int64) ([]*NDBuffer, error) {
	if err := checkMinAxes(a, 1); err != nil {
		return nil, err
	}
	return split(a, n, min(1, len(a.shape)-1))
}

// VSplit is Split along axis 0. It returns ErrShape unless a has at least two axes.
func VSplit(a *NDBuffer, n int64) ([]*NDBuffer, error) {
	return a.callForAll("VSplit", func() ([]*NDBuffer, error) { return vSplit(a, n) })
}

func vSplit(a *NDBuffer, n int64) ([]*NDBuffer, error) {
	if err := checkMinAxes(a, 2); err != nil {
		return nil, err
	}
	return split(a, n, 0)
}

// DSplit is Split along axis 2. It returns ErrShape unless a has at least three axes.
func DSplit(a *NDBuffer, n int64) ([]*NDBuffer, error) {
	return a.callForAll("DSplit", func() ([]*NDBuffer, error) { return dSplit(a, n) })
}

func dSplit(a *NDBuffer, n int64) ([]*NDBuffer, error) {
	if err := checkMinAxes(a, 3); err != nil {
		return nil, err
	}
	return split(a, n, 2)
}

// HSplitAt is [SplitAt] along axis 1, or along axis 0 if a has one axis. It returns
// ErrShape unless a has at least one axis.
func HSplitAt(a *NDBuffer, indices []int64) ([]*NDBuffer, error) {
	return splitAtAxis("HSplitAt", a, indices, 1, 1)
}

// VSplitAt is [SplitAt] along axis 0. It returns ErrShape unless a has at least two axes.
func VSplitAt(a *NDBuffer, indices []int64) ([]*NDBuffer, error) {
	return splitAtAxis("VSplitAt", a, indices, 0, 2)
}

// DSplitAt is [SplitAt] along axis 2. It returns ErrShape unless a has at least three
// axes.
func DSplitAt(a *NDBuffer, indices []int64) ([]*NDBuffer, error) {
	return splitAtAxis("DSplitAt", a, indices, 2, 3)
}

// splitAtAxis is SplitAt along an axis, or the last one before it, of at least n axes.
func splitAtAxis(name string, a *NDBuffer, indices []int64, axis, n int) ([]*NDBuffer, error) {
	return a.callForAll(name, func() ([]*NDBuffer, error) {
		if err := checkMinAxes(a, n); err != nil {
			return nil, err
		}
		return splitAt(a, indices, min(axis, len(a.shape)-1))
	})
}

// checkMinAxes returns ErrShape if a has fewer than n axes.
func checkMinAxes(a *NDBuffer, n int) error {
	if len(a.shape) < n {
		return fmt.Errorf("array of shape %v, want at least %d axes: %w", a.shape, n, ErrShape)
	}
	return nil
}
