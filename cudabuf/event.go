package cudabuf

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// Event is a CUDA event: a point in a stream that other streams and the host can
// wait for. It may be used from any goroutine.
type Event struct {
	dev      *Device
	handle   driver.Event
	external bool
	closed   atomic.Bool
}

// EventOptions are the options of NewEvent. The zero value disables timing.
type EventOptions struct {
	// Timing enables Since. It makes each record slightly slower.
	Timing bool
	// BlockingSync makes Synchronize sleep instead of spin.
	BlockingSync bool
	// Interprocess makes an event that other processes can open. It excludes
	// Timing.
	Interprocess bool
}

// NewEvent creates an event (cuEventCreate). The caller must close it.
func (d *Device) NewEvent(o EventOptions) (*Event, error) {
	var flags uint32
	if !o.Timing {
		flags |= driver.EventDisableTiming
	}
	if o.BlockingSync {
		flags |= driver.EventBlockingSync
	}
	if o.Interprocess {
		flags |= driver.EventInterprocess
	}
	e := &Event{dev: d}
	if err := d.withContext(func() (err error) { e.handle, err = d.api.EventCreate(flags); return err }); err != nil {
		return nil, err
	}
	return e, nil
}

// WrapEvent returns an Event on another library's CUevent in this device's context.
// The other library keeps ownership: Close does not destroy the handle.
func (d *Device) WrapEvent(handle uintptr) (*Event, error) {
	if handle == 0 {
		return nil, &driver.Error{Call: "cuEventQuery", Code: driver.InvalidHandle, Detail: "the event is 0"}
	}
	return &Event{dev: d, handle: driver.Event(handle), external: true}, nil
}

// Handle returns the CUevent for other libraries in the process.
func (e *Event) Handle() uintptr { return uintptr(e.handle) }

// Record records the event on a stream of the event's device (cuEventRecord). The
// event then represents all earlier work of the stream. A later record replaces the
// earlier one.
func (s *Stream) Record(e *Event) error {
	if e == nil {
		return fmt.Errorf("cudabuf.Stream.Record: nil event: %w", ErrNil)
	}
	if e.dev != s.dev {
		return fmt.Errorf("event on the wrong device: got %v, want %v: %w", e.dev, s.dev, arrowbuf.ErrDevice)
	}
	return e.withContext(func() error {
		return s.dev.api.EventRecord(e.handle, s.handle)
	})
}

// WaitEvent makes later work of the stream wait for the last record of an event of
// any device (cuStreamWaitEvent). It has no effect if the event was never recorded.
func (s *Stream) WaitEvent(e *Event) error {
	if e == nil {
		return fmt.Errorf("cudabuf.Stream.WaitEvent: nil event: %w", ErrNil)
	}
	if e.closed.Load() {
		return fmt.Errorf("%v: event: %w", e.dev, ErrClosed)
	}
	return s.withContext(func() error { return s.dev.api.StreamWaitEvent(s.handle, e.handle) })
}

// Done reports, without waiting, whether the work before the last record is done
// (cuEventQuery). It returns true if the event was never recorded.
func (e *Event) Done() (done bool, err error) {
	err = e.withContext(func() (err error) { done, err = e.dev.api.EventQuery(e.handle); return err })
	return done, err
}

// Synchronize returns when the work before the last record is done
// (cuEventSynchronize).
func (e *Event) Synchronize() error {
	return e.withContext(func() error { return e.dev.api.EventSynchronize(e.handle) })
}

// Since returns the time from another event to this one on the device, with a
// resolution of half a microsecond (cuEventElapsedTime). Both must have Timing, be
// recorded and be done.
func (e *Event) Since(start *Event) (time.Duration, error) {
	if start == nil {
		return 0, fmt.Errorf("cudabuf.Event.Since: nil event: %w", ErrNil)
	}
	var ms float32
	err := e.withContext(func() (err error) { ms, err = e.dev.api.EventElapsedTime(start.handle, e.handle); return err })
	return time.Duration(float64(ms) * float64(time.Millisecond)), err
}

// Close destroys the event (cuEventDestroy). Pending waits for it still complete. A
// second Close does nothing.
func (e *Event) Close() error {
	if !e.closed.CompareAndSwap(false, true) || e.external {
		return nil
	}
	return e.dev.withContext(func() error { return e.dev.api.EventDestroy(e.handle) })
}

func (e *Event) withContext(calls func() error) error {
	if e.closed.Load() {
		return fmt.Errorf("%v: event: %w", e.dev, ErrClosed)
	}
	return e.dev.withContext(calls)
}
