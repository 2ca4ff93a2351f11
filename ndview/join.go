package ndview

import (
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// Concatenate joins arrays along an axis that they have, which counts from the
// end where it is negative, in a new array in C order, of the type that Promote
// says; times and durations do not join. All other extents are equal, else the
// error is ErrShape; all are on one device.
func Concatenate(arrays []*NDBuffer, axis int) (*NDBuffer, error) {
	return withArrays(arrays, func() (*NDBuffer, error) {
		at, err := layout.Axis(axis, len(arrays[0].shape))
		if err != nil {
			return nil, err
		}
		return concatenate(arrays, at)
	})
}

// ConcatenateFlat joins the elements of arrays of any shapes, each in C order,
// along one axis.
func ConcatenateFlat(arrays []*NDBuffer) (*NDBuffer, error) {
	return concatenateAs(arrays, func(a *NDBuffer) (*NDBuffer, error) { return a.Ravel(OrderC) }, 0)
}

// Stack joins arrays of one shape along a new axis of the result, which counts
// from the end where it is negative.
func Stack(arrays []*NDBuffer, axis int) (*NDBuffer, error) {
	return withArrays(arrays, func() (*NDBuffer, error) {
		shape := arrays[0].shape
		at, err := layout.Axis(axis, len(shape)+1)
		if err != nil {
			return nil, err
		}
		for _, a := range arrays {
			if !slices.Equal(a.shape, shape) {
				return nil, fmt.Errorf("stacking arrays of shapes %v and %v: %w", shape, a.shape, ErrShape)
			}
		}
		return concatenateAs(arrays, func(a *NDBuffer) (*NDBuffer, error) { return a.ExpandDims(at) }, at)
	})
}

// VStack joins arrays of at least two axes, AtLeast2D of others, along axis 0.
func VStack(arrays []*NDBuffer) (*NDBuffer, error) { return concatenateAs(arrays, AtLeast2D, 0) }

// HStack joins arrays along axis 1, or 0 where the first has one axis or none.
func HStack(arrays []*NDBuffer) (*NDBuffer, error) {
	return withArrays(arrays, func() (*NDBuffer, error) {
		axis := 1
		if len(arrays[0].shape) < 2 {
			axis = 0
		}
		return concatenateAs(arrays, AtLeast1D, axis)
	})
}

// DStack joins arrays of at least three axes, AtLeast3D of others, along axis 2.
func DStack(arrays []*NDBuffer) (*NDBuffer, error) { return concatenateAs(arrays, AtLeast3D, 2) }

// ColumnStack joins arrays along axis 1, those of one axis or none as columns.
func ColumnStack(arrays []*NDBuffer) (*NDBuffer, error) {
	return concatenateAs(arrays, func(a *NDBuffer) (*NDBuffer, error) {
		if len(a.shape) > 1 {
			return a.ExpandDims()
		}
		row, err := AtLeast2D(a)
		if err != nil {
			return nil, err
		}
		defer row.Release()
		return row.Transpose()
	}, 1)
}

// withArrays does a join of arrays that it holds, of which there is one at least.
func withArrays(arrays []*NDBuffer, join func() (*NDBuffer, error)) (*NDBuffer, error) {
	if len(arrays) == 0 {
		return nil, fmt.Errorf("joining no arrays: one at least is expected: %w", ErrShape)
	}
	release, err := holdAll(arrays...)
	if err != nil {
		return nil, err
	}
	defer release()
	return join()
}

// concatenateAs joins what the arrays are made to along an axis.
func concatenateAs(arrays []*NDBuffer, as func(*NDBuffer) (*NDBuffer, error), axis int) (*NDBuffer, error) {
	var made []*NDBuffer
	defer func() { releaseAll(made) }()
	for _, a := range arrays {
		one, err := as(a)
		if err != nil {
			return nil, err
		}
		made = append(made, one)
	}
	return Concatenate(made, axis)
}

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
			return nil, fmt.Errorf("joining arrays: %s is no %s: %w", t, dtype, ErrDType)
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

// equalExcept tells whether shapes are equal but for one axis.
func equalExcept(axis int, a, b []int64) bool {
	return slices.Equal(a[:axis], b[:axis]) && slices.Equal(a[axis+1:], b[axis+1:])
}

// assignPart writes src to a, from place pos of an axis on.
func (a *NDBuffer) assignPart(axis int, pos int64, src *NDBuffer) error {
	piece, err := a.Slice(axis, pos, pos+src.shape[axis])
	if err != nil {
		return err
	}
	defer piece.Release()
	if src.dtype == a.dtype {
		return piece.CopyFrom(src)
	}
	return piece.Assign(src)
}

// SplitAt cuts an array along an axis, which counts from the end where it is
// negative, before the given places, into len(places)+1 views, which the caller
// releases. As in NumPy the pieces are Python's slices between neighbours: places
// may be negative or beyond the end, and where they fall the piece is empty.
func SplitAt(a *NDBuffer, places []int64, axis int) ([]*NDBuffer, error) {
	at, err := layout.Axis(axis, len(a.shape))
	if err != nil {
		return nil, err
	}
	extent := a.shape[at]
	pieces := make([]*NDBuffer, 0, len(places)+1)
	start := int64(0)
	for _, place := range append(slices.Clip(places), extent) {
		from, to := clamp(start, max(place, Open+1), extent) // since no place is an absent one
		piece, err := a.Slice(at, from, to)
		if err != nil {
			releaseAll(pieces)
			return nil, err
		}
		pieces = append(pieces, piece)
		start = place
	}
	return pieces, nil
}

// ArraySplit cuts an array along an axis into n views, which the caller releases.
// The first extent%n pieces have one element more than the others, which are
// empty where n is beyond the extent; more than 2^20 empty ones are ErrShape.
func ArraySplit(a *NDBuffer, n int64, axis int) ([]*NDBuffer, error) {
	at, err := layout.Axis(axis, len(a.shape))
	if err != nil {
		return nil, err
	}
	if n < 1 {
		return nil, fmt.Errorf("splitting into %d pieces: at least 1 is expected: %w", n, ErrShape)
	}
	extent := a.shape[at]
	if most := max(extent, 1<<20); n > most {
		return nil, fmt.Errorf("splitting %d elements into %d pieces: more than %d are not made: %w", extent, n, most, ErrShape)
	}
	places := make([]int64, n-1)
	for i := range places {
		k := int64(i) + 1
		places[i] = extent/n*k + min(k, extent%n)
	}
	return SplitAt(a, places, at)
}

// Split is ArraySplit into pieces of one size; where there is none the error is
// ErrShape.
func Split(a *NDBuffer, n int64, axis int) ([]*NDBuffer, error) {
	at, err := layout.Axis(axis, len(a.shape))
	if err != nil {
		return nil, err
	}
	if n > 0 && a.shape[at]%n != 0 {
		return nil, fmt.Errorf("splitting %d elements into %d equal pieces: %w", a.shape[at], n, ErrShape)
	}
	return ArraySplit(a, n, at)
}

// HSplit is Split along axis 1, or 0 where there is no other.
func HSplit(a *NDBuffer, n int64) ([]*NDBuffer, error) {
	if err := checkMinAxes(a, 1); err != nil {
		return nil, err
	}
	return Split(a, n, min(1, len(a.shape)-1))
}

// VSplit is Split along axis 0 of two axes at least.
func VSplit(a *NDBuffer, n int64) ([]*NDBuffer, error) {
	if err := checkMinAxes(a, 2); err != nil {
		return nil, err
	}
	return Split(a, n, 0)
}

// DSplit is Split along axis 2 of three axes at least.
func DSplit(a *NDBuffer, n int64) ([]*NDBuffer, error) {
	if err := checkMinAxes(a, 3); err != nil {
		return nil, err
	}
	return Split(a, n, 2)
}

func checkMinAxes(a *NDBuffer, n int) error {
	if len(a.shape) < n {
		return fmt.Errorf("an array of shape %v: at least %d axes are expected: %w", a.shape, n, ErrShape)
	}
	return nil
}
