package cudabuf

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// Stream is a CUDA stream. Work on one stream runs in the order of submission; work on
// different streams runs concurrently. It may be used from any goroutine.
//
// Operations are ordered automatically. An operation that uses a [Buffer] waits on the
// device for earlier work on other streams that uses the same memory. Two reads do not
// wait. The host does not wait either. The caller must order what the package cannot see:
// addresses passed to other libraries, and ordinary Go memory. Use
// [Stream.Synchronize], [Event] or [Buffer.Wait].
type Stream struct {
	*cudaStream
	capture *capture // set while the stream captures a graph
	closed  atomic.Bool
}

var _ arrowbuf.Stream = (*Stream)(nil)

// StreamOptions are the options of NewStream. The zero value makes a non-blocking stream
// of default priority.
type StreamOptions struct {
	// Blocking makes the stream and the null stream wait for each other.
	Blocking bool
	// Priority is clamped to Device.StreamPriorities. Smaller numbers run first.
	Priority int
}

// NewStream creates a stream (cuStreamCreateWithPriority). The caller must close it.
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

// NullStream returns the legacy default stream of CUDA (handle 0). It and all blocking
// streams of the context wait for each other. Close does nothing to it.
func (d *Device) NullStream() *Stream { return d.nullStream }

// DefaultStream returns the stream for work without a stream of its own. It is created on
// first use and shared by all packages of a device, which keeps their work in order
// without waiting. It does not wait for the null stream. Close does nothing to it.
func (d *Device) DefaultStream() (*Stream, error) {
	if s := d.defaultStream.Load(); s != nil {
		return s, nil
	}
	s, err := d.NewStream(StreamOptions{})
	if err != nil {
		return nil, err
	}
	if !d.defaultStream.CompareAndSwap(nil, s) { // another goroutine created it first
		d.streams.put(s.cudaStream)
	}
	return d.defaultStream.Load(), nil
}

// WrapStream returns a Stream on another library's CUstream in this device's context.
// The handles 1 and 2 (CU_STREAM_LEGACY, CU_STREAM_PER_THREAD) are allowed. The handle
// must outlive the Close of the result, which waits for the stream but does not destroy
// it. Wrap a handle only once: two Streams of one handle wait for each other needlessly.
// The error is arrowbuf.ErrDevice for a handle of another context.
func (d *Device) WrapStream(handle uintptr) (*Stream, error) {
	if handle == 0 {
		return d.nullStream, nil
	}
	s := &Stream{cudaStream: &cudaStream{dev: d, handle: driver.Stream(handle), external: true}}
	err := d.withContext(func() error {
		context, err := d.api.StreamGetCtx(s.handle)
		if err == nil && context != d.context {
			err = fmt.Errorf("cudabuf.WrapStream: stream %#x belongs to another context: %w", handle, arrowbuf.ErrDevice)
		}
		return ignoreNotSupported(err)
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// StreamPriorities returns the lowest and the highest priority of a stream. Higher
// priorities are smaller numbers (cuCtxGetStreamPriorityRange).
func (d *Device) StreamPriorities() (lowest, highest int, err error) {
	err = d.withContext(func() (err error) { lowest, highest, err = d.api.CtxGetStreamPriorityRange(); return err })
	return lowest, highest, err
}

// Device returns the device that runs the stream's work.
func (s *Stream) Device() *Device { return s.dev }

// Handle returns the CUstream for other libraries in the process.
func (s *Stream) Handle() uintptr { return uintptr(s.handle) }

// Capturing reports whether the stream belongs to a [Device.Capture], so that its work runs
// when the graph is launched.
func (s *Stream) Capturing() bool { return s != nil && s.capture != nil }

// Priority returns the priority that CUDA chose (cuStreamGetPriority).
func (s *Stream) Priority() (priority int, err error) {
	err = s.withContext(func() (err error) { priority, err = s.dev.api.StreamGetPriority(s.handle); return err })
	return priority, err
}

// Synchronize returns when all earlier work of the stream is done, and reports its errors
// (cuStreamSynchronize).
func (s *Stream) Synchronize() error {
	return s.withContext(func() error { return s.dev.api.StreamSynchronize(s.handle) })
}

// Done reports, without waiting, whether all earlier work of the stream is done
// (cuStreamQuery).
func (s *Stream) Done() (done bool, err error) {
	err = s.withContext(func() (err error) { done, err = s.dev.api.StreamQuery(s.handle); return err })
	return done, err
}

// Wait makes later work of the stream wait for all earlier work of the other, which may
// be on another device. The host does not wait.
func (s *Stream) Wait(other *Stream) error {
	if other == nil {
		return fmt.Errorf("cudabuf.Stream.Wait: nil stream: %w", ErrNil)
	}
	return s.withContext(func() error { return s.waitFor(other.cudaStream) })
}

// Alloc is Pool.AllocOn of the device's Pool.
func (s *Stream) Alloc(n int64) (arrowbuf.Buffer, error) {
	b, err := s.dev.Pool().AllocOn(n, s)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Close waits for the stream's work, reports its errors, and frees the stream. A second
// Close does nothing. Close has no effect on the null stream and the default stream.
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

// withContext makes driver calls for the stream in the device's context.
func (s *Stream) withContext(calls func() error) error {
	if s.closed.Load() {
		return fmt.Errorf("%v: stream: %w", s.dev, ErrClosed)
	}
	return s.dev.withContext(calls)
}

// cudaStream is a CUDA stream and the event by which other streams wait for it. A Stream
// uses one, and an accessTracker refers to those that accessed its memory. A closed Stream
// returns its cudaStream to the streamPool, which destroys the handle with the device. A
// tracker can therefore always wait for it.
type cudaStream struct {
	dev      *Device
	handle   driver.Stream
	kind     streamKind
	external bool        // the handle belongs to another library
	retired  atomic.Bool // external and closed; all its work is done

	mu    sync.Mutex
	event driver.Event // recorded when another stream must wait; guarded by mu
}

// streamKind lists the properties that a reused cudaStream must match.
type streamKind struct {
	flags     uint32
	priority  int
	capturing bool // for captures: no accessTracker may refer to it
}

// isRetired reports whether all work of the stream is known to be done for good.
func (cs *cudaStream) isRetired() bool { return cs.retired.Load() || cs.dev.closed.Load() }

// isDone reports whether all work of the stream is done. It returns false on a lost
// device.
func (cs *cudaStream) isDone() bool {
	if cs.retired.Load() {
		return true
	}
	done := false
	err := cs.dev.withContext(func() (err error) { done, err = cs.dev.api.StreamQuery(cs.handle); return err })
	return err == nil && done
}

// retire marks an external stream whose work is done.
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

// synchronize returns when all work of the stream is done.
func (cs *cudaStream) synchronize() error {
	if cs.isRetired() {
		return nil
	}
	return cs.dev.withContext(func() error { return cs.dev.api.StreamSynchronize(cs.handle) })
}

// synchronizeAll waits for the streams. It ignores errors: on a lost device no
// work runs any more.
func synchronizeAll(streams []*cudaStream) {
	for _, cs := range streams {
		_ = cs.synchronize()
	}
}

// maxInternalStreams bounds how many operations without a stream run concurrently. A GPU
// has few copy engines, so more streams would not help.
const maxInternalStreams = 8

// streamPool holds the streams of a device that no Stream uses, and the internal streams
// of operations that name no stream.
//
// Such operations do not use the null stream, which would serialize the copies of all
// goroutines and of other libraries. Each gets a non-blocking internal stream, waits for
// its own work, and puts the stream back. Copies of several goroutines thereby overlap,
// and each operation is complete when it returns.
type streamPool struct {
	dev      *Device
	internal chan *cudaStream // nil for a stream that is not created yet

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

// get returns an idle stream of a kind, or creates one.
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

// put makes a stream idle.
func (p *streamPool) put(cs *cudaStream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle[cs.kind] = append(p.idle[cs.kind], cs)
}

// getInternal waits for an internal stream for one operation.
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

// close destroys the streams. Those of Streams that are still open are destroyed with the
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
