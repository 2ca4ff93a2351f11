package cudabuf

import (
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// stagingPool is the page-locked memory through which large copies between a device
// and ordinary memory go. The driver does such a copy on one thread, which moves
// a fraction of what the link does; here several goroutines fill or drain the
// pieces while the device copies others.
//
// A piece goes back to the end of the line as soon as its copy is issued, and
// whoever gets it next waits for that copy: so concurrent copies share the
// pieces by turns.
type stagingPool struct {
	dev *Device
	stagingConfig

	users     sync.RWMutex // read by copies under way, written by who frees the pieces
	mu        sync.Mutex
	allocated int
	idle      chan *stagingBuffer // all that no goroutine works on
}

// stagingConfig are chosen by measurement, see BenchmarkStaging.
type stagingConfig struct {
	threshold  int64 // copies below are left to the driver
	workers    int   // goroutines a copy, at most
	bufferSize int64 // bytes; each worker can have two
	minPart    int64 // bytes of a piece that are worth a copy of their own
}

var defaultStaging = stagingConfig{threshold: 8 << 20, workers: 8, bufferSize: 4 << 20, minPart: 512 << 10}

// stagingBuffer is a part of the ring.
type stagingBuffer struct {
	memory []byte
	event  driver.Event
	busy   bool // a copy is under way, which ends before the event
}

func newStagingPool(d *Device, p stagingConfig) *stagingPool {
	return &stagingPool{dev: d, stagingConfig: p, idle: make(chan *stagingBuffer, 2*p.workers)}
}

// acquire readies n pieces for a copy, which ends with close.
func (sp *stagingPool) acquire(n int) error {
	sp.users.RLock()
	sp.mu.Lock()
	defer sp.mu.Unlock()
	for sp.allocated < min(n, cap(sp.idle)) {
		b, err := sp.newBuffer()
		if err != nil {
			sp.users.RUnlock()
			return fmt.Errorf("for copies of ordinary memory: %w", err)
		}
		sp.allocated++
		sp.idle <- b
	}
	return nil
}

func (sp *stagingPool) release() { sp.users.RUnlock() }

func (sp *stagingPool) newBuffer() (*stagingBuffer, error) {
	b := &stagingBuffer{}
	err := sp.dev.withContext(func() (err error) { b.event, err = sp.dev.api.EventCreate(driver.EventDisableTiming); return err })
	if err != nil {
		return nil, err
	}
	address, err := sp.dev.allocPinned(sp.bufferSize, driver.HostAllocPortable)
	if err != nil {
		return nil, errors.Join(err, sp.dev.withContext(func() error { return sp.dev.api.EventDestroy(b.event) }))
	}
	b.memory = hostSlice(address, sp.bufferSize)
	for i := int64(0); i < sp.bufferSize; i += 4096 {
		b.memory[i] = 0 // or copies would wait for its pages to be mapped
	}
	return b, nil
}

// get waits for a piece that nobody uses. Who has one must not: all might wait.
func (sp *stagingPool) get() (*stagingBuffer, error) { return sp.waitReady(<-sp.idle) }

// tryGet is take where no goroutine need be waited for, and nil elsewhere.
func (sp *stagingPool) tryGet() (*stagingBuffer, error) {
	select {
	case b := <-sp.idle:
		return sp.waitReady(b)
	default:
		return nil, nil
	}
}

// waitReady waits for the last copy of a piece.
func (sp *stagingPool) waitReady(b *stagingBuffer) (*stagingBuffer, error) {
	if err := sp.wait(b); err != nil {
		sp.put(b)
		return nil, err
	}
	return b, nil
}

func (sp *stagingPool) wait(b *stagingBuffer) error {
	if !b.busy {
		return nil
	}
	err := sp.dev.withContext(func() error { return sp.dev.api.EventSynchronize(b.event) })
	b.busy = err != nil
	return err
}

func (sp *stagingPool) put(b *stagingBuffer) { sp.idle <- b }

// trim gives the pieces back to the driver, unless a copy is under way.
func (sp *stagingPool) trim() error {
	if !sp.users.TryLock() {
		return nil
	}
	defer sp.users.Unlock()
	var failure error
	for ; sp.allocated > 0; sp.allocated-- {
		b := <-sp.idle
		failure = errors.Join(failure,
			sp.wait(b),
			sp.dev.withContext(func() error { return sp.dev.api.EventDestroy(b.event) }),
			sp.dev.freePinned(addressOf(b.memory)))
	}
	return failure
}

// usesStaging tells whether a copy from or to memory of the host goes through pieces:
// a large one of ordinary memory. A capture records none.
func (d *Device) usesStaging(host []byte, s *Stream) bool {
	return int64(len(host)) >= d.staging.threshold && (s == nil || s.capture == nil) && !d.isPinned(host)
}

// checkCapturable fails for a copy that a graph would record, of memory that may be
// gone when the graph runs: only pinned memory is known to stay.
func (d *Device) checkCapturable(host []byte, s *Stream) error {
	if s == nil || s.capture == nil || d.isPinned(host) {
		return nil
	}
	return fmt.Errorf("%v: a copy of ordinary memory in a graph: %w", d, errors.ErrUnsupported)
}

// isPinned tells whether memory of the host is page-locked.
func (d *Device) isPinned(host []byte) bool {
	if _, ok := d.driver.pinnedBlocks.find(host); ok {
		return true
	}
	if _, ok := d.driver.hostBuffers.find(host); ok {
		return true
	}
	// Another library's: ordinary memory is what CUDA has no attributes of. One
	// end may lie in it, and what is pinned there goes through pieces as well.
	err := d.withContext(func() error {
		for _, end := range []uintptr{addressOf(host), addressOf(host[len(host)-1:])} {
			if _, err := d.api.PointerGetAttribute(driver.PointerMemoryType, end); err != nil {
				return err
			}
		}
		return nil
	})
	return err == nil
}

// segment is memory of the host, and the address on the device that it is copied to
// or from.
type segment struct {
	device uintptr
	host   []byte
}

// stagedCopy is a copy of ordinary memory in parts, each through a piece.
type stagedCopy struct {
	*stagingPool
	stream   *cudaStream
	segments []segment
	ends     []int64 // of the segments, where all are counted as one, each from a multiple of lane on
	total    int64   // bytes

	partSize   int64 // bytes
	nextOffset atomic.Int64
	failed     atomic.Bool
	workerGroup
}

// segmentAlign is what segments begin at multiples of in the pieces, as most do in memory: the
// processor moves a fifth less where the two differ.
const segmentAlign = 64

// alignedLen is the length of a segment, rounded up.
func alignedLen(seg segment) int64 {
	return (int64(len(seg.host)) + segmentAlign - 1) &^ (segmentAlign - 1)
}

func newStagedCopy(sp *stagingPool, cs *cudaStream, segments []segment) *stagedCopy {
	c := &stagedCopy{stagingPool: sp, stream: cs, segments: segments}
	for _, seg := range segments {
		c.total += alignedLen(seg)
		c.ends = append(c.ends, c.total)
	}
	return c
}

// copyStaged copies segments to or from the memory of a device that is used, in the order
// of the stream, or of none, and is done with the host's when it returns. When it
// fails, no copy is under way.
func (d *Device) copyStaged(segments []segment, u access, s *Stream) error {
	if s == nil {
		cs, err := d.streams.getInternal()
		if err != nil {
			return err
		}
		defer d.streams.putInternal(cs)
		defer u.memory.accesses.forget(cs)
		s = &Stream{cudaStream: cs}
		if err := d.copyStaged(segments, u, s); err != nil {
			return err
		}
		return s.Synchronize()
	}
	if err := s.checkDevice(d); err != nil {
		return err
	}
	// Pieces must not wait behind the stream's earlier work: that may take
	// long, and copies on other streams need them too.
	if err := s.submit([]access{u}, func(driver.Stream) error { return nil }); err != nil {
		return err
	}
	if err := s.Synchronize(); err != nil {
		return err
	}
	c := newStagedCopy(d.staging, s.cudaStream, segments)
	// Who wants the memory on another stream waits here until all parts are
	// issued, once for all of them.
	u.memory.accesses.mu.Lock()
	defer u.memory.accesses.mu.Unlock()
	err := d.withContext(func() error { return u.memory.accesses.waitAndRecord(s.cudaStream, u.mode) })
	if err == nil {
		err = c.run(u.mode)
	}
	if err != nil {
		_ = s.Synchronize() // what it reports was reported, or the device is lost
	}
	return err
}

// run does the parts, with the help of other goroutines as they come: it does
// not wait for one that has not begun when all parts are taken, since waking a
// thread may take longer than a part.
func (c *stagedCopy) run(mode accessMode) error {
	workers := int64(min(c.workers, runtime.GOMAXPROCS(0)))
	c.partSize = min(max((c.total/(2*workers)+4095)&^4095, c.minPart), c.bufferSize) // whole pages
	parts := (c.total + c.partSize - 1) / c.partSize
	if err := c.acquire(int(min(2*workers, parts))); err != nil {
		return err
	}
	defer c.release()
	worker := c.uploadParts
	if mode == reads {
		worker = c.downloadParts
	}
	for range min(workers, parts) - 1 {
		go c.join(worker)
	}
	return c.runAndWait(worker)
}

// copyPart is a part: bytes [from, to) of all segments.
type copyPart struct{ from, to int64 }

// claimParts yields parts that no other worker has, until one of them fails.
func (c *stagedCopy) claimParts() iter.Seq[copyPart] {
	return func(yield func(copyPart) bool) {
		for !c.failed.Load() {
			from := c.nextOffset.Add(c.partSize) - c.partSize
			if from >= c.total || !yield(copyPart{from, min(from+c.partSize, c.total)}) {
				return
			}
		}
	}
}

// segmentsIn yields what of the segments a part is, with its place in a piece.
func (c *stagedCopy) segmentsIn(b *stagingBuffer, s copyPart) iter.Seq2[segment, []byte] {
	return func(yield func(segment, []byte) bool) {
		i, _ := slices.BinarySearch(c.ends, s.from+1)
		for at := s.from; at < s.to; i++ {
			seg := c.segments[i]
			skip := at - (c.ends[i] - alignedLen(seg))
			end := min(c.ends[i], s.to)
			if n := min(end-at, int64(len(seg.host))-skip); n > 0 {
				if !yield(segment{seg.device + uintptr(skip), seg.host[skip : skip+n]}, b.memory[at-s.from:][:n]) {
					return
				}
			}
			at = end
		}
	}
}

// uploadParts is a worker of a copy to the device.
func (c *stagedCopy) uploadParts() error {
	for part := range c.claimParts() {
		b, err := c.get()
		if err != nil {
			return err
		}
		for seg, chunk := range c.segmentsIn(b, part) {
			copy(chunk, seg.host)
		}
		if err := c.enqueue(b, part, func(seg segment, chunk []byte, h driver.Stream) error {
			return c.dev.api.MemcpyHtoDAsync(seg.device, chunk, h)
		}); err != nil {
			return err
		}
		c.put(b)
	}
	return nil
}

// downloadParts is a worker of a copy from the device. While one piece is emptied, the
// next is on its way.
func (c *stagedCopy) downloadParts() error {
	var last pendingDownload
	for part := range c.claimParts() {
		b, err := c.tryGet()
		if b == nil && err == nil {
			if err = c.finish(&last); err == nil {
				b, err = c.get()
			}
		}
		if err == nil {
			err = c.enqueue(b, part, func(seg segment, chunk []byte, h driver.Stream) error {
				return c.dev.api.MemcpyDtoHAsync(chunk, seg.device, h)
			})
		}
		if err == nil {
			err = c.finish(&last)
			last = pendingDownload{b, part}
		}
		if err != nil {
			_ = c.finish(&last) // err is the first
			return err
		}
	}
	return c.finish(&last)
}

// pendingDownload is a copy under way to a piece, and the part that it is.
type pendingDownload struct {
	buffer *stagingBuffer
	part   copyPart
}

// finish brings a flight to its end, and leaves none.
func (c *stagedCopy) finish(f *pendingDownload) error {
	b, part := f.buffer, f.part
	if b == nil {
		return nil
	}
	*f = pendingDownload{}
	if err := c.wait(b); err != nil {
		return c.putAfterFailure(b, err)
	}
	for seg, chunk := range c.segmentsIn(b, part) {
		copy(seg.host, chunk)
	}
	c.put(b)
	return nil
}

// enqueue issues the copies of a piece. When it fails, the piece is put back.
func (c *stagedCopy) enqueue(b *stagingBuffer, part copyPart, move func(seg segment, chunk []byte, h driver.Stream) error) error {
	err := c.dev.withContext(func() error {
		for seg, chunk := range c.segmentsIn(b, part) {
			if err := move(seg, chunk, c.stream.handle); err != nil {
				return err
			}
		}
		return c.dev.api.EventRecord(b.event, c.stream.handle)
	})
	if err != nil {
		return c.putAfterFailure(b, err)
	}
	b.busy = true
	return nil
}

// putAfterFailure puts back a piece whose event may not tell when its copy ends.
func (c *stagedCopy) putAfterFailure(b *stagingBuffer, err error) error {
	_ = c.stream.synchronize() // err says it all, or the device is lost
	b.busy = false
	c.put(b)
	return err
}

// workerGroup are the goroutines that do one copy.
type workerGroup struct {
	mu      sync.Mutex
	closed  bool // no more may join
	active  sync.WaitGroup
	failure error // the first
}

// runAndWait works, and returns when nobody does any more.
func (c *stagedCopy) runAndWait(worker func() error) error {
	c.recordError(worker())
	c.workerGroup.mu.Lock()
	c.closed = true
	c.workerGroup.mu.Unlock()
	c.active.Wait()
	return c.failure
}

// join works, unless it comes too late.
func (c *stagedCopy) join(worker func() error) {
	c.workerGroup.mu.Lock()
	late := c.closed
	if !late {
		c.active.Add(1)
	}
	c.workerGroup.mu.Unlock()
	if !late {
		defer c.active.Done()
		c.recordError(worker())
	}
}

func (c *stagedCopy) recordError(err error) {
	if err == nil {
		return
	}
	c.failed.Store(true)
	c.workerGroup.mu.Lock()
	defer c.workerGroup.mu.Unlock()
	if c.failure == nil {
		c.failure = err
	}
}
