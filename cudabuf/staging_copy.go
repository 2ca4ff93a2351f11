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

	workers   int  // maximum number of goroutines
	toHost    bool // from the device to host memory
	downloads int  // parts that the device has begun to copy to the host
	parts     []*copyPart
	slices    []copySlice  // of all parts, in their order
	next      atomic.Int64 // the slice that is claimed next
	group     workerGroup
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
	c := &stagedCopy{pool: pool, segments: segments, workers: pool.workers, ends: make([]int64, 0, len(segments))}
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
	c.toHost = mode == reads
	c.divide()
	if err := c.pool.acquire(min(c.pool.buffers, len(c.parts))); err != nil {
		return err
	}
	defer c.pool.release()
	for range min(c.workers, runtime.GOMAXPROCS(0), len(c.slices)) - 1 {
		go c.group.join(c.copySlices)
	}
	err := c.group.runAndWait(c.copySlices)
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
	index    int
	from, to int64

	begin  sync.Once
	err    error          // of beginning
	buffer *stagingBuffer // nil before and after its use
	left   atomic.Int64   // slices that are not copied
}

// copySlice is bytes [from, to) of a part.
type copySlice struct {
	part     *copyPart
	from, to int64
}

const (
	// partsPerCopy is the least number of parts of a large copy: the device begins after
	// the first, or the goroutines do.
	partsPerCopy = 8
	// slicesPerPart is the number of slices of a large part.
	slicesPerPart = 8
	// partsAhead is the number of parts that the device copies to the host while others
	// are emptied.
	partsAhead = 3
)

// divide divides the copy into parts and slices. Segments that are read are divided only
// if they are large, since each slice is a read.
func (c *stagedCopy) divide() {
	partSize := min(max(wholePages(c.total/partsPerCopy), c.pool.minPart), c.pool.bufferSize)
	sliceSize := min(max(wholePages(partSize/slicesPerPart), c.pool.minSlice), partSize)
	var part *copyPart
	var from int64
	add := func(to int64) {
		if part == nil || to-part.from > partSize {
			part = &copyPart{index: len(c.parts), from: from}
			c.parts = append(c.parts, part)
		}
		part.to = to
		part.left.Add(1)
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

// copySlices is a worker: it fills slices of buffers, or empties them. The first
// slice of a part needs a buffer, and the last one puts it.
func (c *stagedCopy) copySlices() error {
	for slice := range c.claimSlices() {
		part := slice.part
		err := c.beginPart(part)
		if err == nil {
			err = c.copySlice(slice)
		}
		if err != nil {
			c.group.recordError(err)
		}
		// After an error too, because others may wait for the buffer.
		if part.left.Add(-1) > 0 || part.buffer == nil {
			continue
		}
		if err := c.endPart(part); err != nil {
			return err
		}
	}
	return nil
}

// beginPart returns when the part has a buffer, which holds its bytes if they are copied to
// the host.
func (c *stagedCopy) beginPart(part *copyPart) error {
	part.begin.Do(func() {
		if !c.toHost {
			part.buffer, part.err = c.pool.get()
			return
		}
		if part.index > 0 { // parts begin in their order
			if part.err = c.beginPart(c.parts[part.index-1]); part.err != nil {
				return
			}
		}
		if part.err = c.downloadUpTo(part.index); part.err == nil {
			part.err = c.pool.wait(part.buffer)
		}
	})
	return part.err
}

// downloadUpTo lets the device copy parts to the host, at least up to that of an index, and
// those after it if there are buffers.
func (c *stagedCopy) downloadUpTo(index int) error {
	for ; c.downloads < min(index+1+partsAhead, len(c.parts)); c.downloads++ {
		part := c.parts[c.downloads]
		b, err := c.pool.tryGet()
		if b == nil && err == nil && c.downloads <= index {
			b, err = c.pool.get()
		}
		if b == nil || err != nil {
			return err
		}
		if err := c.enqueue(b, part, func(seg segment, chunk []byte, h driver.Stream) error {
			return c.pool.dev.api.MemcpyDtoHAsync(chunk, seg.device, h)
		}); err != nil {
			return err
		}
		part.buffer = b
	}
	return nil
}

func (c *stagedCopy) copySlice(slice copySlice) error {
	for seg, chunk := range c.segmentsIn(slice.part.buffer, slice) {
		if c.toHost {
			copy(seg.host, chunk)
		} else if err := seg.fill(chunk); err != nil {
			return err
		}
	}
	return nil
}

// endPart lets the device copy a part that is filled, and puts its buffer.
func (c *stagedCopy) endPart(part *copyPart) error {
	b := part.buffer
	part.buffer = nil
	if !c.toHost && !c.group.failed.Load() {
		if err := c.enqueue(b, part, func(seg segment, chunk []byte, h driver.Stream) error {
			return c.pool.dev.api.MemcpyHtoDAsync(seg.device, chunk, h)
		}); err != nil {
			return err
		}
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
