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
	"github.com/quiver-gpu/quiver/cudabuf/internal/pool"
)

// Pool is where buffers of a device get their memory from. It may be used from
// any goroutine. A device has one of its own, a caching one, and uses the pool
// of SetPool instead.
//
// Released memory goes to its next user without the host waiting for a stream:
// to the same stream at once, to another when the first is done or behind it.
type Pool struct {
	dev     *Device
	backend poolBackend
	blocks  pool.Pool[*cudaStream] // the kind, and what the options lay over it
	tracker *pool.Tracker[*cudaStream]
	closed  atomic.Bool

	mu      sync.Mutex
	failure error // the first of giving memory back; Release can tell nobody
}

// PoolOptions says what pool to make. The zero value is a caching one.
type PoolOptions struct {
	Kind PoolKind
	// Slack bounds what a caching pool keeps: before it takes more from the
	// driver it gives idle memory back, until it holds at most this share more
	// than was ever in use. 0 is 1/12, negative no bound. A pool for work whose
	// large sizes alternate is faster with more.
	Slack float64
	// Limit is that of SetLimit.
	Limit int64
	// Stacks remembers for each buffer where it was allocated, for Leaks. It
	// costs a microsecond each.
	Stacks bool
	// Log gets a line of CSV for each buffer that is allocated, asked for in
	// vain or released: Time, Action (allocate, allocate failure, free),
	// Address, Size and Stream (its handle, or - for none). It is written to by
	// one goroutine at a time.
	Log io.Writer
	// OutOfMemory is called when there is no memory for a buffer of so many
	// bytes. It may release buffers; while it answers true the pool tries
	// again. It is called by many goroutines at once if many allocate.
	OutOfMemory func(want int64) (retry bool)
}

// NewPool makes a pool. The caller closes it, or leaves that to Driver.Close.
// Where the driver has no StreamOrderedPool, the error is a *Error.
func (d *Device) NewPool(o PoolOptions) (*Pool, error) {
	p := &Pool{dev: d}
	var err error
	if p.backend, err = d.newPoolBackend(o); err != nil {
		return nil, fmt.Errorf("making a pool: %w", err)
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

// Device is the device whose memory it is.
func (p *Pool) Device() *Device { return p.dev }

// Alloc returns a buffer of n bytes with undefined contents, which every stream
// may use at once. Without memory the error is arrowbuf.ErrOutOfMemory, and says
// what was in use.
func (p *Pool) Alloc(n int64) (*Buffer, error) { return p.alloc(n, nil) }

// AllocOn is Alloc for a buffer that a stream uses first: memory that other work
// of the stream still uses is good enough then. Another stream's first use waits
// for what s has been given till now.
func (p *Pool) AllocOn(n int64, s *Stream) (*Buffer, error) {
	if err := s.checkDevice(p.dev); err != nil {
		return nil, err
	}
	if s.closed.Load() {
		return nil, fmt.Errorf("%v: stream: %w", p.dev, ErrClosed)
	}
	if s.capture != nil {
		return nil, fmt.Errorf("%v: allocating %d bytes while a graph is captured: %w", p.dev, n, errors.ErrUnsupported)
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

// pooledBuffer is all that a buffer of a pool needs, in one piece: allocating many is
// then half as dear.
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

// Trim gives idle memory back to the driver, as far as no stream uses it and the
// driver's allocations are idle as a whole.
func (p *Pool) Trim() error { return p.blocks.Trim() }

// Close gives all memory back, after waiting for the streams that use it, and
// reports the first failure to do so in the pool's life. It refuses, and does
// nothing, while a buffer of the pool is in use: the error says how much. A
// device that uses the pool goes back to its own; closing that one does nothing.
// A second Close does nothing.
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

// checkUnused fails while a buffer is in use.
func (p *Pool) checkUnused() error {
	n := p.backend.account.Stats().InUse
	if n == 0 {
		return nil
	}
	return p.withLeaks(fmt.Errorf("%v: still in use: %d bytes of device memory", p.dev, n))
}

// withLeaks lists the buffers in use behind an error, if the pool knows them.
func (p *Pool) withLeaks(err error) error {
	for _, leak := range p.Leaks() {
		err = fmt.Errorf("%w\n%v", err, leak)
	}
	return err
}

// poolSet are those of a device that are not closed.
type poolSet struct {
	builtin *Pool // what the device has from the start
	current atomic.Pointer[Pool]

	mu  sync.Mutex
	all []*Pool
}

// init makes the device's own pool.
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

// withLeaks lists the buffers in use behind an error, as far as pools know them.
func (x *poolSet) withLeaks(err error) error {
	for _, p := range x.list() {
		err = p.withLeaks(err)
	}
	return err
}

// Pool is the pool that NewBuffer and Alloc take memory from.
func (d *Device) Pool() *Pool { return d.pools.current.Load() }

// SetPool makes NewBuffer and Alloc take memory from a pool of this device, or
// for nil from the device's own again. Buffers that there are keep theirs.
func (d *Device) SetPool(p *Pool) error {
	switch {
	case p == nil:
		p = d.pools.builtin
	case p.dev != d:
		return fmt.Errorf("a pool of %v for %v: %w", p.dev, d, arrowbuf.ErrDevice)
	case p.closed.Load():
		return fmt.Errorf("%v: pool: %w", d, ErrClosed)
	}
	d.pools.current.Store(p)
	return nil
}

// PoolStats are sizes in bytes and numbers of buffers: InUse and Held now, Peak
// and PeakHeld at most, Total over time, and Count, PeakCount and TotalCount of
// buffers. Held is what was taken from the driver. Sizes count as rounded up to
// a multiple of 512.
type PoolStats = pool.Stats

// Leak is a buffer that was not released: its Address, its Size, and the Stack
// of who allocated it.
type Leak = pool.Leak

// Stats say what the pool lends and holds. They are read one by one: while
// others allocate, they need not fit together.
func (p *Pool) Stats() PoolStats {
	s := p.backend.account.Stats()
	if p.backend.reserved != nil && !p.closed.Load() {
		if now, peak, err := p.backend.reserved(); err == nil {
			s.Held, s.PeakHeld = now, peak
		}
	}
	return s
}

// ResetPeak makes what counts now the peaks, of the innermost scope if one is
// open.
func (p *Pool) ResetPeak() { p.backend.account.ResetPeak() }

// PushScope begins a scope of statistics; scopes nest.
func (p *Pool) PushScope() { p.backend.account.Push() }

// PopScope ends the innermost scope, and says what was allocated since it began.
// InUse and Count are negative where more was released. It answers false where
// no scope has begun. A StreamOrderedPool does not count Held.
func (p *Pool) PopScope() (PoolStats, bool) { return p.backend.account.Pop() }

// SetLimit bounds what the pool takes from the driver, in bytes; 0 is no bound.
// What it holds already may be more. Beyond it, allocating is
// arrowbuf.ErrOutOfMemory.
func (p *Pool) SetLimit(bytes int64) {
	if bytes <= 0 {
		bytes = math.MaxInt64
	}
	p.backend.account.SetLimit(bytes)
}

// SetLimitPercent is SetLimit by a share of the GPU's memory, of 0 to 100.
func (p *Pool) SetLimitPercent(percent float64) error {
	if !(percent > 0 && percent <= 100) {
		return fmt.Errorf("%v: a limit of %v percent, not of 0 to 100: %w", p.dev, percent, arrowbuf.ErrOutOfRange)
	}
	_, total, err := p.dev.MemInfo()
	if err == nil {
		p.SetLimit(max(int64(float64(total)*percent/100), 1))
	}
	return err
}

// Limit is what SetLimit bounds, 0 where it does not.
func (p *Pool) Limit() int64 {
	if n := p.backend.account.Limit(); n != math.MaxInt64 {
		return n
	}
	return 0
}

// SetIdleLimit bounds the released memory that is kept for later buffers, in
// bytes; at first that is a quarter of the GPU's memory. Zero keeps none, as far
// as the driver's allocations are idle as a whole. A DirectPool keeps none
// anyway.
func (p *Pool) SetIdleLimit(n int64) error { return p.backend.setIdleLimit(n) }

// Leaks are the buffers in use, in the order of their addresses, if the pool was
// made with Stacks.
func (p *Pool) Leaks() []Leak {
	if p.tracker == nil {
		return nil
	}
	return p.tracker.Leaks()
}
