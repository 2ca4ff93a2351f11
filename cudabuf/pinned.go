package cudabuf

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sync/errgroup"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"github.com/quiver-gpu/quiver/cudabuf/internal/pool"
)

// PinnedAllocator is an arrow-go allocator of page-locked host memory, which every GPU
// copies at the speed of its link (cuMemHostAlloc with CU_MEMHOSTALLOC_PORTABLE). It
// may be used from any goroutine.
//
// Memory is aligned to at least 64 bytes. Its contents are undefined: zeroing would
// take longer than copying to the GPU, and arrow-go writes memory before it reads it.
// Small allocations share pages. Freed memory is kept for reuse up to a limit, since
// pinning takes milliseconds.
//
// The Allocator interface returns no errors. If memory cannot be pinned, Allocate and
// Reallocate panic with an error, which wraps arrowbuf.ErrOutOfMemory if memory is
// exhausted. Free panics with arrowbuf.ErrReleased if the memory is not allocated here.
type PinnedAllocator struct {
	dev  *Device
	pool *pool.Caching[*cudaStream]

	mu     sync.Mutex
	blocks map[uintptr]*pool.Block[*cudaStream] // allocated and not freed
}

var _ memory.Allocator = (*PinnedAllocator)(nil)

const (
	// defaultPinnedIdle is the initial idle limit in bytes.
	defaultPinnedIdle = 512 << 20
	// pinnedGranularity is the size in bytes from which an allocation has pages of its
	// own. A pinning call costs as much as pinning some hundred KiB.
	pinnedGranularity = 256 << 10
)

func newPinned(d *Device) (*PinnedAllocator, error) {
	p := pool.NewCaching(d.upstream(d.allocPooledPinned, d.freePinned), pool.Config{Granularity: pinnedGranularity, Slack: -1})
	return &PinnedAllocator{dev: d, pool: p, blocks: map[uintptr]*pool.Block[*cudaStream]{}}, p.SetIdleLimit(defaultPinnedIdle)
}

// Allocate returns size bytes with undefined contents.
func (a *PinnedAllocator) Allocate(size int) []byte {
	if size < 0 {
		panic(fmt.Errorf("%v: pinning %d bytes: %w", a.dev, size, arrowbuf.ErrOutOfRange))
	}
	if size == 0 {
		return []byte{}
	}
	block, err := a.get(int64(size))
	if err != nil {
		panic(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.blocks[block.Address] = block
	return hostSlice(block.Address, int64(size))
}

// Reallocate returns memory of size bytes that begins with the contents of b. It stays
// in place if it fits. b must not be used afterwards.
func (a *PinnedAllocator) Reallocate(size int, b []byte) []byte {
	if size < 0 {
		panic(fmt.Errorf("%v: pinning %d bytes: %w", a.dev, size, arrowbuf.ErrOutOfRange))
	}
	if size == 0 {
		a.Free(b)
		return []byte{}
	}
	if capacity := a.blockSize(b); int64(size) <= capacity {
		// The block may be larger than cap(b).
		whole := unsafe.Slice(unsafe.SliceData(b), capacity)
		return whole[:size:size]
	}
	moved := a.Allocate(size)
	copy(moved, b)
	a.Free(b)
	return moved
}

// blockSize returns the size of b's block in bytes, or 0 for other memory.
func (a *PinnedAllocator) blockSize(b []byte) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if block := a.blocks[addressOf(b)]; cap(b) > 0 && block != nil {
		return block.Size
	}
	return 0
}

// Free frees memory of Allocate or Reallocate.
func (a *PinnedAllocator) Free(b []byte) {
	if cap(b) == 0 {
		return
	}
	a.mu.Lock()
	block := a.blocks[addressOf(b)]
	delete(a.blocks, addressOf(b))
	a.mu.Unlock()
	if block == nil {
		panic(fmt.Errorf("%v: freeing memory that this allocator does not own: %w", a.dev, arrowbuf.ErrReleased))
	}
	a.put(block, nil)
}

// Stats returns the bytes in use and those kept for reuse.
func (a *PinnedAllocator) Stats() MemoryStats {
	return memoryStats(PoolStats(a.pool.Account().Stats()))
}

// SetIdleLimit sets how many bytes of freed pinned memory are kept. The default is 512
// MiB.
func (a *PinnedAllocator) SetIdleLimit(n int64) error { return a.pool.SetIdleLimit(n) }

// Trim frees the idle memory.
func (a *PinnedAllocator) Trim() error { return a.pool.Trim() }

// get returns a block of n > 0 bytes with undefined contents. The caller must put it.
func (a *PinnedAllocator) get(n int64) (*pool.Block[*cudaStream], error) {
	block, err := a.pool.Get(n, nil)
	if err != nil {
		return nil, fmt.Errorf("pinning %d bytes: %w", n, err)
	}
	return block, nil
}

// put returns a block to the pool. The pending streams may still use it. The pool
// reports errors when it is closed.
func (a *PinnedAllocator) put(block *pool.Block[*cudaStream], pending []*cudaStream) {
	_ = a.pool.Put(block, pending)
}

// getBytes returns n > 0 bytes with undefined contents. The caller must call free.
func (a *PinnedAllocator) getBytes(n int64) (b []byte, free func(), err error) {
	block, err := a.get(n)
	if err != nil {
		return nil, nil, err
	}
	return hostSlice(block.Address, n), func() { a.put(block, nil) }, nil
}

func (a *PinnedAllocator) close() error { return a.pool.Close() }

func (d *Device) allocPooledPinned(n int64) (address uintptr, err error) {
	err = d.withContext(func() (err error) {
		address, err = d.pinHost(n, driver.HostAllocPortable)
		return err
	})
	if err == nil {
		d.driver.pinnedBlocks.add(address, n, nil)
	}
	return address, err
}

func (d *Device) freePinned(address uintptr) error {
	d.driver.pinnedBlocks.remove(address)
	return d.withContext(func() error { return d.unpinHost(address) })
}

// registeredMin is the size in bytes from which pinned memory is registered memory of the
// process. cuMemHostAlloc takes several times as long, and other calls wait meanwhile; see
// BenchmarkPin.
const registeredMin = 4 << 20

// pinHost allocates pinned memory, which unpinHost frees, in the current context.
func (d *Device) pinHost(n int64, flags uint32) (uintptr, error) {
	if n < registeredMin || flags != driver.HostAllocPortable {
		return d.api.MemHostAlloc(n, flags)
	}
	pages, err := newHostPages(n)
	if err != nil {
		return 0, fmt.Errorf("mapping %d bytes: %w: %w", n, arrowbuf.ErrOutOfMemory, err)
	}
	if pages.bytes == nil {
		return d.api.MemHostAlloc(n, flags)
	}
	if err := d.api.MemHostRegister(pages.bytes, driver.HostRegisterPortable|driver.HostRegisterDeviceMap); err != nil {
		var failed *driver.Error
		unmapErr := pages.unmap()
		if unmapErr != nil || !errors.As(err, &failed) || failed.Code != driver.NotSupported {
			return 0, errors.Join(err, unmapErr)
		}
		return d.api.MemHostAlloc(n, flags) // where the system cannot register memory
	}
	address := addressOf(pages.bytes)
	d.driver.registered.Store(address, pages)
	return address, nil
}

func (d *Device) unpinHost(address uintptr) error {
	pages, ok := d.driver.registered.LoadAndDelete(address)
	if !ok {
		return d.api.MemFreeHost(address)
	}
	if err := d.api.MemHostUnregister(address); err != nil {
		return err
	}
	return pages.(hostPages).unmap()
}

// hugePage is the size of the pages that hostPages asks for.
const hugePage = 2 << 20

// touch maps pages now, in several goroutines.
func touch(b []byte) {
	var group errgroup.Group
	group.SetLimit(max(runtime.GOMAXPROCS(0)/2, 1))
	for part := range slices.Chunk(b, hugePage) {
		group.Go(func() error {
			for i := 0; i < len(part); i += 4096 {
				part[i] = 0
			}
			return nil
		})
	}
	_ = group.Wait() // there is no error
}

// hostSlice returns a slice of memory that the driver allocated. The double
// indirection is valid because Go's garbage collector never owned the memory.
func hostSlice(address uintptr, n int64) []byte {
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), n)
}

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// hostRanges finds page-locked host memory by address, which is cheaper than asking
// the driver. Ranges do not overlap.
type hostRanges struct {
	mu     sync.RWMutex
	ranges []hostRange // by start
}

// hostRange is bytes [start, end) of the host. memory is the allocation of their
// HostBuffer, or nil.
type hostRange struct {
	start, end uintptr
	memory     *allocation
}

func (r *hostRanges) add(address uintptr, n int64, memory *allocation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, _ := r.search(address)
	r.ranges = slices.Insert(r.ranges, i, hostRange{address, address + uintptr(n), memory})
}

func (r *hostRanges) remove(address uintptr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i, ok := r.search(address); ok {
		r.ranges = slices.Delete(r.ranges, i, i+1)
	}
}

// find returns the range that contains all of b.
func (r *hostRanges) find(b []byte) (found hostRange, ok bool) {
	start := addressOf(b)
	r.mu.RLock()
	defer r.mu.RUnlock()
	i, exact := r.search(start)
	if !exact {
		i--
	}
	if i < 0 || start+uintptr(len(b)) > r.ranges[i].end {
		return hostRange{}, false
	}
	return r.ranges[i], true
}

// search returns the index of a start address and whether a range starts there.
func (r *hostRanges) search(start uintptr) (int, bool) {
	return slices.BinarySearchFunc(r.ranges, start, func(a hostRange, start uintptr) int { return cmp.Compare(a.start, start) })
}
