package ndview

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Errors that a caller can act on; test with errors.Is.
var (
	// ErrShape: shapes, strides or axes do not fit each other or the buffer.
	ErrShape = errors.New("shape mismatch")
	// ErrDType: the operation does not take elements of this type.
	ErrDType = errors.New("dtype mismatch")
	// ErrNulls: a column with missing values was to become an array.
	ErrNulls = errors.New("column has nulls")
)

// NDBuffer is an N-dimensional array: a buffer on a device, the type of its
// elements, a shape, byte strides and the byte offset of element [0, ..., 0].
// Views share the buffer. An NDBuffer is reference counted like the buffer
// under it: whoever makes or is given one releases it once.
type NDBuffer struct {
	refs    atomic.Int64
	buf     arrowbuf.Buffer
	dtype   DType
	shape   []int64
	strides []int64
	offset  int64
}

// Empty returns a C-contiguous array of the given shape on a device. Its
// elements are undefined.
func Empty(dev arrowbuf.Device, dtype DType, shape ...int64) (*NDBuffer, error) {
	n, err := byteCount(dtype, shape)
	if err != nil {
		return nil, err
	}
	buf, err := dev.Alloc(n)
	if err != nil {
		return nil, fmt.Errorf("array of %s %v: %w", dtype, shape, err)
	}
	defer buf.Release()
	return FromBuffer(buf, dtype, 0, shape, nil)
}

// FromBuffer looks at bytes of a buffer as an array, without a copy, and takes
// a reference to the buffer. The offset and the strides are in bytes; nil
// strides mean C order. Every element must lie within the buffer.
func FromBuffer(buf arrowbuf.Buffer, dtype DType, offset int64, shape, strides []int64) (*NDBuffer, error) {
	if _, err := byteCount(dtype, shape); err != nil {
		return nil, err
	}
	if strides == nil {
		strides = cStrides(dtype, shape)
	}
	if len(strides) != len(shape) {
		return nil, fmt.Errorf("%d strides for %d axes: %w", len(strides), len(shape), ErrShape)
	}
	low, high := extent(dtype, offset, shape, strides)
	if low < 0 || high > buf.Len() {
		return nil, fmt.Errorf("array of %s %v needs bytes [%d, %d) of a buffer of %d: %w",
			dtype, shape, low, high, buf.Len(), arrowbuf.ErrOutOfRange)
	}
	buf.Retain()
	return view(buf, dtype, offset, slices.Clone(shape), slices.Clone(strides)), nil
}

// view builds an array around a reference that it takes over.
func view(buf arrowbuf.Buffer, dtype DType, offset int64, shape, strides []int64) *NDBuffer {
	a := &NDBuffer{buf: buf, dtype: dtype, shape: shape, strides: strides, offset: offset}
	a.refs.Store(1)
	return a
}

// Device is where the elements live.
func (a *NDBuffer) Device() arrowbuf.Device { return a.buf.Device() }

// Buffer is the buffer under the array, which the array keeps alive.
func (a *NDBuffer) Buffer() arrowbuf.Buffer { return a.buf }

// DType is the type of the elements.
func (a *NDBuffer) DType() DType { return a.dtype }

// NDim is the number of axes.
func (a *NDBuffer) NDim() int { return len(a.shape) }

// Shape is the number of elements along each axis. The caller must not write
// to it.
func (a *NDBuffer) Shape() []int64 { return a.shape }

// Strides is the distance in bytes from one element to the next along each
// axis; it may be negative or zero. The caller must not write to it.
func (a *NDBuffer) Strides() []int64 { return a.strides }

// Offset is the position in bytes of element [0, ..., 0] in the buffer.
func (a *NDBuffer) Offset() int64 { return a.offset }

// Size is the number of elements.
func (a *NDBuffer) Size() int64 { return product(a.shape) }

// NBytes is the number of bytes that the elements take, without gaps.
func (a *NDBuffer) NBytes() int64 { return a.Size() * a.dtype.Size() }

// IsContiguous tells whether the elements lie in C order without gaps.
func (a *NDBuffer) IsContiguous() bool {
	expect := a.dtype.Size()
	for i := len(a.shape) - 1; i >= 0; i-- {
		if a.shape[i] == 0 {
			return true
		}
		if a.shape[i] != 1 && a.strides[i] != expect {
			return false
		}
		expect *= a.shape[i]
	}
	return true
}

// Retain adds a reference.
func (a *NDBuffer) Retain() { a.refs.Add(1) }

// Release gives one reference back; the last one gives the buffer back.
func (a *NDBuffer) Release() {
	switch n := a.refs.Add(-1); {
	case n == 0:
		a.buf.Release()
	case n < 0:
		panic(fmt.Errorf("ndview: Release: %w", arrowbuf.ErrReleased))
	}
}

// byteCount checks a dtype and a shape and returns the bytes of a gapless
// array.
func byteCount(dtype DType, shape []int64) (int64, error) {
	if dtype.size < 1 {
		return 0, fmt.Errorf("dtype %s: %w", dtype, ErrDType)
	}
	n := dtype.Size()
	for _, d := range shape {
		if d < 0 {
			return 0, fmt.Errorf("shape %v has a negative extent: %w", shape, ErrShape)
		}
		if d > 0 && n > math.MaxInt64/d {
			return 0, fmt.Errorf("shape %v of %s is larger than 2^63 bytes: %w", shape, dtype, ErrShape)
		}
		n *= d
	}
	return n, nil
}

func product(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return n
}

func cStrides(dtype DType, shape []int64) []int64 {
	strides := make([]int64, len(shape))
	step := dtype.Size()
	for i := len(shape) - 1; i >= 0; i-- {
		strides[i] = step
		step *= max(shape[i], 1)
	}
	return strides
}

// extent is the half-open range of bytes that the elements touch.
func extent(dtype DType, offset int64, shape, strides []int64) (low, high int64) {
	low, high = offset, offset+dtype.Size()
	for i, d := range shape {
		if d == 0 {
			return offset, offset
		}
		if reach := (d - 1) * strides[i]; reach < 0 {
			low += reach
		} else {
			high += reach
		}
	}
	return low, high
}
