package ndview

import (
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// Options says how New makes an array.
type Options struct {
	// Order is in which order the elements are to lie: OrderF, or C for any
	// other, since there is no array to be like.
	Order Order
	// Fill is what Fill writes to the elements, which are undefined without it.
	Fill any
}

// New returns an array without gaps on a device.
func New(dev arrowbuf.Device, dtype DType, shape []int64, o Options) (*NDBuffer, error) {
	if err := o.Order.check(); err != nil {
		return nil, err
	}
	a, err := newArray(dev, allocate, dtype, shape, o.Order)
	if err == nil && o.Fill != nil {
		if err = a.Fill(o.Fill); err != nil {
			a.Release()
			return nil, err
		}
	}
	return a, err
}

// newArray makes an array in memory that alloc takes.
func newArray(dev arrowbuf.Device, alloc func(arrowbuf.Device, int64) (arrowbuf.Buffer, error),
	dtype DType, shape []int64, order Order) (*NDBuffer, error) {
	n, err := byteCount(dtype, shape)
	switch {
	case err != nil:
		return nil, err
	case dev == nil:
		return nil, fmt.Errorf("array of %s %v: no device: %w", dtype, shape, arrowbuf.ErrDevice)
	}
	strides := cStrides(dtype, shape)
	if order == OrderF {
		strides = layout.F(dtype.Size(), shape)
	}
	buf, err := alloc(dev, n)
	if err != nil {
		return nil, fmt.Errorf("array of %s %v: %w", dtype, shape, err)
	}
	defer buf.Release()
	return FromBuffer(buf, dtype, 0, shape, strides)
}

// Full returns an array in C order on a device, all elements of which are one
// value, see [NDBuffer.Fill].
func Full(dev arrowbuf.Device, dtype DType, value any, shape ...int64) (*NDBuffer, error) {
	if value == nil {
		return nil, fmt.Errorf("an array full of nil: want a value: %w", ErrDType)
	}
	return New(dev, dtype, shape, Options{Fill: value})
}

// Empty returns an array in C order on a device. Its elements are undefined.
func Empty(dev arrowbuf.Device, dtype DType, shape ...int64) (*NDBuffer, error) {
	return New(dev, dtype, shape, Options{})
}

// Zeros returns an array in C order on a device, all bytes of which are 0.
func Zeros(dev arrowbuf.Device, dtype DType, shape ...int64) (*NDBuffer, error) {
	a, err := New(dev, dtype, shape, Options{})
	if err != nil {
		return nil, err
	}
	if err := a.Zero(); err != nil {
		a.Release()
		return nil, err
	}
	return a, nil
}
