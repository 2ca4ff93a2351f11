package arrowbuf

import (
	"sync"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

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
