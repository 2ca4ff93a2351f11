package cudabuf

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// Stream is a queue of work on a device: what is given to one stream runs in
// that order, work of different streams at the same time. It may be used from
// any goroutine.
//
// Operations order themselves: when one uses a [Buffer] that earlier work on
// another stream uses, and one of the two writes, it waits for that work on the
// device; the host does not wait. What the package cannot see (addresses given
// to other libraries, ordinary Go memory) is the caller's to order, with
// [Stream.Synchronize], [Event] or [Buffer.Wait].
type Stream struct {
	*queue
	capture *capture // of what is given to the stream, nil elsewhere
	closed  atomic.Bool
}

// StreamOptions says what stream to make. The zero value is a non-blocking
// stream of ordinary priority.
type StreamOptions struct {
	// Blocking makes a stream that waits for work in the null stream, and the
	// null stream for it.
	Blocking bool
	// Priority within Device.StreamPriorities; smaller numbers go first. What
	// lies outside counts as the nearest within.
	Priority int
}

// NewStream makes a stream (cuStreamCreateWithPriority). The caller closes it.
func (d *Device) NewStream(o StreamOptions) (*Stream, error) {
	kind := queueKind{priority: o.Priority}
	if !o.Blocking {
		kind.flags = driver.StreamNonBlocking
	}
	q, err := d.queues.open(kind)
	if err != nil {
		return nil, err
	}
	return &Stream{queue: q}, nil
}

// NullStream is the stream that CUDA calls the default or legacy stream (handle
// 0): it waits for all blocking streams of the context, and they for it. It is
// one object a device, and Close does nothing to it.
func (d *Device) NullStream() *Stream { return d.null }

// DefaultStream is the stream for work that nobody gave another: one object a
// device, made when it is first asked for, which packages above share, so that
// their work is in order without waiting for it. It does not wait for the null
// stream. Close does nothing to it.
func (d *Device) DefaultStream() (*Stream, error) {
	if s := d.shared.Load(); s != nil {
		return s, nil
	}
	s, err := d.NewStream(StreamOptions{})
	if err != nil {
		return nil, err
	}
	if !d.shared.CompareAndSwap(nil, s) { // another goroutine was faster
		d.queues.put(s.queue)
	}
	return d.shared.Load(), nil
}

// WrapStream makes a Stream of another library's CUstream in this device's
// context, 1 and 2 (CU_STREAM_LEGACY, CU_STREAM_PER_THREAD) included. The
// handle stays the other's: it must outlive the result's Close, which waits for
// the stream but does not destroy it. Wrap a handle once, since two Streams of
// one handle wait for each other needlessly. A handle of another context is
// arrowbuf.ErrDevice.
func (d *Device) WrapStream(handle uintptr) (*Stream, error) {
	if handle == 0 {
		return d.null, nil
	}
	s := &Stream{queue: &queue{dev: d, handle: driver.Stream(handle), foreign: true}}
	err := d.do(func() error {
		context, err := d.api.StreamGetCtx(s.handle)
		if err == nil && context != d.context {
			err = fmt.Errorf("stream %#x belongs to another context: %w", handle, arrowbuf.ErrDevice)
		}
		return optional(err)
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// StreamPriorities are the lowest and the highest priority of a stream; higher
// ones are smaller numbers (cuCtxGetStreamPriorityRange).
func (d *Device) StreamPriorities() (lowest, highest int, err error) {
	err = d.do(func() (err error) { lowest, highest, err = d.api.CtxGetStreamPriorityRange(); return err })
	return lowest, highest, err
}

// Device is the device that the stream's work runs on.
func (s *Stream) Device() *Device { return s.dev }

// Handle is the CUstream, for other libraries in the process.
func (s *Stream) Handle() uintptr { return uintptr(s.handle) }

// Priority is the one that CUDA gave the stream (cuStreamGetPriority).
func (s *Stream) Priority() (priority int, err error) {
	err = s.do(func() (err error) { priority, err = s.dev.api.StreamGetPriority(s.handle); return err })
	return priority, err
}

// Synchronize returns when all work given to the stream so far is done, and
// reports what failed in it (cuStreamSynchronize).
func (s *Stream) Synchronize() error {
	return s.do(func() error { return s.dev.api.StreamSynchronize(s.handle) })
}

// Done tells whether all work given to the stream so far is done, without
// waiting (cuStreamQuery).
func (s *Stream) Done() (done bool, err error) {
	err = s.do(func() (err error) { done, err = s.dev.api.StreamQuery(s.handle); return err })
	return done, err
}

// Wait lets work that is given to the stream from now on wait for all that has
// been given to the other, on this device or another. The host does not wait.
func (s *Stream) Wait(other *Stream) error {
	return s.do(func() error { return s.waitFor(other.queue) })
}

// Close waits for the stream's work, reports what failed in it, and gives the
// stream back. A second Close does nothing, nor does that of a stream that is
// the device's: the null stream and the default one.
func (s *Stream) Close() error {
	if s == s.dev.null || s == s.dev.shared.Load() || s.closed.Load() {
		return nil
	}
	err := s.Synchronize()
	if !s.closed.CompareAndSwap(false, true) {
		return nil
	}
	if s.foreign {
		return errors.Join(err, s.forsake())
	}
	s.dev.queues.put(s.queue)
	return err
}

// do runs driver calls about the stream.
func (s *Stream) do(calls func() error) error {
	if s.closed.Load() {
		return fmt.Errorf("%v: stream: %w", s.dev, ErrClosed)
	}
	return s.dev.do(calls)
}

// queue is a CUDA stream as the package knows it: what a [Stream] works on, and
// what memory remembers. A Stream that is closed gives its queue back to the
// device, whose handle is destroyed with the device and not before: so whoever
// remembers it can still wait for it.
type queue struct {
	dev     *Device
	handle  driver.Stream
	kind    queueKind
	foreign bool        // the handle is another library's
	gone    atomic.Bool // foreign, waited for and forgotten

	mu   sync.Mutex
	mark driver.Event // recorded when another queue must wait, guarded by mu
}

// queueKind is what makes one queue as good as another.
type queueKind struct {
	flags    uint32
	priority int
	captures bool // of graphs: memory must never remember one, nor record a mark in it
}

// ended tells whether the queue is known to be done for ever.
func (q *queue) ended() bool { return q.gone.Load() || q.dev.closed.Load() }

// forsake ends with a foreign stream whose work is done.
func (q *queue) forsake() error {
	q.gone.Store(true)
	return q.dropMark()
}

func (q *queue) dropMark() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mark == 0 {
		return nil
	}
	err := q.dev.do(func() error { return q.dev.api.EventDestroy(q.mark) })
	q.mark = 0
	return err
}

// synchronize returns when all work of the queue is done.
func (q *queue) synchronize() error {
	if q.ended() {
		return nil
	}
	return q.dev.do(func() error { return q.dev.api.StreamSynchronize(q.handle) })
}

// maxLent bounds how many operations that name no stream run at once. A GPU has
// a handful of copy engines; more queues would only wait for them.
const maxLent = 8

// queues are those of a device that no Stream has, and those of operations that
// name no stream.
//
// CUDA's own stream for the latter, the null stream, would put the copies of
// all goroutines, and of other libraries in the process, into one line. Here
// each operation takes a non-blocking queue for itself, waits for its own work
// alone, and gives the queue back: copies of several goroutines overlap, and
// each caller still finds its operation complete.
type queues struct {
	dev  *Device
	lent chan *queue // nil for one that nobody has needed yet

	mu   sync.Mutex
	idle map[queueKind][]*queue
}

func newQueues(d *Device) *queues {
	p := &queues{dev: d, lent: make(chan *queue, maxLent), idle: map[queueKind][]*queue{}}
	for range maxLent {
		p.lent <- nil
	}
	return p
}

// open returns a queue of a kind, a used one where there is one.
func (p *queues) open(kind queueKind) (*queue, error) {
	p.mu.Lock()
	if list := p.idle[kind]; len(list) > 0 {
		q := list[len(list)-1]
		p.idle[kind] = list[:len(list)-1]
		p.mu.Unlock()
		return q, nil
	}
	p.mu.Unlock()
	q := &queue{dev: p.dev, kind: kind}
	err := p.dev.do(func() (err error) {
		q.handle, err = p.dev.api.StreamCreateWithPriority(kind.flags, kind.priority)
		return err
	})
	if err != nil {
		return nil, err
	}
	return q, nil
}

// put takes a queue back.
func (p *queues) put(q *queue) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle[q.kind] = append(p.idle[q.kind], q)
}

// lend waits for a queue for one operation.
func (p *queues) lend() (*queue, error) {
	if q := <-p.lent; q != nil {
		return q, nil
	}
	q, err := p.open(queueKind{flags: driver.StreamNonBlocking})
	if err != nil {
		p.lent <- nil
	}
	return q, err
}

func (p *queues) giveBack(q *queue) { p.lent <- q }

// close destroys the queues. What Streams have that nobody closed goes with the
// context.
func (p *queues) close() error {
	var all []*queue
	if s := p.dev.shared.Load(); s != nil {
		all = append(all, s.queue)
	}
	for range maxLent {
		if q := <-p.lent; q != nil {
			all = append(all, q)
		}
		p.lent <- nil
	}
	p.mu.Lock()
	for _, list := range p.idle {
		all = append(all, list...)
	}
	clear(p.idle)
	p.mu.Unlock()
	failure := p.dev.null.dropMark()
	for _, q := range all {
		failure = errors.Join(failure, q.dropMark(), p.dev.do(func() error { return p.dev.api.StreamDestroy(q.handle) }))
	}
	return failure
}

// Alloc is Pool.AllocOn of the device's Pool.
func (s *Stream) Alloc(n int64) (arrowbuf.Buffer, error) {
	b, err := s.dev.Pool().AllocOn(n, s)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// done tells whether all work of the queue is done. That of a lost device never
// is.
func (q *queue) done() bool {
	if q.gone.Load() {
		return true
	}
	done := false
	err := q.dev.do(func() (err error) { done, err = q.dev.api.StreamQuery(q.handle); return err })
	return err == nil && done
}
