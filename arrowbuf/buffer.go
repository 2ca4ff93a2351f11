package arrowbuf

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Errors that callers can act on. Devices wrap them with the operation; test with
// errors.Is.
var (
	// ErrOutOfMemory: a device lacks the free memory for an allocation.
	ErrOutOfMemory = errors.New("out of device memory")
	// ErrOutOfRange: an offset or a length lies outside a buffer.
	ErrOutOfRange = errors.New("out of range")
	// ErrReleased: a buffer was used after its last reference was released.
	ErrReleased = errors.New("buffer already released")
	// ErrDevice: a buffer is on a device that the operation cannot access.
	ErrDevice = errors.New("wrong device")
	// ErrDeviceMemory: the host read or wrote device memory in place, or would do so.
	ErrDeviceMemory = errors.New("host access to device memory")
)

// Buffer is a contiguous range of bytes on a device. It is reference-counted like
// arrow-go's objects: a new buffer has one reference, and the memory is freed when
// the last reference is released. A slice holds a reference to the memory that it
// shows.
//
// ReadAt and WriteAt copy between host and device, with the contracts of io.ReaderAt
// and io.WriterAt. The Copy methods return after the copy is complete. WriteAt,
// Slice and the Copy methods return an error wrapping ErrOutOfRange, and copy
// nothing, if the range lies outside the buffer. All methods that return an error
// return one wrapping ErrReleased after the last release.
//
// All methods may be called concurrently; the caller must order concurrent writes to
// the same bytes.
type Buffer interface {
	io.ReaderAt
	io.WriterAt

	// Device returns the device that the memory belongs to.
	Device() Device
	// Address returns the address of the first byte in the device's address space,
	// or 0 if the length is 0. The host may dereference only addresses of CPU
	// buffers.
	Address() uintptr
	// Len returns the length in bytes.
	Len() int64
	// Slice returns bytes [offset, offset+length) of the same memory without a copy.
	// The caller owns one reference to the result and must release it.
	Slice(offset, length int64) (Buffer, error)
	// CopyFromHost copies all of src to the bytes that start at pos, and returns the
	// number of bytes copied.
	CopyFromHost(src []byte, pos int64) (int64, error)
	// CopyToHost fills dst with the bytes that start at pos, and returns the number
	// of bytes copied. Unlike ReadAt, it does not copy part of dst: see
	// ErrOutOfRange.
	CopyToHost(dst []byte, pos int64) (int64, error)
	// CopyFromDevice copies all of src, a buffer of any device, to the bytes that
	// start at pos, and returns the number of bytes copied. It returns an error
	// wrapping ErrDevice if src is nil.
	CopyFromDevice(src Buffer, pos int64) (int64, error)
	// Equal reports whether other, a buffer of any device, has the same length and
	// bytes. It returns an error wrapping ErrDevice if other is nil.
	Equal(other Buffer) (bool, error)
	// Arrow returns the same memory as an arrow-go buffer, which holds a reference
	// to this Buffer. The caller owns one reference to the result and must release
	// it. Unless OnHost reports true, the host must not access the result's Bytes;
	// FromArrow returns the Buffer of it.
	Arrow() *memory.Buffer
	// Retain adds a reference. It panics after the last release.
	Retain()
	// Release releases one reference. It panics if there are more releases than
	// references.
	Release()
}

// HostBytes returns the bytes of a buffer in place, if the host can access them, and
// otherwise false. The bytes are valid until the last release: after it, the memory
// may be reused for another buffer.
func HostBytes(b Buffer) ([]byte, bool) {
	h, ok := b.(interface{ HostBytes() []byte })
	if !ok {
		return nil, false
	}
	return h.HostBytes(), true
}

// HostRange is host memory and the position in a buffer that it is copied to.
type HostRange struct {
	Bytes []byte
	Pos   int64
}

// ReadRange is a range of a buffer, and what reads its bytes.
type ReadRange struct {
	Pos, Length int64
	// Read fills dst with the bytes from an offset in the range on. Several goroutines call
	// it at the same time.
	Read func(dst []byte, offset int64) error
}

// rangeReader is a buffer whose ranges are read in parallel, while others cross the link.
type rangeReader interface {
	CopyRangesFromReaders(ranges []ReadRange, readers int) error
}

// rangeCopier is a buffer that copies several ranges of the host in one operation,
// which is faster than one CopyFromHost per range.
type rangeCopier interface {
	CopyRangesFromHost(ranges []HostRange) error
}

// SliceFrom returns the bytes of a buffer from offset to its end, without a copy. The
// caller owns one reference to the result. It returns an error wrapping ErrOutOfRange
// if offset lies outside the buffer.
func SliceFrom(b Buffer, offset int64) (Buffer, error) {
	if isNil(b) {
		return nil, fmt.Errorf("arrowbuf.SliceFrom: nil buffer: %w", ErrDevice)
	}
	if err := CheckRange(offset, 0, b.Len()); err != nil {
		return nil, fmt.Errorf("arrowbuf.SliceFrom: %w", err)
	}
	return b.Slice(offset, b.Len()-offset)
}

// CopyBufferToHost copies all bytes of a buffer on any device to memory of an
// allocator, such as the device's HostAllocator. The caller owns one reference to the
// result, and may resize it. It returns an error wrapping ErrOutOfMemory if the system
// lacks the memory. A panic of the allocator with an error becomes that error.
func CopyBufferToHost(b Buffer, mem memory.Allocator) (*memory.Buffer, error) {
	if isNil(b) || mem == nil {
		return nil, fmt.Errorf("arrowbuf.CopyBufferToHost: nil buffer or allocator: %w", ErrDevice)
	}
	if err := CheckHostMemory(b.Len()); err != nil {
		return nil, fmt.Errorf("arrowbuf.CopyBufferToHost: %w", err)
	}
	host := memory.NewResizableBuffer(mem)
	if err := panicAsError(func() { host.Resize(int(b.Len())) }); err != nil {
		return nil, fmt.Errorf("arrowbuf.CopyBufferToHost: %w", err)
	}
	if _, err := b.CopyToHost(host.Bytes(), 0); err != nil {
		host.Release()
		return nil, fmt.Errorf("arrowbuf.CopyBufferToHost: %w", err)
	}
	return host, nil
}

// isNil reports whether an interface is nil or holds a nil pointer, such as the
// dictionary of an array without one.
func isNil(v any) bool {
	if v == nil {
		return true
	}
	r := reflect.ValueOf(v)
	switch r.Kind() {
	case reflect.Pointer, reflect.Func, reflect.Map, reflect.Chan, reflect.Interface, reflect.Slice:
		return r.IsNil()
	}
	return false
}

// panicAsError calls f, and returns the error that it panics with. Other panics
// continue.
func panicAsError(f func()) (err error) {
	defer func() {
		if failure := recover(); failure != nil {
			cause, ok := failure.(error)
			if !ok {
				panic(failure)
			}
			err = cause
		}
	}()
	f()
	return nil
}

// CheckRange returns an error wrapping ErrOutOfRange unless bytes [offset,
// offset+length) lie within size bytes. Implementations of Buffer share it, so that
// they return the same errors.
func CheckRange(offset, length, size int64) error {
	if offset < 0 || length < 0 || offset > size || length > size-offset {
		return fmt.Errorf("bytes [%d, %d+%d) of a buffer of %d bytes: %w", offset, offset, length, size, ErrOutOfRange)
	}
	return nil
}

// wrappedBuffers maps the root memory.Buffer of each wrapped Buffer to the Buffer.
// arrow-go's buffer has no field for it, and its slices keep only a pointer to their
// parent. The root is therefore all that the views of one memory have in common.
var wrappedBuffers sync.Map // *memory.Buffer -> Buffer

// wrapAllocator is the allocator of one wrapped buffer. arrow-go calls Free when the
// last reference to the root is released. It never calls Allocate, because an
// immutable buffer is not resized.
type wrapAllocator struct {
	buf  Buffer
	root *memory.Buffer
}

func (a *wrapAllocator) Allocate(int) []byte { panic("arrowbuf: a device buffer cannot grow in place") }
func (a *wrapAllocator) Reallocate(int, []byte) []byte {
	panic("arrowbuf: a device buffer cannot be resized in place")
}
func (a *wrapAllocator) Free([]byte) {
	wrappedBuffers.Delete(a.root)
	a.buf.Release()
}

// WrapArrow returns a memory.Buffer over b's memory. The result holds a reference to
// b, which is released with the result's last reference. Implementations of
// Buffer.Arrow call it. It returns nil if b is nil.
func WrapArrow(b Buffer) *memory.Buffer {
	if isNil(b) {
		return nil
	}
	b.Retain()
	a := &wrapAllocator{buf: b}
	a.root = memory.NewBufferWithAllocator(sliceAt(b.Address(), b.Len()), a)
	wrappedBuffers.Store(a.root, b)
	return a.root
}

// FromArrow returns the Buffer that b refers to: all of the Buffer, or the range
// that a slice refers to. It returns false if b is nil or if arrow-go allocated the
// memory. The caller owns one reference to the result and must release it.
func FromArrow(b *memory.Buffer) (Buffer, bool) {
	whole, root, ok := lookupWrapped(b)
	if !ok {
		return nil, false
	}
	slice, err := sliceOf(whole, root, b)
	return slice, err == nil
}

// BufferOf returns the memory of an arrow-go buffer as a Buffer, without a copy. It
// is FromArrow, or WrapHost if arrow-go allocated the memory. The caller owns one
// reference to the result and must release it. A nil b is an error.
func BufferOf(b *memory.Buffer) (Buffer, error) {
	whole, root, ok := lookupWrapped(b)
	if !ok {
		return WrapHost(b)
	}
	return sliceOf(whole, root, b)
}

// OnHost reports whether the host can access the bytes of an arrow-go buffer: it is
// host memory, or managed memory of a GPU. It returns true if b is nil.
func OnHost(b *memory.Buffer) bool {
	whole, _, ok := lookupWrapped(b)
	if !ok {
		return true
	}
	if managed, ok := As[interface{ HostAccessible() bool }](whole); ok && managed.HostAccessible() {
		return true
	}
	_, ok = HostBytes(whole)
	return ok
}

// isHostMemory reports whether an arrow-go buffer is memory of the host. Managed memory
// is not, although the host can access it: a device copies it faster.
func isHostMemory(b *memory.Buffer) bool {
	whole, _, ok := lookupWrapped(b)
	if !ok {
		return true
	}
	_, ok = HostBytes(whole)
	return ok
}

// lookupWrapped returns the Buffer of the root of b's chain of parents, without
// taking a reference: b keeps it alive.
func lookupWrapped(b *memory.Buffer) (whole Buffer, root *memory.Buffer, ok bool) {
	if b == nil {
		return nil, nil, false
	}
	root = rootOf(b)
	if root.Mutable() { // wrapped buffers are immutable; this saves the lookup for most others
		return nil, nil, false
	}
	found, ok := wrappedBuffers.Load(root)
	if !ok {
		return nil, nil, false
	}
	return found.(Buffer), root, true
}

func rootOf(b *memory.Buffer) *memory.Buffer {
	for b.Parent() != nil {
		b = b.Parent()
	}
	return b
}

// sliceOf returns the range of whole that b shows. root is the memory.Buffer of
// whole.
func sliceOf(whole Buffer, root, b *memory.Buffer) (Buffer, error) {
	if b == root {
		whole.Retain()
		return whole, nil
	}
	// The offset of an empty slice is unknown: its address is that of the base.
	var offset int64
	if b.Len() > 0 {
		offset = int64(addressOf(b.Buf()) - addressOf(root.Buf()))
	}
	return whole.Slice(offset, int64(b.Len()))
}

// sliceAt returns a slice header over memory outside Go's heap, which nothing
// dereferences here. The double indirection tells vet what the garbage collector can
// see: the address does not point into Go's heap.
func sliceAt(address uintptr, n int64) []byte {
	if n == 0 {
		return nil
	}
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), n)
}

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
