package ndview

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	ew "github.com/quiver-gpu/quiver/ndview/internal/cpu/elementwise"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// Errors that a caller can act on; test with errors.Is.
var (
	// ErrShape: shapes, strides or axes do not fit each other or the buffer.
	ErrShape = layout.ErrShape
	// ErrReadOnly: a write to an array, or a buffer, that must not be written to.
	ErrReadOnly = cudabuf.ErrReadOnly
	// ErrNulls: a column with missing values was to become an array.
	ErrNulls = errors.New("column has nulls")
)

// NDBuffer is an N-dimensional array: a buffer on a device, the type of its
// elements, a shape, byte strides and the byte offset of element [0, ..., 0].
// Views share the buffer. An NDBuffer is reference counted like the buffer
// under it: whoever makes or is given one releases it once. What is asked of a
// released one, and can answer an error, answers arrowbuf.ErrReleased. A nil
// *NDBuffer is no array: as any nil pointer of Go, it may be used for nothing but
// where a function says so.
type NDBuffer struct {
	refs    atomic.Int64
	buf     arrowbuf.Buffer
	dtype   DType
	shape   []int64
	strides []int64
	offset  int64

	// What follows from these, and every operation asks for.
	size       int64   // elements
	contiguous bool    // in C order, without gaps
	code       ew.Type // of the elements

	base     *NDBuffer // what a view was made from first, nil for no view
	readOnly bool      // the array or its buffer
}

// FromBuffer looks at bytes of a buffer as an array, without a copy, and takes
// a reference to the buffer. The offset and the strides are in bytes and need
// not be multiples of the element's size; nil strides mean C order. Every
// element, and the offset where there is none, must lie within the buffer, or
// the error is arrowbuf.ErrOutOfRange.
func FromBuffer(buf arrowbuf.Buffer, dtype DType, offset int64, shape, strides []int64) (*NDBuffer, error) {
	if _, err := byteCount(dtype, shape); err != nil {
		return nil, err
	}
	if buf == nil {
		return nil, fmt.Errorf("array of %s %v: no buffer: %w", dtype, shape, arrowbuf.ErrDevice)
	}
	if strides == nil {
		strides = cStrides(dtype, shape)
	}
	if len(strides) != len(shape) {
		return nil, fmt.Errorf("%d strides for %d axes: %w", len(strides), len(shape), ErrShape)
	}
	low, high, ok := layout.Extent(dtype.Size(), offset, shape, strides)
	if !ok || low < 0 || high > buf.Len() {
		return nil, fmt.Errorf("array of %s %v with strides %v at offset %d does not fit a buffer of %d bytes: %w",
			dtype, shape, strides, offset, buf.Len(), arrowbuf.ErrOutOfRange)
	}
	buf.Retain()
	return over(buf, dtype, offset, slices.Clone(shape), slices.Clone(strides)), nil
}

// over builds an array around a reference to a buffer, which it takes over.
func over(buf arrowbuf.Buffer, dtype DType, offset int64, shape, strides []int64) *NDBuffer {
	a := &NDBuffer{buf: buf, dtype: dtype, shape: shape, strides: strides, offset: offset}
	a.size, a.contiguous = product(shape), layout.IsC(dtype.Size(), shape, strides)
	a.code, _ = dtype.Code()
	a.readOnly = !mayChange(buf)
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
func (a *NDBuffer) Size() int64 { return a.size }

// NBytes is the number of bytes that the elements take, without gaps.
func (a *NDBuffer) NBytes() int64 { return a.size * a.dtype.Size() }

// IsContiguous tells whether the elements lie in C order without gaps, as no
// elements and one element do.
func (a *NDBuffer) IsContiguous() bool { return a.contiguous }

// Retain adds a reference. It panics once the last was released.
func (a *NDBuffer) Retain() {
	if err := a.hold(); err != nil {
		panic(fmt.Errorf("ndview: Retain: %w", err))
	}
}

// Release gives one reference back; the last one gives the buffer back.
func (a *NDBuffer) Release() {
	switch n := a.refs.Add(-1); {
	case n == 0:
		a.buf.Release()
	case n < 0:
		panic(fmt.Errorf("ndview: Release: %w", arrowbuf.ErrReleased))
	}
}

// TryRetain adds a reference, or returns an error wrapping arrowbuf.ErrReleased if the
// last one was released. Operations retain an array with it for their duration.
func (a *NDBuffer) TryRetain() error { return a.hold() }

// hold takes a reference for the time of an operation, so that memory which
// another goroutine releases meanwhile is not used again under it.
func (a *NDBuffer) hold() error {
	for {
		n := a.refs.Load()
		if n <= 0 {
			return a.released()
		}
		if a.refs.CompareAndSwap(n, n+1) {
			return nil
		}
	}
}

func (a *NDBuffer) released() error {
	return fmt.Errorf("array of %s %v: %w", a.dtype, a.shape, arrowbuf.ErrReleased)
}

// holdAll holds arrays until release is called.
func holdAll(arrays ...*NDBuffer) (release func(), err error) {
	for i, a := range arrays {
		if err := a.hold(); err != nil {
			releaseAll(arrays[:i])
			return nil, err
		}
	}
	return func() { releaseAll(arrays) }, nil
}

// holdToWrite holds an array that is to be written to, and those that are read
// for it. One that must not be written to is ErrReadOnly.
func holdToWrite(a *NDBuffer, from ...*NDBuffer) (release func(), err error) {
	if err := a.checkWriteable(); err != nil {
		return nil, err
	}
	return holdAll(append([]*NDBuffer{a}, from...)...)
}

func releaseAll(arrays []*NDBuffer) {
	for _, a := range arrays {
		a.Release()
	}
}

// Flags are what NumPy calls an array's flags. They are worked out anew for
// every array, so a view has its own.
type Flags struct {
	CContiguous bool // elements lie in C order without gaps, as no elements do
	FContiguous bool // elements lie in Fortran order without gaps, as no elements do
	Aligned     bool // every element's address is a multiple of what its type wants
	Writeable   bool // what writes to the array does not answer ErrReadOnly
	OwnData     bool // the array is no view of another: Base is nil
}

// Flags tells how the elements lie and what may be done to them.
func (a *NDBuffer) Flags() Flags {
	return Flags{
		CContiguous: a.IsContiguous(),
		FContiguous: a.isF(),
		Aligned:     a.isAligned(),
		Writeable:   a.checkWriteable() == nil,
		OwnData:     a.base == nil,
	}
}

// FNC is NumPy's: F order and not C order.
func (f Flags) FNC() bool { return f.FContiguous && !f.CContiguous }

// FORC is NumPy's: F order or C order.
func (f Flags) FORC() bool { return f.FContiguous || f.CContiguous }

// Behaved is NumPy's: aligned and writeable.
func (f Flags) Behaved() bool { return f.Aligned && f.Writeable }

// CArray is NumPy's: behaved and in C order.
func (f Flags) CArray() bool { return f.Behaved() && f.CContiguous }

// FArray is what NumPy's documents say: behaved and in F order and not C order.
func (f Flags) FArray() bool { return f.Behaved() && f.FNC() }

// String lists the flags as NumPy does.
func (f Flags) String() string {
	return fmt.Sprintf("C_CONTIGUOUS : %t\nF_CONTIGUOUS : %t\nOWNDATA : %t\nWRITEABLE : %t\nALIGNED : %t",
		f.CContiguous, f.FContiguous, f.OwnData, f.Writeable, f.Aligned)
}

func (a *NDBuffer) isAligned() bool {
	places := int64(a.buf.Address()) + a.offset
	for i, d := range a.shape {
		if d == 0 {
			return true
		}
		if d > 1 {
			places |= a.strides[i]
		}
	}
	return places%a.dtype.Alignment() == 0
}

// mayChange tells whether memory may be written to.
func mayChange(buf arrowbuf.Buffer) bool {
	b, ok := buf.(interface{ Mutable() bool })
	return !ok || b.Mutable()
}

// checkWriteable answers ErrReadOnly for an array that must not be written to.
func (a *NDBuffer) checkWriteable() error {
	if a.readOnly {
		return fmt.Errorf("writing to an array of %s %v: %w", a.dtype, a.shape, ErrReadOnly)
	}
	return nil
}

// byteCount checks a dtype and a shape and returns the bytes of a gapless
// array.
func byteCount(dtype DType, shape []int64) (int64, error) {
	if dtype.Size() < 1 {
		return 0, fmt.Errorf("dtype %s: %w", dtype, ErrDType)
	}
	return layout.Bytes(dtype.Size(), shape)
}

func product(shape []int64) int64 { return layout.Product(shape) }

func cStrides(dtype DType, shape []int64) []int64 { return layout.C(dtype.Size(), shape) }

// MayShareMemory tells whether some byte belongs to elements of both arrays. The
// answer is exact, as NumPy's shares_memory: the even and the odd columns of a
// matrix share none. It goes by addresses, so two buffers over one allocation
// are seen to be so. Released arrays share nothing. (The "may" is for layouts
// that are contrived so that the answer would take seconds to find.)
func MayShareMemory(a, b *NDBuffer) bool {
	release, err := holdAll(a, b)
	if err != nil {
		return false
	}
	defer release()
	inA, hostA := a.addresses()
	inB, hostB := b.addresses()
	// Pinned memory may be the CPU's, seen by two devices.
	if (!hostA || !hostB) && a.Device() != b.Device() {
		return false
	}
	return layout.Overlap(inA, inB)
}

// addresses are where the elements lie in the memory of the host, or of a device.
func (a *NDBuffer) addresses() (run layout.Run, onHost bool) {
	run = a.run()
	if data, ok := arrowbuf.HostBytes(a.buf); ok {
		run.Offset += int64(uintptr(unsafe.Pointer(unsafe.SliceData(data))))
		return run, true
	}
	run.Offset += int64(a.buf.Address())
	return run, false
}

// Order says in which order elements lie in memory, or are counted.
type Order byte

const (
	// OrderC: the last axis varies fastest. It is what the zero Order means.
	OrderC Order = 'C'
	// OrderF: the first axis varies fastest, as in Fortran.
	OrderF Order = 'F'
	// OrderA: F for an array that lies in F order and not in C order, else C.
	OrderA Order = 'A'
	// OrderK: the order in which the elements lie, as near as can be.
	OrderK Order = 'K'
)

// check answers ErrShape for what is no order.
func (o Order) check() error {
	switch o {
	case 0, OrderC, OrderF, OrderA, OrderK:
		return nil
	}
	return fmt.Errorf("order %q: want one of 'C', 'F', 'A' and 'K': %w", byte(o), ErrShape)
}

// fortran resolves every order but K for an array.
func (o Order) fortran(a *NDBuffer) bool {
	return o == OrderF || o == OrderA && a.isF() && !a.IsContiguous()
}

func (a *NDBuffer) isF() bool { return layout.IsF(a.dtype.Size(), a.shape, a.strides) }
