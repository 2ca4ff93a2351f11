package ndview

import (
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

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
	if err := axesAtLeast(a, 1); err != nil {
		return nil, err
	}
	return Split(a, n, min(1, len(a.shape)-1))
}

// VSplit is Split along axis 0 of two axes at least.
func VSplit(a *NDBuffer, n int64) ([]*NDBuffer, error) {
	if err := axesAtLeast(a, 2); err != nil {
		return nil, err
	}
	return Split(a, n, 0)
}

// DSplit is Split along axis 2 of three axes at least.
func DSplit(a *NDBuffer, n int64) ([]*NDBuffer, error) {
	if err := axesAtLeast(a, 3); err != nil {
		return nil, err
	}
	return Split(a, n, 2)
}

func axesAtLeast(a *NDBuffer, n int) error {
	if len(a.shape) < n {
		return fmt.Errorf("an array of shape %v: at least %d axes are expected: %w", a.shape, n, ErrShape)
	}
	return nil
}
