package ndview

import (
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// NonZero tells where the elements of an array are that are not 0, in C order:
// one array of int64 an axis. The caller releases them. Of an array without axes
// there is none, so it is ErrShape, as in NumPy.
func NonZero(a *NDBuffer) ([]*NDBuffer, error) {
	if len(a.shape) == 0 {
		return nil, fmt.Errorf("NonZero of an array without axes: make it AtLeast1D: %w", ErrShape)
	}
	all, err := whereTrue(a)
	if err != nil {
		return nil, err
	}
	defer all.Release()
	axes := make([]*NDBuffer, len(a.shape))
	for k := range axes {
		if axes[k], err = all.Index(At(int64(k))); err != nil {
			releaseAll(axes[:k])
			return nil, err
		}
	}
	return axes, nil
}

// ArgWhere tells where the elements of an array are that are not 0, in C order:
// an array of int64 of shape [such elements, axes].
func ArgWhere(a *NDBuffer) (*NDBuffer, error) {
	all, err := whereTrue(a)
	if err != nil {
		return nil, err
	}
	defer all.Release()
	return all.Transpose()
}

// whereTrue is ArgWhere with the axes first.
func whereTrue(a *NDBuffer) (*NDBuffer, error) {
	truths, err := a.truths()
	if err != nil {
		return nil, err
	}
	defer truths.Release()
	places, err := truePlaces(truths)
	if err != nil {
		return nil, err
	}
	defer places.Release()
	if len(a.shape) == 1 {
		return places.Reshape(1, places.Size())
	}
	return unravel(places, a.shape)
}

// truths tells which elements are not 0, as dtype bool.
func (a *NDBuffer) truths() (*NDBuffer, error) {
	if a.dtype == Bool {
		return a.ExpandDims()
	}
	return a.AsType(Bool, OrderK, CastUnsafe)
}

// truePlaces tells which elements of a mask, counted in C order, are true.
func truePlaces(mask *NDBuffer) (*NDBuffer, error) {
	if mask.dtype != Bool {
		return nil, fmt.Errorf("a mask of dtype %s: bool is expected: %w", mask.dtype, ErrDType)
	}
	t, err := newTruths(mask)
	if err != nil {
		return nil, err
	}
	defer t.release()
	return t.positions()
}

// Compress copies the slices of a along an axis, which counts from the end where
// it is negative, at which the condition is not 0. The condition has one axis;
// where it is shorter than that of a the rest is 0, and where it is longer all
// beyond must be, else the error is arrowbuf.ErrOutOfRange.
func Compress(condition, a *NDBuffer, axis int) (*NDBuffer, error) {
	if len(a.shape) == 0 { // NumPy takes it for one of an element
		row, err := AtLeast1D(a)
		if err != nil {
			return nil, err
		}
		defer row.Release()
		a = row
	}
	at, err := layout.Axis(axis, len(a.shape))
	if err != nil {
		return nil, err
	}
	if len(condition.shape) != 1 {
		return nil, fmt.Errorf("a condition of shape %v: one axis is expected: %w", condition.shape, ErrShape)
	}
	if condition.Device() != a.Device() {
		return nil, fmt.Errorf("a condition on %s for an array on %s: %w", condition.Device(), a.Device(), arrowbuf.ErrDevice)
	}
	truths, err := condition.truths()
	if err != nil {
		return nil, err
	}
	defer truths.Release()
	if len(a.shape) == 1 && truths.shape[0] == a.shape[0] {
		return a.Get(Mask(truths))
	}
	places, err := truePlaces(truths)
	if err != nil {
		return nil, err
	}
	defer places.Release()
	return Take(a, places, at, ModeRaise)
}

// CompressFlat is Compress of the elements of a in C order.
func CompressFlat(condition, a *NDBuffer) (*NDBuffer, error) {
	flat, err := a.Ravel(OrderC)
	if err != nil {
		return nil, err
	}
	defer flat.Release()
	return Compress(condition, flat, 0)
}
