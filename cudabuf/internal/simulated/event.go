//go:build linux

package simulated

import (
	"slices"
	"time"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// event is a CUevent.
type event struct {
	context *context
	flags   uint32
	last    *record           // the last record or nil; guarded by Driver.order
	shared  interprocessEvent // nil if no other process knows the event
}

// interprocessEvent is an event that several processes record and wait for. The
// caller holds Driver.order.
type interprocessEvent interface {
	// beginRecord starts a record. The caller must call finish when the
	// preceding operations are done.
	beginRecord() (finish func())
	// lastRecord returns the last record of any process, or nil.
	lastRecord() dependency
}

// record is the result of one EventRecord. A waiter waits for the record that
// was the last one at the time of its call.
type record struct {
	position dependency
	when     time.Time // set before position is reached

	capture     *capture // set if recorded in a capture
	captureTips []*node
}

func (d *Driver) EventCreate(flags uint32) (driver.Event, error) {
	const call = "cuEventCreate"
	c, err := d.enterContext(call)
	if err != nil {
		return 0, err
	}
	const all = driver.EventBlockingSync | driver.EventDisableTiming | driver.EventInterprocess
	if flags&^all != 0 {
		return 0, driver.ResultError(call, driver.InvalidValue)
	}
	if flags&driver.EventInterprocess != 0 && flags&driver.EventDisableTiming == 0 {
		return 0, &driver.Error{Call: call, Code: driver.InvalidValue, Detail: "an interprocess event must disable timing"}
	}
	return d.addEvent(&event{context: c, flags: flags}), nil
}

func (d *Driver) addEvent(e *event) driver.Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := driver.Event(d.newHandle())
	d.events[h] = e
	return h
}

// EventDestroy does not affect operations that already wait for the event.
func (d *Driver) EventDestroy(h driver.Event) error {
	const call = "cuEventDestroy"
	if _, err := d.enterEvent(call, h); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.events, h)
	return nil
}

func (d *Driver) EventRecord(h driver.Event, sh driver.Stream) error {
	const call = "cuEventRecord"
	_, s, err := d.enterStream(call, sh)
	if err != nil {
		return err
	}
	e, err := d.lookupEvent(call, h)
	if err != nil {
		return err
	}
	if e.context != s.context {
		return &driver.Error{Call: call, Code: driver.InvalidHandle, Detail: "event and stream belong to different contexts"}
	}
	s.waitForCapacity()
	d.order.Lock()
	defer d.order.Unlock()
	if s.capture != nil {
		if s.capture.invalid {
			return driver.ResultError(call, captureInvalidated)
		}
		e.last = &record{capture: s.capture, captureTips: slices.Clone(s.captureTips)}
		return nil
	}
	r, finish := &record{}, func() {}
	if e.shared != nil {
		finish = e.shared.beginRecord()
	}
	r.position, err = s.submitLocked(call, operation{onDone: func() {
		r.when = time.Now()
		finish()
	}})
	if err != nil {
		finish() // other processes must not wait for this record
		return err
	}
	e.last = r
	return nil
}

// lastRecord returns the last record of the event, or nil. The caller holds
// Driver.order.
func (e *event) lastRecord() *record {
	if e.shared == nil || e.last != nil && e.last.capture != nil {
		return e.last
	}
	if at := e.shared.lastRecord(); at != nil {
		return &record{position: at}
	}
	return nil
}

func (d *Driver) EventQuery(h driver.Event) (done bool, err error) {
	const call = "cuEventQuery"
	e, err := d.enterEvent(call, h)
	if err != nil {
		return false, err
	}
	r, err := d.queryableRecord(call, e)
	if err != nil {
		return false, err
	}
	return r == nil || r.position.done(), nil
}

func (d *Driver) EventSynchronize(h driver.Event) error {
	const call = "cuEventSynchronize"
	e, err := d.enterEvent(call, h)
	if err != nil {
		return err
	}
	r, err := d.queryableRecord(call, e)
	if err != nil || r == nil {
		return err
	}
	r.position.wait()
	return e.context.dev.alive(call)
}

func (d *Driver) EventElapsedTime(start, end driver.Event) (float32, error) {
	const call = "cuEventElapsedTime"
	if _, err := d.enterContext(call); err != nil {
		return 0, err
	}
	var records [2]*record
	for i, h := range [...]driver.Event{start, end} {
		e, err := d.lookupEvent(call, h)
		if err != nil {
			return 0, err
		}
		if e.flags&driver.EventDisableTiming != 0 {
			return 0, &driver.Error{Call: call, Code: driver.InvalidHandle, Detail: "the event has timing disabled"}
		}
		if records[i], err = d.queryableRecord(call, e); err != nil {
			return 0, err
		}
		if records[i] == nil {
			return 0, &driver.Error{Call: call, Code: driver.InvalidHandle, Detail: "the event was never recorded"}
		}
	}
	for _, r := range records {
		if !r.position.done() {
			return 0, driver.ResultError(call, driver.NotReady)
		}
	}
	return float32(records[1].when.Sub(records[0].when).Seconds() * 1000), nil
}

// queryableRecord returns the last record of an event for a query by the host.
// A captured record cannot be queried, and the attempt invalidates the capture.
func (d *Driver) queryableRecord(call string, e *event) (*record, error) {
	d.order.Lock()
	defer d.order.Unlock()
	r := e.lastRecord()
	if r != nil && r.capture != nil {
		r.capture.invalid = true
		return nil, driver.ResultError(call, capturedEvent)
	}
	return r, nil
}

// StreamWaitEvent makes a stream wait for the last record of the event, if the
// event has one. If the record is captured, the stream joins the capture.
func (d *Driver) StreamWaitEvent(sh driver.Stream, h driver.Event) error {
	const call = "cuStreamWaitEvent"
	_, s, err := d.enterStream(call, sh)
	if err != nil {
		return err
	}
	e, err := d.lookupEvent(call, h)
	if err != nil {
		return err
	}
	s.waitForCapacity()
	d.order.Lock()
	defer d.order.Unlock()
	r := e.lastRecord()
	switch {
	case r == nil:
		return nil
	case r.capture != nil:
		return r.capture.join(call, s, r.captureTips)
	case s.capture != nil:
		s.capture.invalid = true
		return &driver.Error{Call: call, Code: captureIsolation, Detail: "the event was recorded outside the capture"}
	}
	_, err = s.submitLocked(call, operation{dependencies: []dependency{r.position}})
	return err
}

// enterEvent begins a call that uses an event.
func (d *Driver) enterEvent(call string, h driver.Event) (*event, error) {
	if _, err := d.enterContext(call); err != nil {
		return nil, err
	}
	return d.lookupEvent(call, h)
}

// lookupEvent returns an event of any context.
func (d *Driver) lookupEvent(call string, h driver.Event) (*event, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, ok := d.events[h]
	if !ok {
		return nil, &driver.Error{Call: call, Code: driver.InvalidHandle, Detail: "no such event"}
	}
	return e, nil
}
