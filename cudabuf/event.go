package cudabuf

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// Event is a mark in a stream that others wait for and that tells the time. It
// may be used from any goroutine.
type Event struct {
	dev      *Device
	handle   driver.Event
	external bool
	closed   atomic.Bool
}

// EventOptions says what event to make. The zero value keeps no time.
type EventOptions struct {
	// Timing makes an event for Since. It costs a little in each record.
	Timing bool
	// BlockingSync lets Synchronize sleep rather than spin.
	BlockingSync bool
	// Interprocess makes an event that another process may open. It has no
	// Timing.
	Interprocess bool
}

// NewEvent makes an event (cuEventCreate). The caller closes it.
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

// WrapEvent makes an Event of another library's CUevent in this device's
// context. The handle stays the other's: Close does not destroy it.
func (d *Device) WrapEvent(handle uintptr) (*Event, error) {
	if handle == 0 {
		return nil, &Error{Call: "cuEventQuery", Code: driver.InvalidHandle, Detail: "the event is 0"}
	}
	return &Event{dev: d, handle: driver.Event(handle), external: true}, nil
}

// Handle is the CUevent, for other libraries in the process.
func (e *Event) Handle() uintptr { return uintptr(e.handle) }

// Record marks where a stream of the event's device is now (cuEventRecord). The
// event then stands for all earlier work of that stream; a second record
// replaces the first.
func (s *Stream) Record(e *Event) error {
	if e.dev != s.dev {
		return fmt.Errorf("an event of %v on a stream of %v: %w", e.dev, s.dev, arrowbuf.ErrDevice)
	}
	return e.withContext(func() error {
		return s.dev.api.EventRecord(e.handle, s.handle)
	})
}

// WaitEvent lets work that is given to the stream from now on wait for the
// event's last record, of this device or another (cuStreamWaitEvent). An event
// that was never recorded is not waited for.
func (s *Stream) WaitEvent(e *Event) error {
	if e.closed.Load() {
		return fmt.Errorf("%v: event: %w", e.dev, ErrClosed)
	}
	return s.withContext(func() error { return s.dev.api.StreamWaitEvent(s.handle, e.handle) })
}

// Done tells whether the work before the last record is done, without waiting
// (cuEventQuery). It is for an event that was never recorded.
func (e *Event) Done() (done bool, err error) {
	err = e.withContext(func() (err error) { done, err = e.dev.api.EventQuery(e.handle); return err })
	return done, err
}

// Synchronize returns when the work before the last record is done
// (cuEventSynchronize).
func (e *Event) Synchronize() error {
	return e.withContext(func() error { return e.dev.api.EventSynchronize(e.handle) })
}

// Since is the time from another event to this one on the device
// (cuEventElapsedTime, which resolves half a microsecond). Both have Timing,
// are recorded and done.
func (e *Event) Since(start *Event) (time.Duration, error) {
	var ms float32
	err := e.withContext(func() (err error) { ms, err = e.dev.api.EventElapsedTime(start.handle, e.handle); return err })
	return time.Duration(float64(ms) * float64(time.Millisecond)), err
}

// Close gives the event back (cuEventDestroy). Waits for it that are under way
// go on. A second Close does nothing.
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
