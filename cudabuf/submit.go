package cudabuf

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// All work for a GPU is enqueued here. A copy or a launch lists the allocations
// that it accesses and passes a function that makes the driver calls:
//
//  1. Device.submit enqueues on the caller's stream, or on an internal one.
//  2. Stream.submit sets the context of the thread.
//  3. cudaStream.submit locks the allocations and lets the stream wait for other
//     streams that access them. Then it makes the driver calls and unlocks.
//  4. Each allocation's accessTracker decides which streams to wait for.
//  5. cudaStream.waitFor makes one stream wait for another by an event.

// accessMode says whether an operation writes memory or only reads it.
type accessMode bool

const (
	reads  accessMode = false
	writes accessMode = true
)

// access is one allocation that an operation reads or writes.
type access struct {
	memory *allocation
	mode   accessMode
}

// submit enqueues work on a stream of the device. If s is nil, it enqueues on an
// internal stream and waits until the work is done. enqueue makes the driver
// calls; it may run more than once if the first run fails.
func (d *Device) submit(s *Stream, accesses []access, enqueue func(driver.Stream) error) error {
	if s == nil {
		return d.submitAndWait(accesses, enqueue)
	}
	if err := s.checkDevice(d); err != nil {
		return err
	}
	return s.submit(accesses, enqueue)
}

// checkStream returns ErrNil for a nil stream, which a caller passed to an operation.
func checkStream(operation string, s *Stream) error {
	if s == nil {
		return fmt.Errorf("cudabuf.%s: nil stream: %w", operation, ErrNil)
	}
	return nil
}

// checkDevice returns arrowbuf.ErrDevice unless the stream belongs to the device.
func (s *Stream) checkDevice(d *Device) error {
	if s == nil {
		return fmt.Errorf("nil stream, want one of %v: %w", d, ErrNil)
	}
	if s.dev != d {
		return fmt.Errorf("stream on the wrong device: got %v, want %v: %w", s.dev, d, arrowbuf.ErrDevice)
	}
	return nil
}

// submitAndWait enqueues work on an internal stream and waits until it is done.
// It also waits if enqueueing fails halfway, since the first half still runs.
func (d *Device) submitAndWait(accesses []access, enqueue func(driver.Stream) error) error {
	cs, err := d.streams.getInternal()
	if err != nil {
		return err
	}
	defer d.streams.putInternal(cs)
	if err := d.bindContext(); err != nil {
		return err
	}
	err = cs.submit(accesses, enqueue)
	if done := d.api.StreamSynchronize(cs.handle); err == nil {
		err = done
	}
	for _, a := range accesses {
		a.memory.accesses.forget(cs)
	}
	return d.unbindContext(err)
}

// submit enqueues work on the stream, ordered against the other streams that
// access the same memory. It does not wait for the work. It returns
// arrowbuf.ErrReleased if an allocation has been freed.
func (s *Stream) submit(accesses []access, enqueue func(driver.Stream) error) error {
	if s.closed.Load() {
		return fmt.Errorf("%v: stream: %w", s.dev, ErrClosed)
	}
	if s.capture != nil {
		return s.capture.record(s, accesses, enqueue)
	}
	if s.dev.submitsWithoutContext.Load() && s.handle > driver.PerThreadStream {
		if done, err := s.trySubmitWithoutContext(accesses, enqueue); done {
			return err
		}
	}
	if err := s.dev.bindContext(); err != nil {
		return err
	}
	return s.dev.unbindContext(s.cudaStream.submit(accesses, enqueue))
}

// newestNeedingContext is the newest CUDA version for which work on a stream may
// need a current context. Newer drivers find the stream's own context; this was
// observed with driver 13.0.
const newestNeedingContext = 12090

// trySubmitWithoutContext is the fast path of submit: no other stream accesses
// the memory, and the driver needs no current context. It leaves the thread as it
// is. It returns false, and has enqueued nothing, if the fast path does not apply.
func (cs *cudaStream) trySubmitWithoutContext(accesses []access, enqueue func(driver.Stream) error) (done bool, err error) {
	d := cs.dev
	if err := d.checkUsable(); err != nil {
		return true, err
	}
	accesses = sortAndMerge(accesses)
	applies := true
	for _, a := range accesses {
		a.memory.accesses.mu.Lock()
		applies = applies && a.memory.accesses.needsNoWait(cs, a.mode) && a.memory.refs.Load() > 0
	}
	if applies {
		err = enqueue(cs.handle)
	}
	for _, a := range accesses {
		a.memory.accesses.mu.Unlock()
	}
	if err == nil {
		return applies, nil
	}
	if mayLackContext(err) {
		d.submitsWithoutContext.Store(false)
		return false, nil
	}
	return true, d.annotate(err)
}

// mayLackContext reports whether a call may have failed because no context was
// current.
func mayLackContext(err error) bool {
	var call *driver.Error
	return errors.As(err, &call) && (call.Code == driver.InvalidContext || call.Code == driver.InvalidHandle)
}

// submit orders the accesses and enqueues the work. The caller has bound the
// device's context.
//
// The allocations stay locked until the work is enqueued. Another stream that
// waits for this one then records its event after the work. A goroutine that
// releases the memory meanwhile waits for the lock and finds this stream pending.
func (cs *cudaStream) submit(accesses []access, enqueue func(driver.Stream) error) error {
	accesses = sortAndMerge(accesses)
	for _, a := range accesses {
		a.memory.accesses.mu.Lock()
	}
	var err error
	for _, a := range accesses {
		if err == nil && a.memory.refs.Load() == 0 {
			err = arrowbuf.ErrReleased
		}
		if err == nil {
			err = a.memory.accesses.waitAndRecord(cs, a.mode)
		}
	}
	if err == nil {
		err = enqueue(cs.handle)
	}
	for _, a := range accesses {
		a.memory.accesses.mu.Unlock()
	}
	return err
}

// insertionSortMax: up to this length, insertion sort beats slices.SortFunc.
const insertionSortMax = 16

// sortAndMerge sorts accesses by allocation and merges those of one allocation,
// in place. A merged access writes if any of them writes. All operations thereby
// lock the allocations that they share in the same order.
func sortAndMerge(accesses []access) []access {
	if len(accesses) > insertionSortMax {
		slices.SortFunc(accesses, func(a, b access) int { return cmp.Compare(a.memory.id, b.memory.id) })
	}
	last := 0
	for i := 1; i < len(accesses); i++ {
		at, a := last+1, accesses[i]
		for at > 0 && accesses[at-1].memory.id > a.memory.id {
			at--
		}
		if at > 0 && accesses[at-1].memory == a.memory {
			accesses[at-1].mode = accesses[at-1].mode || a.mode
			continue
		}
		last++
		for j := last; j > at; j-- {
			accesses[j] = accesses[j-1]
		}
		accesses[at] = a
	}
	return accesses[:min(last+1, len(accesses))]
}

// accessTracker remembers which streams have accessed an allocation, so that
// work on another stream can wait for theirs.
//
// A read waits for the last write. A write waits for the last write and for all
// reads since. Each stream among the readers has already waited for the writer.
//
// Memory that one stream alone uses costs nothing. An event is recorded only when
// a second stream has to wait. It then covers all earlier work of the first stream.
type accessTracker struct {
	mu      sync.Mutex
	writer  *cudaStream
	readers []*cudaStream
}

// waitAndRecord lets cs wait for the streams that its access depends on, and
// records the access. The caller holds mu until the work is enqueued.
func (t *accessTracker) waitAndRecord(cs *cudaStream, mode accessMode) error {
	if t.writer == cs && len(t.readers) == 0 {
		return nil
	}
	waited := false
	for _, reader := range t.readers {
		if reader == cs {
			waited = true
		} else if mode == writes {
			if err := cs.waitFor(reader); err != nil {
				return err
			}
		}
	}
	if w := t.writer; w != nil && w != cs && !waited {
		if err := cs.waitFor(w); err != nil {
			return err
		}
	}
	switch {
	case mode == writes:
		t.writer, t.readers = cs, t.readers[:0]
	case !waited && t.writer != cs:
		t.readers = append(t.readers, cs)
	}
	return nil
}

// needsNoWait reports whether waitAndRecord would do nothing. The caller holds mu.
func (t *accessTracker) needsNoWait(cs *cudaStream, mode accessMode) bool {
	if t.writer == cs {
		return mode == reads || len(t.readers) == 0
	}
	return mode == reads && slices.Contains(t.readers, cs)
}

// forget removes a stream whose work is known to be done.
func (t *accessTracker) forget(cs *cudaStream) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.writer == cs {
		t.writer = nil
	}
	for i, reader := range t.readers {
		if reader == cs {
			t.readers = append(t.readers[:i], t.readers[i+1:]...)
			break
		}
	}
}

// pending returns the streams that may still use the memory.
func (t *accessTracker) pending() []*cudaStream {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.writer == nil && len(t.readers) == 0 {
		return nil
	}
	var streams []*cudaStream
	if t.writer != nil {
		streams = append(streams, t.writer)
	}
	return append(streams, t.readers...)
}

// waitFor lets later work of cs wait on the device for all earlier work of other.
// The caller has bound the context of cs's device.
func (cs *cudaStream) waitFor(other *cudaStream) error {
	if other == cs || other.isRetired() {
		return nil
	}
	api := cs.dev.api
	other.mu.Lock()
	defer other.mu.Unlock()
	if other.dev.context != cs.dev.context {
		if err := api.CtxSetCurrent(other.dev.context); err != nil {
			return err
		}
	}
	err := other.recordEvent()
	if other.dev.context != cs.dev.context {
		if restored := api.CtxSetCurrent(cs.dev.context); err == nil {
			err = restored
		}
	}
	if err != nil {
		return err
	}
	// The wait is for this record, even if the event is recorded again later.
	return api.StreamWaitEvent(cs.handle, other.event)
}

// recordEvent records the stream's event in the stream's own context. The caller
// holds mu.
func (cs *cudaStream) recordEvent() (err error) {
	if cs.event == 0 {
		if cs.event, err = cs.dev.api.EventCreate(driver.EventDisableTiming); err != nil {
			return err
		}
	}
	return cs.dev.api.EventRecord(cs.event, cs.handle)
}
