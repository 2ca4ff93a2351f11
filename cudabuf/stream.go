package cudabuf

import (
	"errors"
	"fmt"
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

// Do runs f on the host when all earlier work of the stream is done, and lets
// later work wait for its return (cuLaunchHostFunc). f must not use a device:
// CUDA would lock up. It does not run where earlier work of the stream failed.
func (s *Stream) Do(f func()) error {
	if s.capture != nil {
		return fmt.Errorf("%v: a host function in a graph: %w", s.dev, errors.ErrUnsupported)
	}
	return s.do(func() error { return s.dev.api.LaunchHostFunc(s.handle, f) })
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
