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

// stagingPool holds the page-locked buffers through which large copies between a
// device and ordinary memory pass. The driver does such a copy on one thread, at a
// fraction of the link's speed. Here several goroutines fill or empty some buffers
// while the device copies others.
//
// A buffer returns to the queue as soon as its copy is enqueued. The goroutine that
// gets it next waits for that copy. Concurrent copies thereby take turns.
type stagingPool struct {
	dev *Device
	stagingConfig

	users     sync.RWMutex // read-locked by running copies, locked by trim
	mu        sync.Mutex
	wanted    int                 // the most buffers that a copy may use
	allocated int                 // and being allocated, at most wanted
	idle      chan *stagingBuffer // buffers that no goroutine is using
}

// stagingConfig is chosen by measurement; see BenchmarkStaging.
type stagingConfig struct {
	threshold  int64 // bytes; the driver does smaller copies
	workers    int   // maximum number of goroutines that copy memory
	readers    int   // maximum number of goroutines that read what is copied
	bufferSize int64 // bytes; there are up to two buffers per worker or reader in all
	minPart    int64 // bytes; the minimum size of a part of a copy
}

var defaultStaging = stagingConfig{threshold: 8 << 20, workers: 8, readers: 16, bufferSize: 4 << 20, minPart: 512 << 10}

// stagingBuffer is one buffer of the pool.
type stagingBuffer struct {
	memory []byte
	event  driver.Event
	busy   bool // a copy is running, which ends before the event
}

func newStagingPool(d *Device, p stagingConfig) *stagingPool {
	return &stagingPool{dev: d, stagingConfig: p, idle: make(chan *stagingBuffer, 2*max(p.workers, p.readers))}
}

// acquire lets a copy use up to n buffers, of which there is at least one. The copy must
// call release.
func (sp *stagingPool) acquire(n int) error {
	sp.users.RLock()
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if sp.allocated == 0 { // others would wait for it for ever
		b, err := sp.newBuffer()
		if err != nil {
			sp.users.RUnlock()
			return err
		}
		sp.allocated++
		sp.idle <- b
	}
	sp.wanted = max(sp.wanted, min(n, cap(sp.idle)))
	return nil
}

func (sp *stagingPool) release() { sp.users.RUnlock() }

// grow returns a new buffer, or nil if there are as many as wanted. Pinning one takes as
// long as filling it, so the first copy begins with the buffers that it has. If no more can
// be pinned, it goes on with them, and the next copy tries again.
func (sp *stagingPool) grow() *stagingBuffer {
	sp.mu.Lock()
	more := sp.allocated < sp.wanted
	if more {
		sp.allocated++
	}
	sp.mu.Unlock()
	if !more {
		return nil
	}
	b, err := sp.newBuffer()
	if err != nil { // acquire has made sure of one
		sp.mu.Lock()
		sp.allocated--
		sp.wanted = sp.allocated
		sp.mu.Unlock()
		return nil
	}
	return b
}

func (sp *stagingPool) newBuffer() (*stagingBuffer, error) {
	b, err := sp.tryNewBuffer()
	if err != nil {
		return nil, fmt.Errorf("allocating staging buffers: %w", err)
	}
	return b, nil
}

func (sp *stagingPool) tryNewBuffer() (*stagingBuffer, error) {
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
		b.memory[i] = 0 // map the pages now, not during a copy
	}
	return b, nil
}

// get waits for a buffer that no goroutine is using. Callers must not hold a
// staging buffer already, or they may deadlock.
func (sp *stagingPool) get() (*stagingBuffer, error) {
	if b, err := sp.tryGet(); b != nil || err != nil {
		return b, err
	}
	return sp.waitReady(<-sp.idle)
}

// tryGet is get, but returns nil if it would have to wait for another goroutine.
func (sp *stagingPool) tryGet() (*stagingBuffer, error) {
	select {
	case b := <-sp.idle:
		return sp.waitReady(b)
	default:
		return sp.grow(), nil
	}
}

// waitReady waits for the last copy of a buffer that was taken from the pool.
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

// trim frees the buffers, unless a copy is running.
func (sp *stagingPool) trim() error {
	if !sp.users.TryLock() {
		return nil
	}
	defer sp.users.Unlock()
	var failure error
	sp.wanted = 0
	for ; sp.allocated > 0; sp.allocated-- {
		b := <-sp.idle
		failure = errors.Join(failure,
			sp.wait(b),
			sp.dev.withContext(func() error { return sp.dev.api.EventDestroy(b.event) }),
			sp.dev.freePinned(addressOf(b.memory)))
	}
	return failure
}

// usesStaging reports whether a copy passes through staging buffers: a large copy of
// ordinary memory, outside a capture.
func (d *Device) usesStaging(host []byte, s *Stream) bool {
	return int64(len(host)) >= d.staging.threshold && (s == nil || s.capture == nil) && !d.isPinned(host)
}

// checkCapturable returns an error if a graph would capture a copy of ordinary
// memory, which may be freed before the graph runs.
func (d *Device) checkCapturable(host []byte, s *Stream) error {
	if s == nil || s.capture == nil || d.isPinned(host) {
		return nil
	}
	return fmt.Errorf("%v: copying ordinary memory while capturing a graph: %w", d, errors.ErrUnsupported)
}

// isPinned reports whether host memory is page-locked.
func (d *Device) isPinned(host []byte) bool {
	if _, ok := d.driver.pinnedBlocks.find(host); ok {
		return true
	}
	if _, ok := d.driver.hostBuffers.find(host); ok {
		return true
	}
	// Another library may have pinned it. CUDA has attributes only of memory that
	// it knows. Memory that is pinned in part counts as ordinary.
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

// segment is bytes on the host and the device address that they are copied to or from:
// the memory host, or what read returns from offset on.
type segment struct {
	device uintptr
	length int64
	host   []byte
	read   func(dst []byte, offset int64) error
	offset int64
}

func hostSegment(device uintptr, host []byte) segment {
	return segment{device: device, length: int64(len(host)), host: host}
}

// part returns n bytes of the segment.
func (s segment) part(skip, n int64) segment {
	s.device, s.offset, s.length = s.device+uintptr(skip), s.offset+skip, n
	if s.host != nil {
		s.host = s.host[skip : skip+n]
	}
	return s
}

// fill fills dst with the bytes of the segment.
func (s segment) fill(dst []byte) error {
	if s.read != nil {
		return s.read(dst, s.offset)
	}
	copy(dst, s.host)
	return nil
}

// stagedCopy is a copy of ordinary memory, or of what functions read. It is divided into
// parts, each of which passes through a staging buffer.
type stagedCopy struct {
	pool     *stagingPool
	stream   *cudaStream
	segments []segment
	ends     []int64 // of the segments, concatenated at multiples of segmentAlign
	total    int64   // bytes

	workers  int // maximum number of goroutines
	parts    []copyPart
	nextPart atomic.Int64
	group    workerGroup
}

// segmentAlign is the alignment in bytes of segments in the staging buffers. Most
// segments have the same alignment in memory. Copying between different alignments is
// a fifth slower.
const segmentAlign = 64

// alignedLen returns the length of a segment, rounded up to segmentAlign.
func alignedLen(seg segment) int64 {
	return (seg.length + segmentAlign - 1) &^ (segmentAlign - 1)
}

func newStagedCopy(pool *stagingPool, segments []segment) *stagedCopy {
	c := &stagedCopy{pool: pool, segments: segments, workers: pool.workers}
	for _, seg := range segments {
		c.total += alignedLen(seg)
		c.ends = append(c.ends, c.total)
	}
	return c
}

// copyStaged copies segments to or from device memory in the order of the stream. If s
// is nil, it uses an internal stream and waits for the copy. When it returns, it no
// longer uses the host memory. If it returns an error, no copy is running.
func (d *Device) copyStaged(segments []segment, a access, s *Stream) error {
	return d.runStaged(newStagedCopy(d.staging, segments), a, s)
}

// runStaged is copyStaged for a copy that is prepared.
func (d *Device) runStaged(c *stagedCopy, a access, s *Stream) error {
	if s == nil {
		cs, err := d.streams.getInternal()
		if err != nil {
			return err
		}
		defer d.streams.putInternal(cs)
		defer a.memory.accesses.forget(cs)
		s = &Stream{cudaStream: cs}
		if err := d.runStaged(c, a, s); err != nil {
			return err
		}
		return s.Synchronize()
	}
	if err := s.checkDevice(d); err != nil {
		return err
	}
	// Staging buffers must not wait for the earlier work of the stream. That may take
	// long, and copies on other streams need the buffers too.
	if err := s.submit([]access{a}, func(driver.Stream) error { return nil }); err != nil {
		return err
	}
	if err := s.Synchronize(); err != nil {
		return err
	}
	c.stream = s.cudaStream
	// Work on other streams that accesses the memory waits here until all parts are
	// enqueued, and then waits once for all of them.
	a.memory.accesses.mu.Lock()
	defer a.memory.accesses.mu.Unlock()
	err := d.withContext(func() error { return a.memory.accesses.waitAndRecord(s.cudaStream, a.mode) })
	if err == nil {
		err = c.run(a.mode)
	}
	if err != nil {
		_ = s.Synchronize() // the error is known already, or the device is lost
	}
	return err
}

// run copies all parts, with the help of other goroutines. It does not wait for a
// goroutine that starts after all parts are claimed: waking a thread may take longer
// than copying a part.
func (c *stagedCopy) run(mode accessMode) error {
	workers, partsPerWorker := min(c.workers, runtime.GOMAXPROCS(0)), int64(2)
	buffers := 2 * workers
	if c.segments[0].read != nil {
		partsPerWorker = 4    // the device begins after the first, which should not be large
		buffers = 4 * workers // the device also copies for others, so more are busy
	}
	partSize := (c.total/(partsPerWorker*int64(workers)) + 4095) &^ 4095 // whole pages
	c.divide(min(max(partSize, c.pool.minPart), c.pool.bufferSize))
	if err := c.pool.acquire(min(buffers, len(c.parts))); err != nil {
		return err
	}
	defer c.pool.release()
	worker := c.uploadParts
	if mode == reads {
		worker = c.downloadParts
	}
	for range min(workers, len(c.parts)) - 1 {
		go c.group.join(worker)
	}
	return c.group.runAndWait(worker)
}

// copyPart is bytes [from, to) of the concatenated segments.
type copyPart struct{ from, to int64 }

// divide divides the copy into parts of a size. Segments that are read are divided only if
// they are larger than a buffer, since each part is a read.
func (c *stagedCopy) divide(size int64) {
	var from int64
	add := func(to, size int64) {
		for ; from < to; from = c.parts[len(c.parts)-1].to {
			c.parts = append(c.parts, copyPart{from, min(from+size, to)})
		}
	}
	if c.segments[0].read != nil {
		for i, end := range c.ends {
			begin := end - alignedLen(c.segments[i])
			if end-from > size && begin > from {
				add(begin, c.pool.bufferSize)
			}
			if end-begin > c.pool.bufferSize {
				add(end, size)
			}
		}
		add(c.total, c.pool.bufferSize)
		return
	}
	add(c.total, size)
}

// claimParts yields parts that no other worker has claimed, until a worker fails.
func (c *stagedCopy) claimParts() iter.Seq[copyPart] {
	return func(yield func(copyPart) bool) {
		for !c.group.failed.Load() {
			i := c.nextPart.Add(1) - 1
			if i >= int64(len(c.parts)) || !yield(c.parts[i]) {
				return
			}
		}
	}
}

// segmentsIn yields the segments of a part, each with its bytes in the staging buffer.
func (c *stagedCopy) segmentsIn(b *stagingBuffer, part copyPart) iter.Seq2[segment, []byte] {
	return func(yield func(segment, []byte) bool) {
		i, _ := slices.BinarySearch(c.ends, part.from+1)
		for at := part.from; at < part.to; i++ {
			seg := c.segments[i]
			skip := at - (c.ends[i] - alignedLen(seg))
			end := min(c.ends[i], part.to)
			if n := min(end-at, seg.length-skip); n > 0 {
				if !yield(seg.part(skip, n), b.memory[at-part.from:][:n:n]) {
					return
				}
			}
			at = end
		}
	}
}

// runsIn is segmentsIn with adjacent segments as one, whose host memory is not valid: each
// copy of the device begins some microseconds after the one before.
func (c *stagedCopy) runsIn(b *stagingBuffer, part copyPart) iter.Seq2[segment, []byte] {
	return func(yield func(segment, []byte) bool) {
		var run segment
		var at, end int64 // of the run in the staging buffer
		for seg, chunk := range c.segmentsIn(b, part) {
			from := int64(addressOf(chunk) - addressOf(b.memory))
			if end == from && run.device+uintptr(run.length) == seg.device && run.length > 0 {
				run.length, end = run.length+seg.length, from+seg.length
				continue
			}
			if run.length > 0 && !yield(run, b.memory[at:end:end]) {
				return
			}
			run, at, end = seg, from, from+seg.length
		}
		if run.length > 0 {
			yield(run, b.memory[at:end:end])
		}
	}
}

// uploadParts is a worker of a copy to the device.
func (c *stagedCopy) uploadParts() error {
	for part := range c.claimParts() {
		b, err := c.pool.get()
		if err != nil {
			return err
		}
		for seg, chunk := range c.segmentsIn(b, part) {
			if err := seg.fill(chunk); err != nil {
				c.pool.put(b)
				return err
			}
		}
		if err := c.enqueue(b, part, func(seg segment, chunk []byte, h driver.Stream) error {
			return c.pool.dev.api.MemcpyHtoDAsync(seg.device, chunk, h)
		}); err != nil {
			return err
		}
		c.pool.put(b)
	}
	return nil
}

// downloadParts is a worker of a copy from the device. It empties one buffer while the
// device fills the next.
func (c *stagedCopy) downloadParts() error {
	var last pendingDownload
	for part := range c.claimParts() {
		b, err := c.pool.tryGet()
		if b == nil && err == nil {
			if err = c.finish(&last); err == nil {
				b, err = c.pool.get()
			}
		}
		if err == nil {
			err = c.enqueue(b, part, func(seg segment, chunk []byte, h driver.Stream) error {
				return c.pool.dev.api.MemcpyDtoHAsync(chunk, seg.device, h)
			})
		}
		if err == nil {
			err = c.finish(&last)
			last = pendingDownload{b, part}
		}
		if err != nil {
			_ = c.finish(&last) // return the first error
			return err
		}
	}
	return c.finish(&last)
}

// pendingDownload is a running copy to a staging buffer.
type pendingDownload struct {
	buffer *stagingBuffer
	part   copyPart
}

// finish waits for a pending download, copies the bytes to the host and puts the
// buffer.
func (c *stagedCopy) finish(f *pendingDownload) error {
	b, part := f.buffer, f.part
	if b == nil {
		return nil
	}
	*f = pendingDownload{}
	if err := c.pool.wait(b); err != nil {
		return c.putAfterFailure(b, err)
	}
	for seg, chunk := range c.segmentsIn(b, part) {
		copy(seg.host, chunk)
	}
	c.pool.put(b)
	return nil
}

// enqueue enqueues the copies of a part. It puts the buffer if that fails.
func (c *stagedCopy) enqueue(b *stagingBuffer, part copyPart, copySegment func(seg segment, chunk []byte, h driver.Stream) error) error {
	err := c.pool.dev.withContext(func() error {
		for seg, chunk := range c.runsIn(b, part) {
			if err := copySegment(seg, chunk, c.stream.handle); err != nil {
				return err
			}
		}
		return c.pool.dev.api.EventRecord(b.event, c.stream.handle)
	})
	if err != nil {
		return c.putAfterFailure(b, err)
	}
	b.busy = true
	return nil
}

// putAfterFailure puts a buffer whose event may not mark the end of its copy.
func (c *stagedCopy) putAfterFailure(b *stagingBuffer, err error) error {
	_ = c.stream.synchronize() // err is already known, or the device is lost
	b.busy = false
	c.pool.put(b)
	return err
}

// workerGroup runs the goroutines of one copy and keeps their first error.
type workerGroup struct {
	failed  atomic.Bool
	mu      sync.Mutex
	closed  bool // no more goroutines may join
	active  sync.WaitGroup
	failure error // the first
}

// runAndWait runs the worker, and returns when all workers have returned.
func (g *workerGroup) runAndWait(worker func() error) error {
	g.recordError(worker())
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.active.Wait()
	return g.failure
}

// join runs the worker, unless the group is closed.
func (g *workerGroup) join(worker func() error) {
	g.mu.Lock()
	late := g.closed
	if !late {
		g.active.Add(1)
	}
	g.mu.Unlock()
	if !late {
		defer g.active.Done()
		g.recordError(worker())
	}
}

func (g *workerGroup) recordError(err error) {
	if err == nil {
		return
	}
	g.failed.Store(true)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failure == nil {
		g.failure = err
	}
}
