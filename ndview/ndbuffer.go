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
	// ErrShape means that shapes, strides or axes do not fit each other or the buffer.
	ErrShape = layout.ErrShape
	// ErrReadOnly means a write to a read-only array or buffer.
	ErrReadOnly = cudabuf.ErrReadOnly
	// ErrNulls means that a column with nulls cannot become an array.
	ErrNulls = errors.New("column has nulls")
	// ErrNil means that an array or another argument is nil.
	ErrNil = errors.New("nil argument")
	// ErrCopy means that a result needs a copy, which the caller has forbidden.
	ErrCopy = errors.New("copy needed")
	// ErrFlag means that no flag of an array has a name.
	ErrFlag = errors.New("unknown flag")
	// ErrScope means that an array does not belong to a scope.
	ErrScope = errors.New("array of another scope or of none")
)

// NDBuffer is an N-dimensional array: a buffer on a device, the type of its
// elements, a shape, byte strides and the byte offset of element [0, ..., 0].
// Views share the buffer.
//
// An NDBuffer is reference counted: the caller owns the one reference of an array
// that a function returns, and must release it. Methods of a released array that
// return an error return arrowbuf.ErrReleased. An NDBuffer may be used from any
// goroutine; concurrent writes to the same elements are ordered by nothing.
type NDBuffer struct {
	refs    atomic.Int64
	buf     arrowbuf.Buffer
	dtype   DType
	shape   []int64
	strides []int64
	offset  int64

	// Derived from the fields above, because every operation needs them.
	size       int64   // elements
	contiguous bool    // in C order, without gaps
	code       ew.Type // of the elements

	scope atomic.Pointer[Scope] // that owns the caller's reference, or nil

	base     *NDBuffer // the array that the first view was made of, nil if this is no view
	readOnly bool      // the array or its buffer
}

// FromBuffer returns an array over bytes of a buffer, without a copy, and retains
// the buffer. The offset and the strides are in bytes and need not be multiples of
// the element's size; nil strides mean C order. It returns arrowbuf.ErrOutOfRange
// if an element, or the offset of an empty array, is outside the buffer.
func FromBuffer(buf arrowbuf.Buffer, dtype DType, offset int64, shape, strides []int64) (_ *NDBuffer, err error) {
	defer nameError("FromBuffer", &err)
	if _, err := byteCount(dtype, shape); err != nil {
		return nil, err
	}
	if buf == nil {
		return nil, fmt.Errorf("array of %s %v: nil buffer: %w", dtype, shape, arrowbuf.ErrDevice)
	}
	if strides == nil {
		strides = cStrides(dtype, shape)
	}
	if len(strides) != len(shape) {
		return nil, fmt.Errorf("%d strides for %d axes: %w", len(strides), len(shape), ErrShape)
	}
	low, high, ok := layout.ByteBounds(dtype.Size(), offset, shape, strides)
	if !ok || low < 0 || high > buf.Len() {
		return nil, fmt.Errorf("array of %s %v with strides %v at offset %d does not fit a buffer of %d bytes: %w",
			dtype, shape, strides, offset, buf.Len(), arrowbuf.ErrOutOfRange)
	}
	buf.Retain()
	return over(buf, dtype, offset, slices.Clone(shape), slices.Clone(strides)), nil
}

// over returns an array that takes over the caller's reference to the buffer.
func over(buf arrowbuf.Buffer, dtype DType, offset int64, shape, strides []int64) *NDBuffer {
	a := &NDBuffer{buf: buf, dtype: dtype, shape: shape, strides: strides, offset: offset}
	a.size, a.contiguous = product(shape), layout.IsCContiguous(dtype.Size(), shape, strides)
	a.code, _ = dtype.Code()
	a.readOnly = !mayChange(buf)
	a.refs.Store(1)
	return a
}

// The methods that describe an array return zero values if it is nil.

// Device returns the device of the elements.
func (a *NDBuffer) Device() arrowbuf.Device {
	if a == nil || a.buf == nil {
		return nil
	}
	return a.buf.Device()
}

// Buffer returns the buffer of the array, without a reference: it is valid until
// the array is released.
func (a *NDBuffer) Buffer() arrowbuf.Buffer {
	if a == nil {
		return nil
	}
	return a.buf
}

// DType returns the type of the elements.
func (a *NDBuffer) DType() DType {
	if a == nil {
		return DType{}
	}
	return a.dtype
}

// NDim returns the number of axes.
func (a *NDBuffer) NDim() int {
	if a == nil {
		return 0
	}
	return len(a.shape)
}

// Shape returns the number of elements along each axis. The caller must not
// change it.
func (a *NDBuffer) Shape() []int64 {
	if a == nil {
		return nil
	}
	return a.shape
}

// Strides returns the distance in bytes between neighbours along each axis, which
// may be negative or zero. The caller must not change it.
func (a *NDBuffer) Strides() []int64 {
	if a == nil {
		return nil
	}
	return a.strides
}

// Offset returns the position of element [0, ..., 0] in the buffer, in bytes.
func (a *NDBuffer) Offset() int64 {
	if a == nil {
		return 0
	}
	return a.offset
}

// Size returns the number of elements.
func (a *NDBuffer) Size() int64 {
	if a == nil {
		return 0
	}
	return a.size
}

// NBytes returns the number of bytes of the elements, without gaps.
func (a *NDBuffer) NBytes() int64 {
	if a == nil {
		return 0
	}
	return a.size * a.dtype.Size()
}

// IsContiguous reports whether the elements lie in C order without gaps. Arrays of
// no element or one are contiguous.
func (a *NDBuffer) IsContiguous() bool {
	if a == nil {
		return false
	}
	return a.contiguous
}

// Retain adds a reference. It panics if the last one was released.
func (a *NDBuffer) Retain() {
	if err := a.TryRetain(); err != nil {
		panic(named("Retain", err))
	}
}

// Release releases one reference; the last one releases the buffer. It does nothing
// if a is nil, and panics if the array was released before. An array of a [Scope] need
// not be released. It may be, but not while another goroutine uses it or releases the
// scope.
func (a *NDBuffer) Release() {
	if a == nil {
		return
	}
	switch n := a.refs.Add(-1); {
	case n == 0:
		a.leaveScope()
		a.buf.Release()
	case n < 0:
		panic(named("Release", arrowbuf.ErrReleased))
	}
}

// TryRetain adds a reference, or returns an error wrapping arrowbuf.ErrReleased if the
// last one was released. Operations retain an array for their duration, so that another
// goroutine that releases it does not free memory in use.
func (a *NDBuffer) TryRetain() error {
	if a == nil {
		return named("TryRetain", ErrNil)
	}
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

// released returns the error of a released array.
func (a *NDBuffer) released() error {
	return named("TryRetain", fmt.Errorf("array of %s %v: %w", a.dtype, a.shape, arrowbuf.ErrReleased))
}

// retainAll retains arrays until release is called.
func retainAll(arrays ...*NDBuffer) (release func(), err error) {
	for i, a := range arrays {
		if err := a.TryRetain(); err != nil {
			releaseAll(arrays[:i])
			return nil, err
		}
	}
	return func() { releaseAll(arrays) }, nil
}

// retainToWrite retains an array that is written and the arrays that are read for
// it. It returns ErrReadOnly if the first may not be written.
func retainToWrite(a *NDBuffer, from ...*NDBuffer) (release func(), err error) {
	if err := a.checkWriteable(); err != nil {
		return nil, err
	}
	return retainAll(append([]*NDBuffer{a}, from...)...)
}

func releaseAll(arrays []*NDBuffer) {
	for _, a := range arrays {
		a.Release()
	}
}

// Flags are NumPy's flags of an array. They depend on the array alone, so a view
// has its own.
type Flags struct {
	CContiguous bool // in C order without gaps; true of empty arrays
	FContiguous bool // in Fortran order without gaps; true of empty arrays
	Aligned     bool // every element's address is a multiple of its type's alignment
	Writeable   bool // writes do not return ErrReadOnly
	OwnData     bool // the array is not a view: Base is nil
}

// Flags returns the flags of the array.
func (a *NDBuffer) Flags() Flags {
	if a == nil || a.buf == nil {
		return Flags{}
	}
	return Flags{
		CContiguous: a.IsContiguous(),
		FContiguous: a.isF(),
		Aligned:     a.isAligned(),
		Writeable:   a.checkWriteable() == nil,
		OwnData:     a.base == nil,
	}
}

// FNC reports F order and not C order, as in NumPy.
func (f Flags) FNC() bool { return f.FContiguous && !f.CContiguous }

// FORC reports F order or C order, as in NumPy.
func (f Flags) FORC() bool { return f.FContiguous || f.CContiguous }

// Behaved reports aligned and writeable, as in NumPy.
func (f Flags) Behaved() bool { return f.Aligned && f.Writeable }

// CArray reports behaved and in C order, as in NumPy.
func (f Flags) CArray() bool { return f.Behaved() && f.CContiguous }

// FArray reports behaved, in F order and not in C order, as NumPy documents it.
func (f Flags) FArray() bool { return f.Behaved() && f.FNC() }

// Num returns NumPy's number of the flags: the sum of 1 for C order, 2 for Fortran
// order, 4 for own data, 0x100 for aligned and 0x400 for writeable.
func (f Flags) Num() int {
	n := 0
	for bit, set := range map[int]bool{1: f.CContiguous, 2: f.FContiguous, 4: f.OwnData, 0x100: f.Aligned, 0x400: f.Writeable} {
		if set {
			n += bit
		}
	}
	return n
}

// Lookup returns the flag that NumPy and pygpu know by a name, such as "C_CONTIGUOUS",
// "F", "FORC" or "CARRAY". It returns ErrFlag for other names. WRITEBACKIFCOPY and
// UPDATEIFCOPY are always false.
func (f Flags) Lookup(name string) (bool, error) {
	switch name {
	case "C_CONTIGUOUS", "CONTIGUOUS", "C":
		return f.CContiguous, nil
	case "F_CONTIGUOUS", "FORTRAN", "F":
		return f.FContiguous, nil
	case "OWNDATA", "O":
		return f.OwnData, nil
	case "WRITEABLE", "W":
		return f.Writeable, nil
	case "ALIGNED", "A":
		return f.Aligned, nil
	case "WRITEBACKIFCOPY", "X", "UPDATEIFCOPY", "U":
		return false, nil
	case "BEHAVED", "B":
		return f.Behaved(), nil
	case "CARRAY", "CA":
		return f.CArray(), nil
	case "FARRAY", "FA":
		return f.FArray(), nil
	case "FNC":
		return f.FNC(), nil
	case "FORC":
		return f.FORC(), nil
	}
	return false, named("Flags.Lookup", fmt.Errorf("%q: %w", name, ErrFlag))
}

// String returns the flags one per line, as NumPy prints them.
func (f Flags) String() string {
	return fmt.Sprintf("C_CONTIGUOUS : %t\nF_CONTIGUOUS : %t\nOWNDATA : %t\nWRITEABLE : %t\nALIGNED : %t",
		f.CContiguous, f.FContiguous, f.OwnData, f.Writeable, f.Aligned)
}

// isAligned reports whether every element lies at a multiple of its type's alignment.
func (a *NDBuffer) isAligned() bool {
	bits := int64(a.buf.Address()) + a.offset
	for i, d := range a.shape {
		if d == 0 {
			return true
		}
		if d > 1 {
			bits |= a.strides[i]
		}
	}
	return bits%a.dtype.Alignment() == 0
}

// isSizeAligned reports whether the address of every element is a multiple of its
// size, as kernels need.
func (a *NDBuffer) isSizeAligned() bool {
	bits := int64(a.buf.Address()) + a.offset
	for _, s := range a.strides {
		bits |= s
	}
	return bits&(a.dtype.Size()-1) == 0
}

// addressBits returns the bitwise or of the first element's address and all strides,
// whose low zero bits are the alignment that all elements share.
func (a *NDBuffer) addressBits() uint64 {
	all := uint64(a.buf.Address()) + uint64(a.offset)
	for i, stride := range a.strides {
		if a.shape[i] > 1 {
			all |= uint64(stride)
		}
	}
	return all
}

// mayChange reports whether a buffer may be written.
func mayChange(buf arrowbuf.Buffer) bool {
	b, ok := arrowbuf.As[interface{ Mutable() bool }](buf)
	return !ok || b.Mutable()
}

// checkWriteable returns ErrReadOnly if the array may not be written.
func (a *NDBuffer) checkWriteable() error {
	if a == nil {
		return ErrNil
	}
	if a.readOnly {
		return fmt.Errorf("writing to an array of %s %v: %w", a.dtype, a.shape, ErrReadOnly)
	}
	return nil
}

// byteCount checks a dtype and a shape and returns the bytes of a contiguous
// array.
func byteCount(dtype DType, shape []int64) (int64, error) {
	if dtype.Size() < 1 {
		return 0, fmt.Errorf("dtype %s: %w", dtype, ErrDType)
	}
	return layout.CheckShape(dtype.Size(), shape)
}

func product(shape []int64) int64 { return layout.Product(shape) }

func cStrides(dtype DType, shape []int64) []int64 { return layout.CStrides(dtype.Size(), shape) }

// MayShareMemory reports whether a byte belongs to elements of both arrays. The
// result is exact, as NumPy's shares_memory: the even and the odd columns of a
// matrix share none. Addresses are compared, so two buffers over one allocation
// may share. Released arrays share nothing. It may return true for layouts whose
// exact solution would take seconds.
func MayShareMemory(a, b *NDBuffer) bool {
	release, err := retainAll(a, b)
	if err != nil {
		return false
	}
	defer release()
	inA, hostA := a.addresses()
	inB, hostB := b.addresses()
	// Pinned memory may have the same address on two devices.
	if (!hostA || !hostB) && a.Device() != b.Device() {
		return false
	}
	return layout.Overlap(inA, inB)
}

// sameElements reports whether each element of a lies at the address of the element of
// b with the same index.
func (a *NDBuffer) sameElements(b *NDBuffer) bool {
	return int64(a.buf.Address())+a.offset == int64(b.buf.Address())+b.offset &&
		slices.Equal(a.shape, b.shape) && slices.Equal(a.strides, b.strides)
}

// addresses returns the layout of the elements with their address as offset, and
// whether that is an address of the host.
func (a *NDBuffer) addresses() (run layout.Run, onHost bool) {
	run = a.run()
	if data, ok := arrowbuf.HostBytes(a.buf); ok {
		run.Offset += int64(uintptr(unsafe.Pointer(unsafe.SliceData(data))))
		return run, true
	}
	run.Offset += int64(a.buf.Address())
	return run, false
}

// Order is the order in which elements lie in memory, or are counted.
type Order byte

const (
	// OrderC means that the last axis varies fastest. The zero Order means it, too.
	OrderC Order = 'C'
	// OrderF means that the first axis varies fastest, as in Fortran.
	OrderF Order = 'F'
	// OrderA means F for an array in F order and not in C order, otherwise C.
	OrderA Order = 'A'
	// OrderK means the order in which the elements lie, as closely as possible.
	OrderK Order = 'K'
)

// check returns ErrShape if o is not an order.
func (o Order) check() error {
	switch o {
	case 0, OrderC, OrderF, OrderA, OrderK:
		return nil
	}
	return fmt.Errorf("order %q: want one of 'C', 'F', 'A' and 'K': %w", byte(o), ErrShape)
}

// fortran reports whether an order other than K means Fortran order for an array.
func (o Order) fortran(a *NDBuffer) bool {
	return o == OrderF || o == OrderA && a.isF() && !a.IsContiguous()
}

func (a *NDBuffer) isF() bool { return layout.IsFContiguous(a.dtype.Size(), a.shape, a.strides) }
