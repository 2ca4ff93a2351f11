package cudabuf

import (
	"iter"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

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

	workers int // maximum number of goroutines
	parts   []*copyPart
	slices  []copySlice  // of all parts, in their order
	next    atomic.Int64 // the slice that is claimed next
	group   workerGroup
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
// goroutine that starts after all slices are claimed: waking a thread may take longer
// than copying one.
func (c *stagedCopy) run(mode accessMode) error {
	workers := min(c.workers, runtime.GOMAXPROCS(0))
	worker, buffers := c.fillSlices, c.pool.buffers
	if mode == reads {
		worker, buffers = c.downloadParts, 2*workers
	}
	c.divide(mode, workers)
	if err := c.pool.acquire(min(buffers, len(c.parts))); err != nil {
		return err
	}
	defer c.pool.release()
	for range min(workers, len(c.slices)) - 1 {
		go c.group.join(worker)
	}
	err := c.group.runAndWait(worker)
	for _, p := range c.parts {
		if p.buffer != nil { // after an error
			c.pool.put(p.buffer)
		}
	}
	return err
}

// copyPart is bytes [from, to) of the concatenated segments, which pass through a staging
// buffer and are one copy of the device.
type copyPart struct {
	from, to int64

	getBuffer sync.Once
	buffer    *stagingBuffer // nil again when the copy is enqueued
	err       error          // of getting the buffer
	unfilled  atomic.Int64   // slices
}

// copySlice is bytes [from, to) of a part.
type copySlice struct {
	part     *copyPart
	from, to int64
}

// slicesPerPart is the number of slices of a large part.
const slicesPerPart = 8

// divide divides the copy into parts and slices. A download has one slice per part: a
// goroutine empties one while the device fills another. Segments that are read are divided
// only if they are large, since each slice is a read.
func (c *stagedCopy) divide(mode accessMode, workers int) {
	partSize := c.total / 8 // the device begins early
	if mode == reads {
		partSize = min(c.total/(2*int64(workers)), c.pool.undivided)
	}
	partSize = min(max(wholePages(partSize), c.pool.minPart), c.pool.bufferSize)
	sliceSize := partSize
	if mode == writes {
		sliceSize = min(max(wholePages(partSize/slicesPerPart), c.pool.minSlice), partSize)
	}
	var part *copyPart
	var from int64
	add := func(to int64) {
		if part == nil || to-part.from > partSize {
			part = &copyPart{from: from}
			c.parts = append(c.parts, part)
		}
		part.to = to
		part.unfilled.Add(1)
		c.slices = append(c.slices, copySlice{part, from, to})
		from = to
	}
	for i, end := range c.ends {
		begin := end - alignedLen(c.segments[i])
		read := c.segments[i].read != nil
		if read && from < begin && end-from > sliceSize {
			add(begin)
		}
		if read && end-begin <= c.pool.undivided {
			continue
		}
		for end-from >= sliceSize {
			add(from + sliceSize)
		}
		if read && from < end {
			add(end)
		}
	}
	if from < c.total {
		add(c.total)
	}
}

// wholePages rounds a number of bytes up to pages.
func wholePages(n int64) int64 { return (n + 4095) &^ 4095 }

// claimSlices yields slices that no other worker has claimed, until a worker fails. So all
// slices of a part are claimed before those of the next.
func (c *stagedCopy) claimSlices() iter.Seq[copySlice] {
	return func(yield func(copySlice) bool) {
		for !c.group.failed.Load() {
			i := c.next.Add(1) - 1
			if i >= int64(len(c.slices)) || !yield(c.slices[i]) {
				return
			}
		}
	}
}

// segmentsIn yields the segments of a slice, each with its bytes in the staging buffer.
func (c *stagedCopy) segmentsIn(b *stagingBuffer, slice copySlice) iter.Seq2[segment, []byte] {
	return func(yield func(segment, []byte) bool) {
		i, _ := slices.BinarySearch(c.ends, slice.from+1)
		for at := slice.from; at < slice.to; i++ {
			seg := c.segments[i]
			skip := at - (c.ends[i] - alignedLen(seg))
			end := min(c.ends[i], slice.to)
			if n := min(end-at, seg.length-skip); n > 0 {
				if !yield(seg.part(skip, n), b.memory[at-slice.part.from:][:n:n]) {
					return
				}
			}
			at = end
		}
	}
}

// runsIn is segmentsIn of a part, with adjacent segments as one, whose host memory is not
// valid.
func (c *stagedCopy) runsIn(b *stagingBuffer, part *copyPart) iter.Seq2[segment, []byte] {
	return func(yield func(segment, []byte) bool) {
		var run segment
		var at, end int64 // of the run in the staging buffer
		for seg, chunk := range c.segmentsIn(b, copySlice{part, part.from, part.to}) {
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

// fillSlices is a worker of a copy to the device. The one that fills the last slice of a
// part enqueues its copy.
func (c *stagedCopy) fillSlices() error {
	for slice := range c.claimSlices() {
		part := slice.part
		part.getBuffer.Do(func() { part.buffer, part.err = c.pool.get() })
		err := part.err
		if err == nil {
			err = c.fill(slice)
		}
		if err != nil {
			c.group.recordError(err)
		}
		// After an error too, because others may wait for the buffer.
		if part.unfilled.Add(-1) > 0 || part.buffer == nil {
			continue
		}
		b := part.buffer
		part.buffer = nil
		if c.group.failed.Load() {
			c.pool.put(b)
			continue
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

func (c *stagedCopy) fill(slice copySlice) error {
	for seg, chunk := range c.segmentsIn(slice.part.buffer, slice) {
		if err := seg.fill(chunk); err != nil {
			return err
		}
	}
	return nil
}

// downloadParts is a worker of a copy from the device. It empties one buffer while the
// device fills the next.
func (c *stagedCopy) downloadParts() error {
	var last pendingDownload
	for slice := range c.claimSlices() {
		part := slice.part
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
	part   *copyPart
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
	for seg, chunk := range c.segmentsIn(b, copySlice{part, part.from, part.to}) {
		copy(seg.host, chunk)
	}
	c.pool.put(b)
	return nil
}

// enqueue enqueues the copies of a part. It puts the buffer if that fails.
func (c *stagedCopy) enqueue(b *stagingBuffer, part *copyPart, copySegment func(seg segment, chunk []byte, h driver.Stream) error) error {
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
