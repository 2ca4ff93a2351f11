package arrowbuf

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Errors that a caller can act on. Devices wrap them with what they were asked
// to do; test with errors.Is.
var (
	// ErrOutOfMemory: the device has no room for an allocation.
	ErrOutOfMemory = errors.New("out of device memory")
	// ErrOutOfRange: an offset or a length lies outside a buffer.
	ErrOutOfRange = errors.New("out of range")
	// ErrReleased: a buffer was used after its last reference was released.
	ErrReleased = errors.New("buffer already released")
	// ErrDevice: a buffer lives on a device that the operation cannot reach.
	ErrDevice = errors.New("wrong device")
)

// Buffer is a contiguous run of bytes on a device. It is reference counted as
// Arrow counts: it starts with one reference, and its memory goes back when
// the last is released. A slice holds a reference to the buffer that it was
// cut from.
//
// ReadAt and WriteAt copy between host and device with the contracts of
// io.ReaderAt and io.WriterAt. A Buffer may be used and released from any
// goroutine; concurrent writes to the same bytes are the caller's to order.
type Buffer interface {
	io.ReaderAt
	io.WriterAt

	// Device is where the bytes live.
	Device() Device
	// Address is the address of the first byte, as the device knows it; 0 for
	// a buffer of length 0. Only a CPU buffer's address may be read through.
	Address() uintptr
	// Len is the length in bytes.
	Len() int64
	// Slice returns bytes [offset, offset+length) of the same memory without
	// a copy. The caller owns one reference to the result.
	Slice(offset, length int64) (Buffer, error)
	// CopyFromHost copies all of src to the bytes that start at pos, and
	// returns the number copied.
	CopyFromHost(src []byte, pos int64) (int64, error)
	// CopyToHost fills dst from the bytes that start at pos, and returns the
	// number copied. A dst that reaches beyond the end is ErrOutOfRange.
	CopyToHost(dst []byte, pos int64) (int64, error)
	// CopyFromDevice copies all of src, which may live on any device, to the
	// bytes that start at pos, and returns the number copied. A nil src is
	// ErrDevice.
	CopyFromDevice(src Buffer, pos int64) (int64, error)
	// Equal tells whether the other buffer, on any device, holds the same
	// bytes. A nil one is ErrDevice.
	Equal(other Buffer) (bool, error)
	// Arrow returns the same memory as arrow-go sees it. The caller owns one
	// reference to the result, which holds one to this buffer. Unless the
	// device is the CPU, nothing may read or write its Bytes; FromArrow finds
	// the way back.
	Arrow() *memory.Buffer
	// Retain adds a reference.
	Retain()
	// Release gives one reference back. Releasing more often than retaining
	// panics.
	Release()
}

// HostBytes returns the bytes of a buffer that the host may touch in place,
// without a copy, until its last release: then they may become another buffer's.
// It answers false for memory that only a device reaches.
func HostBytes(b Buffer) ([]byte, bool) {
	h, ok := b.(interface{ HostBytes() []byte })
	if !ok {
		return nil, false
	}
	return h.HostBytes(), true
}

// HostRange is memory of the host, and where in a buffer its bytes belong.
type HostRange struct {
	Bytes []byte
	Pos   int64
}

// rangeCopier is a buffer that copies many ranges of the host faster together than
// one by one.
type rangeCopier interface {
	CopyRangesFromHost(ranges []HostRange) error
}

// CheckRange returns an error that is ErrOutOfRange unless bytes
// [offset, offset+length) lie within size bytes. Devices use it to answer
// alike.
func CheckRange(offset, length, size int64) error {
	if offset < 0 || length < 0 || offset > size || length > size-offset {
		return fmt.Errorf("bytes [%d, %d+%d) of a buffer of %d bytes: %w", offset, offset, length, size, ErrOutOfRange)
	}
	return nil
}

// wrapped finds the Buffer behind a root memory.Buffer. arrow-go's buffer is a
// struct with no room for one, and its slices keep only a pointer to their
// parent, so the root is the one thing that every view of the memory shares.
var wrapped sync.Map // *memory.Buffer -> Buffer

// backing is the allocator of one wrapped buffer: arrow-go calls Free when the
// last reference to the root goes, and never Allocate, because an immutable
// buffer is not resized.
type backing struct {
	buf  Buffer
	root *memory.Buffer
}

func (a *backing) Allocate(int) []byte { panic("arrowbuf: a device buffer cannot grow in place") }
func (a *backing) Reallocate(int, []byte) []byte {
	panic("arrowbuf: a device buffer cannot be resized in place")
}
func (a *backing) Free([]byte) {
	wrapped.Delete(a.root)
	a.buf.Release()
}

// WrapArrow returns a memory.Buffer over b's memory and takes one reference to
// b, which goes back when the result is released. Devices implement
// Buffer.Arrow with it.
func WrapArrow(b Buffer) *memory.Buffer {
	b.Retain()
	a := &backing{buf: b}
	a.root = memory.NewBufferWithAllocator(addressSlice(b.Address(), b.Len()), a)
	wrapped.Store(a.root, b)
	return a.root
}

// FromArrow finds the Buffer whose memory an arrow buffer shows: the whole of
// it, or the part that a slice shows. It answers false for memory that arrow-go
// allocated itself, and for nil. The caller owns one reference to the result.
func FromArrow(b *memory.Buffer) (Buffer, bool) {
	whole, root, ok := lookup(b)
	if !ok {
		return nil, false
	}
	part, err := partOf(whole, root, b)
	return part, err == nil
}

// BufferOf looks at the memory of an arrow buffer as a Buffer, without a copy:
// as FromArrow where that finds one, else as a CPU buffer over host memory, as
// WrapHost. Code that takes both alike starts here. The caller owns one
// reference to the result. An absent buffer, nil, is an error.
func BufferOf(b *memory.Buffer) (Buffer, error) {
	whole, root, ok := lookup(b)
	if !ok {
		return WrapHost(b)
	}
	return partOf(whole, root, b)
}

// OnHost tells whether the host may read the bytes of an arrow buffer. An
// absent buffer, nil, has none that it may not.
func OnHost(b *memory.Buffer) bool {
	whole, _, ok := lookup(b)
	if !ok {
		return true
	}
	_, ok = HostBytes(whole)
	return ok
}

// lookup finds the Buffer behind the root of an arrow buffer's chain of
// parents, without taking a reference: b keeps it alive.
func lookup(b *memory.Buffer) (whole Buffer, root *memory.Buffer, ok bool) {
	if b == nil {
		return nil, nil, false
	}
	root = rootOf(b)
	if root.Mutable() { // as what arrow-go allocates is, and what is wrapped never
		return nil, nil, false
	}
	found, ok := wrapped.Load(root)
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

func partOf(whole Buffer, root, b *memory.Buffer) (Buffer, error) {
	if b == root {
		whole.Retain()
		return whole, nil
	}
	// An empty slice does not know its offset: Go moves it to the base.
	var offset int64
	if b.Len() > 0 {
		offset = int64(sliceAddress(b.Buf()) - sliceAddress(root.Buf()))
	}
	return whole.Slice(offset, int64(b.Len()))
}

// addressSlice makes a slice header over foreign memory. Nothing dereferences
// it here. The double indirection says to vet what the garbage collector knows
// already: the address is not one of Go's heap.
func addressSlice(address uintptr, n int64) []byte {
	if n == 0 {
		return nil
	}
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), n)
}

func sliceAddress(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
