package ndview

import (
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Take copies the elements of an array at the indices along an axis, which
// counts from the end where it is negative, to a new array in C order: its shape
// is that of a with the axis replaced by the shape of the indices. Indices are
// of any integer type and shape and on the device of a, else the error is
// ErrDType or arrowbuf.ErrDevice. An index outside the axis is what mode says;
// the error of ModeRaise names the first such index.
func Take(a, indices *NDBuffer, axis int, mode Mode) (*NDBuffer, error) {
	release, err := holdBoth(a, indices)
	if err != nil {
		return nil, err
	}
	defer release()
	at, err := axisOf(axis, len(a.shape))
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

// axisOf is an axis of n that counts from the end where it is negative.
func axisOf(axis, n int) (int, error) {
	if axis < -n || axis >= n {
		return 0, fmt.Errorf("axis %d of an array of %d axes: %w", axis, n, ErrShape)
	}
	if axis < 0 {
		axis += n
	}
	return axis, nil
}

// TakeFlat is Take of the elements of a in C order, as if they were one axis. It
// copies an array whose elements do not lie so first.
func TakeFlat(a, indices *NDBuffer, mode Mode) (*NDBuffer, error) {
	flat, err := a.flat()
	if err != nil {
		return nil, err
	}
	defer flat.Release()
	return Take(flat, indices, 0, mode)
}

// flat is the elements in C order along one axis: a view, or a copy where they do
// not lie so.
func (a *NDBuffer) flat() (*NDBuffer, error) {
	if a.IsContiguous() {
		return a.Reshape(a.Size())
	}
	zero, err := zeroed(a.Device(), Int64)
	if err != nil {
		return nil, err
	}
	defer zero.Release()
	s := &selection{from: a, offset: a.offset, shape: a.shape, strides: a.strides, picked: []picked{{extent: 1, indices: zero}}}
	c, err := s.get()
	if err != nil {
		return nil, err
	}
	defer c.Release()
	return c.Reshape(c.Size())
}

func zeroed(dev arrowbuf.Device, dtype DType, shape ...int64) (*NDBuffer, error) {
	a, err := Empty(dev, dtype, shape...)
	if err != nil {
		return nil, err
	}
	if err := a.Zero(); err != nil {
		a.Release()
		return nil, err
	}
	return a, nil
}
