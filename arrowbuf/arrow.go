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
// allocated itself. The caller owns one reference to the result.
func FromArrow(b *memory.Buffer) (Buffer, bool) {
	if b == nil {
		return nil, false
	}
	root := b
	for root.Parent() != nil {
		root = root.Parent()
	}
	found, ok := wrapped.Load(root)
	if !ok {
		return nil, false
	}
	whole := found.(Buffer)
	if b == root {
		whole.Retain()
		return whole, true
	}
	// An empty slice does not know its offset: Go moves it to the base.
	var offset int64
	if b.Len() > 0 {
		offset = int64(sliceAddress(b.Buf()) - sliceAddress(root.Buf()))
	}
	part, err := whole.Slice(offset, int64(b.Len()))
	return part, err == nil
}

// OnHost tells whether the host may read the bytes of an arrow buffer.
func OnHost(b *memory.Buffer) bool {
	buf, ok := FromArrow(b)
	if !ok {
		return true
	}
	defer buf.Release()
	_, ok = HostBytes(buf)
	return ok
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
