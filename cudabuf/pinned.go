package cudabuf

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"github.com/quiver-gpu/quiver/cudabuf/internal/pool"
)

// PinnedAllocator gives arrow-go page-locked host memory, from and to which a
// GPU copies at the speed of its link (cuMemHostAlloc with
// CU_MEMHOSTALLOC_PORTABLE: pinned for every GPU). It may be used from any
// goroutine.
//
// Memory is aligned to at least 64 bytes and holds anything: zeroing it would
// take longer than copying it to the GPU, and arrow-go writes what it reads.
// Small allocations share pages. Freed memory is kept and used again up to a
// limit, since pinning takes the system milliseconds.
//
// arrow-go's Allocator has no way to return an error. When memory cannot be
// pinned, Allocate and Reallocate panic with an error, one that is
// arrowbuf.ErrOutOfMemory when there is no more of it. Freeing memory that is
// not the allocator's, or twice, panics with arrowbuf.ErrReleased.
type PinnedAllocator struct {
	dev  *Device
	pool *pool.Caching[*cudaStream]

	mu     sync.Mutex
	blocks map[uintptr]*pool.Block[*cudaStream] // that Allocate gave out
}

var _ memory.Allocator = (*PinnedAllocator)(nil)

const (
	// defaultPinnedIdle is how much freed pinned memory is kept at first.
	defaultPinnedIdle = 512 << 20
	// pinnedGranule is the size from which memory is pinned for one caller. A
	// call that pins costs as much as pinning some hundred KiB.
	pinnedGranule = 256 << 10
)

func newPinned(d *Device) (*PinnedAllocator, error) {
	p := pool.NewCaching(d.upstream(d.allocPooledPinned, d.freePinned), pool.Config{Granule: pinnedGranule, Slack: -1})
	return &PinnedAllocator{dev: d, pool: p, blocks: map[uintptr]*pool.Block[*cudaStream]{}}, p.SetIdleLimit(defaultPinnedIdle)
}

// Allocate returns size bytes, which hold anything.
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
	if room := a.blockSize(b); int64(size) <= room {
		// cap(b) hides what the block has beyond the first size.
		whole := unsafe.Slice(unsafe.SliceData(b), room)
		return whole[:size:size]
	}
	moved := a.Allocate(size)
	copy(moved, b)
	a.Free(b)
	return moved
}

// blockSize is what the block of b has, 0 for other memory.
func (a *PinnedAllocator) blockSize(b []byte) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if block := a.blocks[addressOf(b)]; cap(b) > 0 && block != nil {
		return block.Size
	}
	return 0
}

// Free takes memory back.
func (a *PinnedAllocator) Free(b []byte) {
	if cap(b) == 0 {
		return
	}
	a.mu.Lock()
	block := a.blocks[addressOf(b)]
	delete(a.blocks, addressOf(b))
	a.mu.Unlock()
	if block == nil {
		panic(fmt.Errorf("%v: freeing memory that is not pinned here: %w", a.dev, arrowbuf.ErrReleased))
	}
	a.put(block, nil)
}

// Stats says what callers hold and what is kept for later.
func (a *PinnedAllocator) Stats() MemoryStats { return memoryStats(a.pool.Account().Stats()) }

// SetIdleLimit bounds the freed memory that is kept, in bytes; at first that is
// 512 MiB.
func (a *PinnedAllocator) SetIdleLimit(n int64) error { return a.pool.SetIdleLimit(n) }

// Trim gives the freed memory that is kept back to the system.
func (a *PinnedAllocator) Trim() error { return a.pool.Trim() }

// get lends n > 0 bytes of undefined contents until put.
func (a *PinnedAllocator) get(n int64) (*pool.Block[*cudaStream], error) {
	block, err := a.pool.Get(n, nil)
	if err != nil {
		return nil, fmt.Errorf("pinning %d bytes: %w", n, err)
	}
	return block, nil
}

// put takes a block back, which the queues in pending may still be using. The
// pool keeps what fails for its close.
func (a *PinnedAllocator) put(block *pool.Block[*cudaStream], pending []*cudaStream) {
	_ = a.pool.Put(block, pending)
}

// getBytes lends n > 0 bytes of undefined contents until free is called.
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
		address, err = d.api.MemHostAlloc(n, driver.HostAllocPortable)
		return err
	})
	if err == nil {
		d.driver.pinnedBlocks.add(address, n, nil)
	}
	return address, err
}

func (d *Device) freePinned(address uintptr) error {
	d.driver.pinnedBlocks.remove(address)
	return d.withContext(func() error { return d.api.MemFreeHost(address) })
}

// hostSlice makes a slice of memory that the driver allocated. Go's garbage
// collector never owned it, which the double indirection tells vet.
func hostSlice(address uintptr, n int64) []byte {
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), n)
}

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// hostRanges knows page-locked memory of the host by its address, which costs
// less than asking the driver. Ranges do not overlap.
type hostRanges struct {
	mu     sync.RWMutex
	ranges []hostRange // by start
}

// hostRange is bytes [start, end) of the host, and the allocation of the
// HostBuffer that they belong to, if they do.
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

// find returns the range that all of b lies in.
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

// search is the place of a start, and whether there is a range with it.
func (r *hostRanges) search(start uintptr) (int, bool) {
	return slices.BinarySearchFunc(r.ranges, start, func(a hostRange, start uintptr) int { return cmp.Compare(a.start, start) })
}
