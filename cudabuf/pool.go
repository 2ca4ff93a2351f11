package cudabuf

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"github.com/quiver-gpu/quiver/cudabuf/internal/pool"
)

// Pool allocates buffers of a device. It may be used from any goroutine. A device has a
// built-in caching pool and uses the pool of SetPool instead, if any.
//
// Released memory is reused without a wait of the host. The same stream can reuse it at
// once. Another stream can reuse it after the first is done, or waits on the device.
type Pool struct {
	dev     *Device
	backend poolBackend
	blocks  pool.Pool[*cudaStream] // the backend, wrapped according to the options
	tracker *pool.Tracker[*cudaStream]
	closed  atomic.Bool
	// ofResource is set if the memory is that of PoolOptions.Resource.
	ofResource bool
	// allocated maps an address of Allocate to its block.
	allocated sync.Map

	mu      sync.Mutex
	failure error // the first of freeing, since Release returns no error
}

// PoolOptions are the options of NewPool. The zero value makes a caching pool.
type PoolOptions struct {
	Kind PoolKind
	// Resource, if not nil, is where the pool allocates each buffer, in place of Kind.
	// The pool keeps nothing of it for reuse.
	Resource MemoryResource
	// Slack bounds the idle memory of a caching pool, as a share of the peak in use.
	// Before the pool allocates from the driver, it frees idle memory beyond that. 0
	// means 1/12, and a negative value no bound. More slack is faster if large sizes
	// alternate.
	Slack float64
	// Limit is the limit of SetLimit in bytes.
	Limit int64
	// Stacks records where each buffer was allocated, for Leaks. It costs a microsecond
	// per buffer.
	Stacks bool
	// Log receives a line of CSV for each allocation, failed allocation and release:
	// Time, Action (allocate, allocate failure, free), Address, Size and Stream (its
	// handle, or - for none). One goroutine writes to it at a time.
	Log io.Writer
	// OutOfMemory is called if there is no memory for a buffer of want bytes. It may
	// release buffers. The pool tries again if it returns true. Several goroutines may
	// call it at the same time.
	OutOfMemory func(want int64) (retry bool)
}

// PoolKind is how a Pool allocates memory.
type PoolKind int

const (
	// CachingPool keeps memory of the driver (cuMemAlloc) for reuse, and divides shared
	// allocations into small buffers. It makes the fewest driver calls.
	CachingPool PoolKind = iota
	// StreamOrderedPool uses a memory pool of the driver (cuMemAllocFromPoolAsync,
	// cuMemFreeAsync).
	StreamOrderedPool
	// DirectPool allocates each buffer from the driver (cuMemAlloc). On release it
	// waits for the streams that use the buffer and frees it (cuMemFree). It lets
	// compute-sanitizer check the bounds of each buffer.
	DirectPool
)

// String returns the name in lower case.
func (k PoolKind) String() string {
	switch k {
	case CachingPool:
		return "caching"
	case StreamOrderedPool:
		return "stream-ordered"
	case DirectPool:
		return "direct"
	}
	return fmt.Sprintf("PoolKind(%d)", int(k))
}

// NewPool creates a pool. The caller may close it; otherwise Driver.Close does. The error
// is a *Error if the driver lacks the calls of a StreamOrderedPool.
func (d *Device) NewPool(o PoolOptions) (*Pool, error) {
	p := &Pool{dev: d, ofResource: o.Resource != nil}
	var err error
	if p.backend, err = d.newPoolBackend(o); err != nil {
		return nil, fmt.Errorf("cudabuf.NewPool: %w", err)
	}
	p.SetLimit(o.Limit)
	p.blocks = p.backend.blocks
	if o.OutOfMemory != nil {
		p.blocks = pool.WithRetry(p.blocks, o.OutOfMemory)
	}
	if o.Log != nil {
		p.blocks = pool.WithLog(p.blocks, o.Log, time.Now, streamName)
	}
	if o.Stacks {
		p.tracker = pool.Track(p.blocks)
		p.blocks = p.tracker
	}
	d.pools.add(p)
	return p, nil
}

func streamName(cs *cudaStream) string {
	if cs == nil {
		return "-"
	}
	return fmt.Sprintf("%#x", uintptr(cs.handle))
}

// Device returns the device whose memory the pool allocates.
func (p *Pool) Device() *Device { return p.dev }

// Alloc returns a buffer of n bytes with undefined contents, which all streams may use at
// once. If there is no memory left, the error is arrowbuf.ErrOutOfMemory and says how
// much is in use.
func (p *Pool) Alloc(n int64) (*Buffer, error) { return p.alloc(n, nil) }

// AllocOn is Alloc for a buffer that stream s uses first. It may return memory that
// earlier work of s still uses. The first use on another stream waits for all earlier
// work of s.
func (p *Pool) AllocOn(n int64, s *Stream) (*Buffer, error) {
	if err := s.checkDevice(p.dev); err != nil {
		return nil, err
	}
	if s.closed.Load() {
		return nil, fmt.Errorf("%v: stream: %w", p.dev, ErrClosed)
	}
	if s.capture != nil {
		return nil, fmt.Errorf("%v: allocating %d bytes while capturing a graph: %w", p.dev, n, errors.ErrUnsupported)
	}
	return p.alloc(n, s.cudaStream)
}

func (p *Pool) alloc(n int64, cs *cudaStream) (*Buffer, error) {
	if p.closed.Load() {
		return nil, fmt.Errorf("%v: pool: %w", p.dev, ErrClosed)
	}
	if err := p.dev.checkUsable(); err != nil {
		return nil, err
	}
	if n < 0 {
		return nil, fmt.Errorf("%v: allocating %d bytes: %w", p.dev, n, arrowbuf.ErrOutOfRange)
	}
	if n == 0 {
		return newBuffer(p.dev, nil, 0, 0), nil
	}
	block, err := p.blocks.Get(n, cs)
	if err != nil {
		return nil, fmt.Errorf("%v: allocating %d bytes: %w", p.dev, n, err)
	}
	b := &pooledBuffer{pool: p, block: block}
	b.allocation.init(b)
	b.allocation.accesses.writer = cs
	b.buffer.init(p.dev, &b.allocation, block.Address, n)
	return &b.buffer, nil
}

// pooledBuffer is a buffer of a pool with its allocation, in one piece of Go memory.
// That halves the cost of allocating many small buffers.
type pooledBuffer struct {
	buffer     Buffer
	allocation allocation
	pool       *Pool
	block      *pool.Block[*cudaStream]
}

func (b *pooledBuffer) free(_ *allocation, pending []*cudaStream) {
	b.pool.recordFailure(b.pool.blocks.Put(b.block, pending))
}

// recordFailure keeps the first error for Close.
func (p *Pool) recordFailure(err error) {
	if err == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure == nil {
		p.failure = err
	}
}

// Trim frees idle memory that no stream uses, as far as whole allocations of the driver
// are idle.
func (p *Pool) Trim() error { return p.blocks.Trim() }

// Close waits for the streams that use the pool's memory and frees it. It returns the
// first error of freeing in the pool's life. While a buffer is in use, it does nothing and
// returns an error that says how much. A device that uses the pool reverts to its
// built-in pool. Close has no effect on a built-in pool or when called again.
func (p *Pool) Close() error {
	if p == p.dev.pools.builtin {
		return nil
	}
	return p.close()
}

func (p *Pool) close() error {
	if p.closed.Load() {
		return nil
	}
	if err := p.checkUnused(); err != nil {
		return err
	}
	p.closed.Store(true)
	p.dev.pools.remove(p)
	p.recordFailure(p.blocks.Close())
	p.recordFailure(p.backend.close())
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failure
}

// checkUnused returns an error if a buffer is in use.
func (p *Pool) checkUnused() error {
	n := p.backend.account.Stats().InUse
	if n == 0 {
		return nil
	}
	return p.withLeaks(fmt.Errorf("%v: still in use: %d bytes of device memory", p.dev, n))
}

// withLeaks adds the buffers in use to an error, if the pool records them.
func (p *Pool) withLeaks(err error) error {
	for _, leak := range p.Leaks() {
		err = fmt.Errorf("%w\n%v", err, leak)
	}
	return err
}

// poolSet holds the open pools of a device.
type poolSet struct {
	builtin *Pool // created with the device
	current atomic.Pointer[Pool]

	mu  sync.Mutex
	all []*Pool
}

// init creates the device's built-in pool.
func (x *poolSet) init(d *Device) (err error) {
	if x.builtin, err = d.NewPool(PoolOptions{Stacks: d.driver.recordStacks}); err == nil {
		x.current.Store(x.builtin)
	}
	return err
}

func (x *poolSet) add(p *Pool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.all = append(x.all, p)
}

func (x *poolSet) remove(p *Pool) {
	x.current.CompareAndSwap(p, x.builtin)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.all = slices.DeleteFunc(x.all, func(other *Pool) bool { return other == p })
}

func (x *poolSet) list() []*Pool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.all)
}

func (x *poolSet) close() error {
	var failure error
	for _, p := range x.list() {
		failure = errors.Join(failure, p.close())
	}
	return failure
}

// withLeaks adds the buffers in use to an error, if their pools record them.
func (x *poolSet) withLeaks(err error) error {
	for _, p := range x.list() {
		err = p.withLeaks(err)
	}
	return err
}

// Pool returns the pool that NewBuffer and Alloc use.
func (d *Device) Pool() *Pool { return d.pools.current.Load() }

// SetPool sets the pool that NewBuffer and Alloc use, which must be a pool of this
// device. nil selects the built-in pool. Existing buffers are not affected.
func (d *Device) SetPool(p *Pool) error {
	switch {
	case p == nil:
		p = d.pools.builtin
	case p.dev != d:
		return fmt.Errorf("cudabuf.SetPool: pool on the wrong device: got %v, want %v: %w", p.dev, d, arrowbuf.ErrDevice)
	case p.closed.Load():
		return fmt.Errorf("%v: pool: %w", d, ErrClosed)
	}
	d.pools.current.Store(p)
	return nil
}

// PoolStats are the statistics of a pool. Sizes are in bytes, rounded up to a multiple
// of 512.
type PoolStats struct {
	InUse      int64 // of buffers in use
	Held       int64 // taken from the driver: in use, idle, or pending on a stream
	Peak       int64 // maximum of InUse
	PeakHeld   int64 // maximum of Held
	Total      int64 // sum over all allocations
	Count      int64 // buffers in use
	PeakCount  int64 // maximum of Count
	TotalCount int64 // number of allocations
}

// Leak is a buffer that was not released.
type Leak struct {
	Address uintptr
	Size    int64  // bytes that were asked for
	Stack   string // of the allocation, in the format of a panic
}

// String returns the size, the address and the stack.
func (l Leak) String() string { return pool.Leak(l).String() }

// Stats returns the statistics of the pool. The values are read one after the other and
// may be inconsistent while other goroutines allocate.
func (p *Pool) Stats() PoolStats {
	s := PoolStats(p.backend.account.Stats())
	if p.backend.reserved != nil && !p.closed.Load() {
		if now, peak, err := p.backend.reserved(); err == nil {
			s.Held, s.PeakHeld = now, peak
		}
	}
	return s
}

// ResetPeak sets the peaks to the current values, in the innermost scope if one is open.
func (p *Pool) ResetPeak() { p.backend.account.ResetPeak() }

// PushScope opens a scope of statistics. Scopes nest.
func (p *Pool) PushScope() { p.backend.account.Push() }

// PopScope closes the innermost scope and returns the statistics since it was opened.
// InUse and Count are negative if more was released than allocated. It returns false if
// no scope is open. Held is 0 for a StreamOrderedPool.
func (p *Pool) PopScope() (PoolStats, bool) {
	s, ok := p.backend.account.Pop()
	return PoolStats(s), ok
}

// SetLimit bounds the memory that the pool takes from the driver, in bytes. 0 means no
// bound. Beyond the limit, allocating returns arrowbuf.ErrOutOfMemory. Memory that the
// pool already holds may exceed the limit.
func (p *Pool) SetLimit(bytes int64) {
	if bytes <= 0 {
		bytes = math.MaxInt64
	}
	p.backend.account.SetLimit(bytes)
}

// SetLimitPercent is SetLimit with a percentage of the GPU's memory, above 0 and up to 100.
func (p *Pool) SetLimitPercent(percent float64) error {
	if !(percent > 0 && percent <= 100) {
		return fmt.Errorf("cudabuf.SetLimitPercent: %v: got %v percent, want more than 0 and at most 100: %w", p.dev, percent, arrowbuf.ErrOutOfRange)
	}
	_, total, err := p.dev.MemInfo()
	if err == nil {
		p.SetLimit(max(int64(float64(total)*percent/100), 1))
	}
	return err
}

// Limit returns the limit of SetLimit in bytes, or 0 if there is no limit.
func (p *Pool) Limit() int64 {
	if n := p.backend.account.Limit(); n != math.MaxInt64 {
		return n
	}
	return 0
}

// SetIdleLimit bounds the released memory that is kept for reuse, in bytes. The default
// is a quarter of the GPU's memory. The pool frees only whole allocations of the driver.
// A DirectPool keeps no idle memory.
func (p *Pool) SetIdleLimit(n int64) error { return p.backend.setIdleLimit(n) }

// Leaks returns the buffers in use, sorted by address, if the pool has the option Stacks.
func (p *Pool) Leaks() []Leak {
	if p.tracker == nil {
		return nil
	}
	var leaks []Leak
	for _, l := range p.tracker.Leaks() {
		leaks = append(leaks, Leak(l))
	}
	return leaks
}

// poolBackend is the part of a Pool that differs between the kinds.
type poolBackend struct {
	blocks  pool.Pool[*cudaStream]
	account *pool.Account
	// setIdleLimit bounds the idle memory in bytes.
	setIdleLimit func(n int64) error
	// largestIdle returns the size of the largest idle block in bytes. It may be nil.
	largestIdle func() int64
	// reserved returns the bytes that the driver's pool holds, now and at the peak.
	// It is nil if account counts them.
	reserved func() (now, peak int64, err error)
	// close is called after blocks.Close.
	close func() error
}

func (d *Device) newPoolBackend(o PoolOptions) (poolBackend, error) {
	nothing := func() error { return nil }
	if o.Resource != nil {
		return d.newResourceBackend(o.Resource)
	}
	switch o.Kind {
	case CachingPool:
		c := pool.NewCaching(d.upstream(d.memAlloc, d.memFree), pool.Config{Slack: o.Slack})
		return poolBackend{blocks: c, account: c.Account(), setIdleLimit: c.SetIdleLimit, largestIdle: c.Largest, close: nothing}, c.SetIdleLimit(d.idleLimit)
	case DirectPool:
		p := pool.NewDirect(d.upstream(d.memAlloc, d.memFree))
		return poolBackend{blocks: p, account: p.Account(), setIdleLimit: func(int64) error { return nil }, close: nothing}, nil
	case StreamOrderedPool:
		if err := d.errManaged("a stream-ordered pool"); err != nil {
			return poolBackend{}, err
		}
		return d.newStreamOrderedBackend()
	}
	return poolBackend{}, fmt.Errorf("%v: %w", o.Kind, errors.ErrUnsupported)
}

// upstream returns the driver calls and stream operations that a pool needs.
func (d *Device) upstream(alloc func(int64) (uintptr, error), free func(uintptr) error) pool.Upstream[*cudaStream] {
	return pool.Upstream[*cudaStream]{Alloc: alloc, Free: free, Done: (*cudaStream).isDone, Order: waitOnDevice, Wait: (*cudaStream).synchronize}
}

// waitOnDevice lets later work of after wait for all earlier work of before.
func waitOnDevice(before, after *cudaStream) error {
	return after.dev.withContext(func() error { return after.waitFor(before) })
}

// newStreamOrderedBackend creates a memory pool of the driver.
func (d *Device) newStreamOrderedBackend() (poolBackend, error) {
	freeStream, err := d.streams.get(streamKind{flags: driver.StreamNonBlocking})
	if err != nil {
		return poolBackend{}, err
	}
	var handle driver.MemPool
	err = d.withContext(func() (err error) { handle, err = d.api.MemPoolCreate(d.handle, false); return err })
	if err != nil {
		d.streams.put(freeStream)
		return poolBackend{}, err
	}
	ordered := pool.NewOrdered(pool.StreamOrdered[*cudaStream]{
		Alloc: func(n int64, cs *cudaStream) (address uintptr, err error) {
			err = d.withContext(func() error { address, err = d.api.MemAllocFromPoolAsync(n, handle, cs.handle); return err })
			return address, err
		},
		Free: d.freeOnOwnStream(freeStream, func(address uintptr, cs *cudaStream) error {
			return d.withContext(func() error { return d.api.MemFreeAsync(address, cs.handle) })
		}),
		Trim:  func() error { return d.withContext(func() error { return d.api.MemPoolTrimTo(handle, 0) }) },
		Order: waitOnDevice,
		Wait:  (*cudaStream).synchronize,
	}, freeStream)
	k := poolBackend{
		blocks:  ordered,
		account: ordered.Account(),
		setIdleLimit: func(n int64) error {
			return d.withContext(func() error { return d.api.MemPoolSetAttribute(handle, driver.PoolReleaseThreshold, uint64(max(n, 0))) })
		},
		reserved: func() (int64, int64, error) {
			var now, peak uint64
			err := d.withContext(func() (err error) {
				if now, err = d.api.MemPoolGetAttribute(handle, driver.PoolReservedCurrent); err == nil {
					peak, err = d.api.MemPoolGetAttribute(handle, driver.PoolReservedHigh)
				}
				return err
			})
			return int64(now), int64(peak), err
		},
		close: func() error {
			defer d.streams.put(freeStream)
			return d.withContext(func() error { return d.api.MemPoolDestroy(handle) })
		},
	}
	if err := k.setIdleLimit(d.idleLimit); err != nil {
		return poolBackend{}, errors.Join(err, k.close())
	}
	return k, nil
}
