package cudabuf

import (
	"fmt"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// PinnedAllocator gives arrow-go page-locked host memory, from and to which a
// GPU copies at the speed of its link (cuMemHostAlloc with
// CU_MEMHOSTALLOC_PORTABLE: pinned for every GPU). It may be used from any
// goroutine.
//
// Memory is aligned to at least 64 bytes and holds anything: zeroing it would
// take longer than copying it to the GPU, and arrow-go writes what it reads.
// Each allocation takes whole pages. Freed memory is kept and used again up to a
// limit, since pinning takes the system milliseconds.
//
// arrow-go's Allocator has no way to return an error. When memory cannot be
// pinned, Allocate and Reallocate panic with an error, one that is
// arrowbuf.ErrOutOfMemory when there is no more of it. Freeing memory that is
// not the allocator's, or twice, panics with arrowbuf.ErrReleased.
type PinnedAllocator struct {
	dev   *Device
	cache *cache
}

var _ memory.Allocator = (*PinnedAllocator)(nil)

// defaultPinnedIdle is how much freed pinned memory is kept at first.
const defaultPinnedIdle = 512 << 20

func newPinned(d *Device) *PinnedAllocator {
	return &PinnedAllocator{dev: d, cache: newCache(4096, defaultPinnedIdle, d.hostAlloc, d.hostFree)}
}

// Allocate returns size bytes, which hold anything.
func (a *PinnedAllocator) Allocate(size int) []byte {
	if size < 0 {
		panic(fmt.Errorf("%v: pinning %d bytes: %w", a.dev, size, arrowbuf.ErrOutOfRange))
	}
	if size == 0 {
		return []byte{}
	}
	b, _, err := a.take(int64(size))
	if err != nil {
		panic(err)
	}
	return b
}

// Reallocate returns memory of size bytes that begins with the contents of b,
// in the same place if it fits there. It takes b over.
func (a *PinnedAllocator) Reallocate(size int, b []byte) []byte {
	if size < 0 {
		panic(fmt.Errorf("%v: pinning %d bytes: %w", a.dev, size, arrowbuf.ErrOutOfRange))
	}
	if size == 0 {
		a.Free(b)
		return []byte{}
	}
	if room := a.cache.size(addressOf(b)); cap(b) > 0 && int64(size) <= room {
		// cap(b) hides what the size class has beyond the first size.
		whole := unsafe.Slice(unsafe.SliceData(b), room)
		return whole[:size:size]
	}
	moved := a.Allocate(size)
	copy(moved, b)
	a.Free(b)
	return moved
}

// Free takes memory back.
func (a *PinnedAllocator) Free(b []byte) {
	if cap(b) > 0 && !a.cache.put(addressOf(b)) {
		panic(fmt.Errorf("%v: freeing memory that is not pinned here: %w", a.dev, arrowbuf.ErrReleased))
	}
}

// Stats says what callers hold and what is kept for later.
func (a *PinnedAllocator) Stats() MemoryStats { return a.cache.read() }

// SetIdleLimit bounds the freed memory that is kept, in bytes; at first that is
// 512 MiB.
func (a *PinnedAllocator) SetIdleLimit(n int64) error { return a.cache.setLimit(n) }

// Trim gives the freed memory that is kept back to the system.
func (a *PinnedAllocator) Trim() error { return a.cache.trim() }

// take lends n > 0 bytes of undefined contents until free is called.
func (a *PinnedAllocator) take(n int64) (b []byte, free func(), err error) {
	address, err := a.cache.get(n)
	if err != nil {
		return nil, nil, fmt.Errorf("pinning %d bytes: %w", n, err)
	}
	return hostSlice(address, n), func() { a.cache.put(address) }, nil
}

func (a *PinnedAllocator) close() error { return a.cache.close() }

func (d *Device) hostAlloc(n int64) (address uintptr, err error) {
	err = d.do(func() (err error) {
		address, err = d.api.MemHostAlloc(n, driver.HostAllocPortable)
		return err
	})
	return address, err
}

func (d *Device) hostFree(address uintptr) error {
	return d.do(func() error { return d.api.MemFreeHost(address) })
}

// hostSlice makes a slice of memory that the driver allocated. Go's garbage
// collector never owned it, which the double indirection tells vet.
func hostSlice(address uintptr, n int64) []byte {
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), n)
}

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
