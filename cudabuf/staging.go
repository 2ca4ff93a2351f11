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

// staging is the page-locked memory through which large copies between a device
// and ordinary memory go. The driver does such a copy on one thread, which moves
// a fraction of what the link does; here several goroutines fill or drain the
// pieces while the device copies others.
//
// A piece goes back to the end of the line as soon as its copy is issued, and
// whoever gets it next waits for that copy: so concurrent copies share the
// pieces by turns.
type staging struct {
	dev *Device
	stagingParameters

	users sync.RWMutex // read by copies under way, written by who frees the pieces
	mu    sync.Mutex
	made  int
	idle  chan *stagingPiece // all that no goroutine works on
}

// stagingParameters are chosen by measurement, see BenchmarkStaging.
type stagingParameters struct {
	threshold int64 // copies below are left to the driver
	workers   int   // goroutines a copy, at most
	piece     int64 // bytes; each worker can have two
	least     int64 // bytes of a piece that are worth a copy of their own
}

var defaultStaging = stagingParameters{threshold: 8 << 20, workers: 8, piece: 4 << 20, least: 512 << 10}

// stagingPiece is a part of the ring.
type stagingPiece struct {
	memory []byte
	event  driver.Event
	busy   bool // a copy is under way, which ends before the event
}

func newStaging(d *Device, p stagingParameters) *staging {
	return &staging{dev: d, stagingParameters: p, idle: make(chan *stagingPiece, 2*p.workers)}
}

// open readies n pieces for a copy, which ends with close.
func (r *staging) open(n int) error {
	r.users.RLock()
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.made < min(n, cap(r.idle)) {
		p, err := r.newPiece()
		if err != nil {
			r.users.RUnlock()
			return fmt.Errorf("for copies of ordinary memory: %w", err)
		}
		r.made++
		r.idle <- p
	}
	return nil
}

func (r *staging) close() { r.users.RUnlock() }

func (r *staging) newPiece() (*stagingPiece, error) {
	p := &stagingPiece{}
	err := r.dev.do(func() (err error) { p.event, err = r.dev.api.EventCreate(driver.EventDisableTiming); return err })
	if err != nil {
		return nil, err
	}
	address, err := r.dev.lockHost(r.piece, driver.HostAllocPortable)
	if err != nil {
		return nil, errors.Join(err, r.dev.do(func() error { return r.dev.api.EventDestroy(p.event) }))
	}
	p.memory = hostSlice(address, r.piece)
	for i := int64(0); i < r.piece; i += 4096 {
		p.memory[i] = 0 // or copies would wait for its pages to be mapped
	}
	return p, nil
}

// take waits for a piece that nobody uses. Who has one must not: all might wait.
func (r *staging) take() (*stagingPiece, error) { return r.ready(<-r.idle) }

// try is take where no goroutine need be waited for, and nil elsewhere.
func (r *staging) try() (*stagingPiece, error) {
	select {
	case p := <-r.idle:
		return r.ready(p)
	default:
		return nil, nil
	}
}

// ready waits for the last copy of a piece.
func (r *staging) ready(p *stagingPiece) (*stagingPiece, error) {
	if err := r.wait(p); err != nil {
		r.put(p)
		return nil, err
	}
	return p, nil
}

func (r *staging) wait(p *stagingPiece) error {
	if !p.busy {
		return nil
	}
	err := r.dev.do(func() error { return r.dev.api.EventSynchronize(p.event) })
	p.busy = err != nil
	return err
}

func (r *staging) put(p *stagingPiece) { r.idle <- p }

// trim gives the pieces back to the driver, unless a copy is under way.
func (r *staging) trim() error {
	if !r.users.TryLock() {
		return nil
	}
	defer r.users.Unlock()
	var failure error
	for ; r.made > 0; r.made-- {
		p := <-r.idle
		failure = errors.Join(failure,
			r.wait(p),
			r.dev.do(func() error { return r.dev.api.EventDestroy(p.event) }),
			r.dev.hostFree(addressOf(p.memory)))
	}
	return failure
}

// stages tells whether a copy from or to memory of the host goes through pieces:
// a large one of ordinary memory. A capture records none.
func (d *Device) stages(host []byte, s *Stream) bool {
	return int64(len(host)) >= d.staging.threshold && (s == nil || s.capture == nil) && !d.isPinned(host)
}

// capturable fails for a copy that a graph would record, of memory that may be
// gone when the graph runs: only pinned memory is known to stay.
func (d *Device) capturable(host []byte, s *Stream) error {
	if s == nil || s.capture == nil || d.isPinned(host) {
		return nil
	}
	return fmt.Errorf("%v: a copy of ordinary memory in a graph: %w", d, errors.ErrUnsupported)
}

// isPinned tells whether memory of the host is page-locked.
func (d *Device) isPinned(host []byte) bool {
	if _, ok := d.driver.pinned.find(host); ok {
		return true
	}
	if _, ok := d.driver.hosted.find(host); ok {
		return true
	}
	// Another library's: ordinary memory is what CUDA has no attributes of. One
	// end may lie in it, and what is pinned there goes through pieces as well.
	err := d.do(func() error {
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

// staged is a copy of ordinary memory in parts, each through a piece.
type staged struct {
	*staging
	queue    *queue
	segments []segment
	ends     []int64 // of the segments, where all are counted as one, each from a multiple of lane on
	total    int64   // bytes

	part   int64 // bytes
	next   atomic.Int64
	failed atomic.Bool
	crew
}

// lane is what segments begin at multiples of in the pieces, as most do in memory: the
// processor moves a fifth less where the two differ.
const lane = 64

// lanes is the length of a segment, rounded up.
func lanes(one segment) int64 { return (int64(len(one.host)) + lane - 1) &^ (lane - 1) }

func newStaged(r *staging, q *queue, segments []segment) *staged {
	c := &staged{staging: r, queue: q, segments: segments}
	for _, one := range segments {
		c.total += lanes(one)
		c.ends = append(c.ends, c.total)
	}
	return c
}

// stage copies segments to or from the memory of a device that is used, in the order
// of the stream, or of none, and is done with the host's when it returns. When it
// fails, no copy is under way.
func (d *Device) stage(segments []segment, u use, s *Stream) error {
	if s == nil {
		q, err := d.queues.lend()
		if err != nil {
			return err
		}
		defer d.queues.giveBack(q)
		defer u.memory.uses.end(q)
		s = &Stream{queue: q}
		if err := d.stage(segments, u, s); err != nil {
			return err
		}
		return s.Synchronize()
	}
	if err := s.on(d); err != nil {
		return err
	}
	// Pieces must not wait behind the stream's earlier work: that may take
	// long, and copies on other streams need them too.
	if err := s.issue([]use{u}, func(driver.Stream) error { return nil }); err != nil {
		return err
	}
	if err := s.Synchronize(); err != nil {
		return err
	}
	c := newStaged(d.staging, s.queue, segments)
	// Who wants the memory on another stream waits here until all parts are
	// issued, once for all of them.
	u.memory.uses.mu.Lock()
	defer u.memory.uses.mu.Unlock()
	err := d.do(func() error { return u.memory.uses.begin(s.queue, u.how) })
	if err == nil {
		err = c.run(u.how)
	}
	if err != nil {
		_ = s.Synchronize() // what it reports was reported, or the device is lost
	}
	return err
}

// run does the parts, with the help of other goroutines as they come: it does
// not wait for one that has not begun when all parts are taken, since waking a
// thread may take longer than a part.
func (c *staged) run(how access) error {
	workers := int64(min(c.workers, runtime.GOMAXPROCS(0)))
	c.part = min(max((c.total/(2*workers)+4095)&^4095, c.least), c.piece) // whole pages
	parts := (c.total + c.part - 1) / c.part
	if err := c.open(int(min(2*workers, parts))); err != nil {
		return err
	}
	defer c.close()
	work := c.fill
	if how == reads {
		work = c.drain
	}
	for range min(workers, parts) - 1 {
		go c.help(work)
	}
	return c.lead(work)
}

// stretch is a part: bytes [from, to) of all segments.
type stretch struct{ from, to int64 }

// parts yields parts that no other worker has, until one of them fails.
func (c *staged) parts() iter.Seq[stretch] {
	return func(yield func(stretch) bool) {
		for !c.failed.Load() {
			from := c.next.Add(c.part) - c.part
			if from >= c.total || !yield(stretch{from, min(from+c.part, c.total)}) {
				return
			}
		}
	}
}

// through yields what of the segments a part is, with its place in a piece.
func (c *staged) through(p *stagingPiece, s stretch) iter.Seq2[segment, []byte] {
	return func(yield func(segment, []byte) bool) {
		i, _ := slices.BinarySearch(c.ends, s.from+1)
		for at := s.from; at < s.to; i++ {
			one := c.segments[i]
			skip := at - (c.ends[i] - lanes(one))
			end := min(c.ends[i], s.to)
			if n := min(end-at, int64(len(one.host))-skip); n > 0 {
				if !yield(segment{one.device + uintptr(skip), one.host[skip : skip+n]}, p.memory[at-s.from:][:n]) {
					return
				}
			}
			at = end
		}
	}
}

// fill is a worker of a copy to the device.
func (c *staged) fill() error {
	for part := range c.parts() {
		p, err := c.take()
		if err != nil {
			return err
		}
		for one, piece := range c.through(p, part) {
			copy(piece, one.host)
		}
		if err := c.give(p, part, func(one segment, piece []byte, h driver.Stream) error {
			return c.dev.api.MemcpyHtoDAsync(one.device, piece, h)
		}); err != nil {
			return err
		}
		c.put(p)
	}
	return nil
}

// drain is a worker of a copy from the device. While one piece is emptied, the
// next is on its way.
func (c *staged) drain() error {
	var last flight
	for part := range c.parts() {
		p, err := c.try()
		if p == nil && err == nil {
			if err = c.land(&last); err == nil {
				p, err = c.take()
			}
		}
		if err == nil {
			err = c.give(p, part, func(one segment, piece []byte, h driver.Stream) error {
				return c.dev.api.MemcpyDtoHAsync(piece, one.device, h)
			})
		}
		if err == nil {
			err = c.land(&last)
			last = flight{p, part}
		}
		if err != nil {
			_ = c.land(&last) // err is the first
			return err
		}
	}
	return c.land(&last)
}

// flight is a copy under way to a piece, and the part that it is.
type flight struct {
	piece *stagingPiece
	part  stretch
}

// land brings a flight to its end, and leaves none.
func (c *staged) land(f *flight) error {
	p, part := f.piece, f.part
	if p == nil {
		return nil
	}
	*f = flight{}
	if err := c.wait(p); err != nil {
		return c.abandon(p, err)
	}
	for one, piece := range c.through(p, part) {
		copy(one.host, piece)
	}
	c.put(p)
	return nil
}

// give issues the copies of a piece. When it fails, the piece is put back.
func (c *staged) give(p *stagingPiece, part stretch, move func(one segment, piece []byte, h driver.Stream) error) error {
	err := c.dev.do(func() error {
		for one, piece := range c.through(p, part) {
			if err := move(one, piece, c.queue.handle); err != nil {
				return err
			}
		}
		return c.dev.api.EventRecord(p.event, c.queue.handle)
	})
	if err != nil {
		return c.abandon(p, err)
	}
	p.busy = true
	return nil
}

// abandon puts back a piece whose event may not tell when its copy ends.
func (c *staged) abandon(p *stagingPiece, err error) error {
	_ = c.queue.synchronize() // err says it all, or the device is lost
	p.busy = false
	c.put(p)
	return err
}

// crew are the goroutines that do one copy.
type crew struct {
	mu      sync.Mutex
	over    bool // no more may join
	active  sync.WaitGroup
	failure error // the first
}

// lead works, and returns when nobody does any more.
func (c *staged) lead(work func() error) error {
	c.report(work())
	c.crew.mu.Lock()
	c.over = true
	c.crew.mu.Unlock()
	c.active.Wait()
	return c.failure
}

// help works, unless it comes too late.
func (c *staged) help(work func() error) {
	c.crew.mu.Lock()
	late := c.over
	if !late {
		c.active.Add(1)
	}
	c.crew.mu.Unlock()
	if !late {
		defer c.active.Done()
		c.report(work())
	}
}

func (c *staged) report(err error) {
	if err == nil {
		return
	}
	c.failed.Store(true)
	c.crew.mu.Lock()
	defer c.crew.mu.Unlock()
	if c.failure == nil {
		c.failure = err
	}
}
