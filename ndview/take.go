package ndview

import (
	"slices"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// Take copies the elements of an array at the indices along an axis, which
// counts from the end where it is negative, to a new array in C order: its shape
// is that of a with the axis replaced by the shape of the indices. Indices are
// of any integer type and shape and on the device of a, else the error is
// ErrDType or arrowbuf.ErrDevice. An index outside the axis is what mode says;
// the error of ModeRaise names the first such index.
func Take(a, indices *NDBuffer, axis int, mode Mode) (*NDBuffer, error) {
	if err := mode.check(); err != nil {
		return nil, err
	}
	release, err := holdAll(a, indices)
	if err != nil {
		return nil, err
	}
	defer release()
	if len(a.shape) == 0 { // NumPy takes it for one of an element
		if a, err = AtLeast1D(a); err != nil {
			return nil, err
		}
		defer a.Release()
	}
	at, err := layout.Axis(axis, len(a.shape))
	if err != nil {
		return nil, err
	}
	if err := checkIndices(a, indices); err != nil {
		return nil, err
	}
	s := &selection{
		from:    a,
		offset:  a.offset,
		shape:   slices.Concat(a.shape[:at], indices.shape, a.shape[at+1:]),
		strides: slices.Concat(a.strides[:at], make([]int64, len(indices.shape)), a.strides[at+1:]),
		at:      at,
		varied:  indices.shape,
		picked:  []picked{{at, a.shape[at], a.strides[at], indices, indices.strides}},
		mode:    mode,
	}
	return s.get()
}

// TakeFlat is Take of the elements of a in C order, as if they were one axis. An
// array in which they do not lie so is copied first.
func TakeFlat(a, indices *NDBuffer, mode Mode) (*NDBuffer, error) {
	flat, err := a.Ravel(OrderC)
	if err != nil {
		return nil, err
	}
	defer flat.Release()
	return Take(flat, indices, 0, mode)
}
