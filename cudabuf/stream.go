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
	*cudaStream
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
	kind := streamKind{priority: o.Priority}
	if !o.Blocking {
		kind.flags = driver.StreamNonBlocking
	}
	cs, err := d.streams.get(kind)
	if err != nil {
		return nil, err
	}
	return &Stream{cudaStream: cs}, nil
}

// NullStream is the stream that CUDA calls the default or legacy stream (handle
// 0): it waits for all blocking streams of the context, and they for it. It is
// one object a device, and Close does nothing to it.
func (d *Device) NullStream() *Stream { return d.nullStream }

// DefaultStream is the stream for work that nobody gave another: one object a
// device, made when it is first asked for, which packages above share, so that
// their work is in order without waiting for it. It does not wait for the null
// stream. Close does nothing to it.
func (d *Device) DefaultStream() (*Stream, error) {
	if s := d.defaultStream.Load(); s != nil {
		return s, nil
	}
	s, err := d.NewStream(StreamOptions{})
	if err != nil {
		return nil, err
	}
	if !d.defaultStream.CompareAndSwap(nil, s) { // another goroutine was faster
		d.streams.put(s.cudaStream)
	}
	return d.defaultStream.Load(), nil
}

// WrapStream makes a Stream of another library's CUstream in this device's
// context, 1 and 2 (CU_STREAM_LEGACY, CU_STREAM_PER_THREAD) included. The
// handle stays the other's: it must outlive the result's Close, which waits for
// the stream but does not destroy it. Wrap a handle once, since two Streams of
// one handle wait for each other needlessly. A handle of another context is
// arrowbuf.ErrDevice.
func (d *Device) WrapStream(handle uintptr) (*Stream, error) {
	if handle == 0 {
		return d.nullStream, nil
	}
	s := &Stream{cudaStream: &cudaStream{dev: d, handle: driver.Stream(handle), external: true}}
	err := d.withContext(func() error {
		context, err := d.api.StreamGetCtx(s.handle)
		if err == nil && context != d.context {
			err = fmt.Errorf("stream %#x belongs to another context: %w", handle, arrowbuf.ErrDevice)
		}
		return ignoreNotSupported(err)
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// StreamPriorities are the lowest and the highest priority of a stream; higher
// ones are smaller numbers (cuCtxGetStreamPriorityRange).
func (d *Device) StreamPriorities() (lowest, highest int, err error) {
	err = d.withContext(func() (err error) { lowest, highest, err = d.api.CtxGetStreamPriorityRange(); return err })
	return lowest, highest, err
}

// Device is the device that the stream's work runs on.
func (s *Stream) Device() *Device { return s.dev }

// Handle is the CUstream, for other libraries in the process.
func (s *Stream) Handle() uintptr { return uintptr(s.handle) }

// Priority is the one that CUDA gave the stream (cuStreamGetPriority).
func (s *Stream) Priority() (priority int, err error) {
	err = s.withContext(func() (err error) { priority, err = s.dev.api.StreamGetPriority(s.handle); return err })
	return priority, err
}

// Synchronize returns when all work given to the stream so far is done, and
// reports what failed in it (cuStreamSynchronize).
func (s *Stream) Synchronize() error {
	return s.withContext(func() error { return s.dev.api.StreamSynchronize(s.handle) })
}

// Done tells whether all work given to the stream so far is done, without
// waiting (cuStreamQuery).
func (s *Stream) Done() (done bool, err error) {
	err = s.withContext(func() (err error) { done, err = s.dev.api.StreamQuery(s.handle); return err })
	return done, err
}

// Wait lets work that is given to the stream from now on wait for all that has
// been given to the other, on this device or another. The host does not wait.
func (s *Stream) Wait(other *Stream) error {
	return s.withContext(func() error { return s.waitFor(other.cudaStream) })
}

// Close waits for the stream's work, reports what failed in it, and gives the
// stream back. A second Close does nothing, nor does that of a stream that is
// the device's: the null stream and the default one.
func (s *Stream) Close() error {
	if s == s.dev.nullStream || s == s.dev.defaultStream.Load() || s.closed.Load() {
		return nil
	}
	err := s.Synchronize()
	if !s.closed.CompareAndSwap(false, true) {
		return nil
	}
	if s.external {
		return errors.Join(err, s.retire())
	}
	s.dev.streams.put(s.cudaStream)
	return err
}

// withContext runs driver calls about the stream.
func (s *Stream) withContext(calls func() error) error {
	if s.closed.Load() {
		return fmt.Errorf("%v: stream: %w", s.dev, ErrClosed)
	}
	return s.dev.withContext(calls)
}

// cudaStream is a CUDA stream as the package knows it: what a [Stream] works on, and
// what memory remembers. A Stream that is closed gives its queue back to the
// device, whose handle is destroyed with the device and not before: so whoever
// remembers it can still wait for it.
type cudaStream struct {
	dev      *Device
	handle   driver.Stream
	kind     streamKind
	external bool        // the handle is another library's
	retired  atomic.Bool // foreign, waited for and forgotten

	mu    sync.Mutex
	event driver.Event // recorded when another queue must wait, guarded by mu
}

// streamKind is what makes one queue as good as another.
type streamKind struct {
	flags     uint32
	priority  int
	capturing bool // of graphs: memory must never remember one, nor record a mark in it
}

// isRetired tells whether the queue is known to be done for ever.
func (cs *cudaStream) isRetired() bool { return cs.retired.Load() || cs.dev.closed.Load() }

// retire ends with a foreign stream whose work is done.
func (cs *cudaStream) retire() error {
	cs.retired.Store(true)
	return cs.destroyEvent()
}

func (cs *cudaStream) destroyEvent() error {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.event == 0 {
		return nil
	}
	err := cs.dev.withContext(func() error { return cs.dev.api.EventDestroy(cs.event) })
	cs.event = 0
	return err
}

// synchronize returns when all work of the queue is done.
func (cs *cudaStream) synchronize() error {
	if cs.isRetired() {
		return nil
	}
	return cs.dev.withContext(func() error { return cs.dev.api.StreamSynchronize(cs.handle) })
}

// maxInternalStreams bounds how many operations that name no stream run at once. A GPU has
// a handful of copy engines; more queues would only wait for them.
const maxInternalStreams = 8

// streamPool are those of a device that no Stream has, and those of operations that
// name no stream.
//
// CUDA's own stream for the latter, the null stream, would put the copies of
// all goroutines, and of other libraries in the process, into one line. Here
// each operation takes a non-blocking queue for itself, waits for its own work
// alone, and gives the queue back: copies of several goroutines overlap, and
// each caller still finds its operation complete.
type streamPool struct {
	dev      *Device
	internal chan *cudaStream // nil for one that nobody has needed yet

	mu   sync.Mutex
	idle map[streamKind][]*cudaStream
}

func newStreamPool(d *Device) *streamPool {
	p := &streamPool{dev: d, internal: make(chan *cudaStream, maxInternalStreams), idle: map[streamKind][]*cudaStream{}}
	for range maxInternalStreams {
		p.internal <- nil
	}
	return p
}

// get returns a queue of a kind, a used one where there is one.
func (p *streamPool) get(kind streamKind) (*cudaStream, error) {
	p.mu.Lock()
	if list := p.idle[kind]; len(list) > 0 {
		cs := list[len(list)-1]
		p.idle[kind] = list[:len(list)-1]
		p.mu.Unlock()
		return cs, nil
	}
	p.mu.Unlock()
	cs := &cudaStream{dev: p.dev, kind: kind}
	err := p.dev.withContext(func() (err error) {
		cs.handle, err = p.dev.api.StreamCreateWithPriority(kind.flags, kind.priority)
		return err
	})
	if err != nil {
		return nil, err
	}
	return cs, nil
}

// put takes a queue back.
func (p *streamPool) put(cs *cudaStream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle[cs.kind] = append(p.idle[cs.kind], cs)
}

// getInternal waits for a queue for one operation.
func (p *streamPool) getInternal() (*cudaStream, error) {
	if cs := <-p.internal; cs != nil {
		return cs, nil
	}
	cs, err := p.get(streamKind{flags: driver.StreamNonBlocking})
	if err != nil {
		p.internal <- nil
	}
	return cs, err
}

func (p *streamPool) putInternal(cs *cudaStream) { p.internal <- cs }

// close destroys the queues. What Streams have that nobody closed goes with the
// context.
func (p *streamPool) close() error {
	var all []*cudaStream
	if s := p.dev.defaultStream.Load(); s != nil {
		all = append(all, s.cudaStream)
	}
	for range maxInternalStreams {
		if cs := <-p.internal; cs != nil {
			all = append(all, cs)
		}
		p.internal <- nil
	}
	p.mu.Lock()
	for _, list := range p.idle {
		all = append(all, list...)
	}
	clear(p.idle)
	p.mu.Unlock()
	failure := p.dev.nullStream.destroyEvent()
	for _, cs := range all {
		failure = errors.Join(failure, cs.destroyEvent(), p.dev.withContext(func() error { return p.dev.api.StreamDestroy(cs.handle) }))
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

// isDone tells whether all work of the queue is done. That of a lost device never
// is.
func (cs *cudaStream) isDone() bool {
	if cs.retired.Load() {
		return true
	}
	done := false
	err := cs.dev.withContext(func() (err error) { done, err = cs.dev.api.StreamQuery(cs.handle); return err })
	return err == nil && done
}

// synchronizeAll waits for the streams. It ignores errors: on a lost device no
// work runs any more.
func synchronizeAll(streams []*cudaStream) {
	for _, cs := range streams {
		_ = cs.synchronize()
	}
}
