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

// use is one allocation that an operation reads or writes.
type use struct {
	memory *allocation
	how    access
}

// issue gives work to the stream, after what it must wait for: the uses are
// ordered against those of other streams. It does not wait for the work.
//
// While the uses are locked no memory goes that is still there: who releases it
// asks for its streams, and so waits for the lock and finds this one among them.
// Memory that is gone is arrowbuf.ErrReleased.
func (s *Stream) issue(uses []use, work func(driver.Stream) error) error {
	if s.closed.Load() {
		return fmt.Errorf("%v: stream: %w", s.dev, ErrClosed)
	}
	if s.capture != nil {
		return s.capture.issue(s, uses, work)
	}
	if s.dev.contextless.Load() && s.handle > driver.PerThreadStream {
		if done, err := s.issueAtOnce(uses, work); done {
			return err
		}
	}
	if err := s.dev.enter(); err != nil {
		return err
	}
	return s.dev.leave(s.queue.issue(uses, work))
}

// newestWithContext is the last CUDA version of which it is not known that work
// for a stream needs no current context: the driver finds the stream's own.
// Drivers of 13.0 were seen to do so.
const newestWithContext = 12090

// issueAtOnce is issue where there is nothing to wait for, by a driver that
// needs no current context: the thread is left as it is. Where that does not
// do, it does nothing, and answers false.
func (q *queue) issueAtOnce(uses []use, work func(driver.Stream) error) (done bool, err error) {
	d := q.dev
	if err := d.usable(); err != nil {
		return true, err
	}
	uses = inOrder(uses)
	settled := true
	for _, u := range uses {
		u.memory.uses.mu.Lock()
		settled = settled && u.memory.uses.settled(q, u.how) && u.memory.refs.Load() > 0
	}
	if settled {
		err = work(q.handle)
	}
	for _, u := range uses {
		u.memory.uses.mu.Unlock()
	}
	if err == nil {
		return settled, nil
	}
	if wantsContext(err) {
		d.contextless.Store(false)
		return false, nil
	}
	return true, d.named(err)
}

// wantsContext tells whether a call may have failed for want of its context.
func wantsContext(err error) bool {
	var call *Error
	return errors.As(err, &call) && (call.Code == driver.InvalidContext || call.Code == driver.InvalidHandle)
}

// run does work on a queue of its own and waits until it is done. It waits too
// when issuing fails half-way, since what was issued still runs.
func (d *Device) run(uses []use, work func(driver.Stream) error) error {
	q, err := d.queues.lend()
	if err != nil {
		return err
	}
	defer d.queues.giveBack(q)
	if err := d.enter(); err != nil {
		return err
	}
	err = q.issue(uses, work)
	if done := d.api.StreamSynchronize(q.handle); err == nil {
		err = done
	}
	for _, u := range uses {
		u.memory.uses.end(q)
	}
	return d.leave(err)
}

// issue orders the uses, does the work and holds all of them until it is
// issued. The caller has entered the device.
func (q *queue) issue(uses []use, work func(driver.Stream) error) error {
	uses = inOrder(uses)
	for _, u := range uses {
		u.memory.uses.mu.Lock()
	}
	var err error
	for _, u := range uses {
		if err == nil && u.memory.refs.Load() == 0 {
			err = arrowbuf.ErrReleased
		}
		if err == nil {
			err = u.memory.uses.begin(q, u.how)
		}
	}
	if err == nil {
		err = work(q.handle)
	}
	for _, u := range uses {
		u.memory.uses.mu.Unlock()
	}
	return err
}

// inOrder sorts uses, so that two operations lock the allocations that they
// share in the same order, and leaves one of each, a write where one writes.
func inOrder(uses []use) []use {
	if len(uses) > few {
		slices.SortFunc(uses, func(a, b use) int { return cmp.Compare(a.memory.id, b.memory.id) })
	}
	last := 0
	for i := 1; i < len(uses); i++ {
		at, u := last+1, uses[i]
		for at > 0 && uses[at-1].memory.id > u.memory.id {
			at--
		}
		if at > 0 && uses[at-1].memory == u.memory {
			uses[at-1].how = uses[at-1].how || u.how
			continue
		}
		last++
		for j := last; j > at; j-- {
			uses[j] = uses[j-1]
		}
		uses[at] = u
	}
	return uses[:min(last+1, len(uses))]
}

// few are so many that putting each in its place takes less than sorting them.
const few = 16

// give runs work on the stream, or where that is nil now.
func (d *Device) give(s *Stream, uses []use, work func(driver.Stream) error) error {
	if s == nil {
		return d.run(uses, work)
	}
	if err := s.on(d); err != nil {
		return err
	}
	return s.issue(uses, work)
}

// on returns an error unless the stream is one of the device's.
func (s *Stream) on(d *Device) error {
	if s.dev != d {
		return fmt.Errorf("a stream of %v for memory of %v: %w", s.dev, d, arrowbuf.ErrDevice)
	}
	return nil
}

// access is what an operation does with memory.
type access bool

const (
	reads  access = false
	writes access = true
)

// uses remembers which streams have used an allocation, so that work on another
// stream can wait for theirs. Nothing is paid while one stream uses it: events
// are recorded only when a second one comes, and then, so they cover all that
// the first was given until that moment.
//
// Reads wait for the last write; a write waits for the last write and for every
// read since. A stream among the readers has waited for the writer already.
type uses struct {
	mu      sync.Mutex
	writer  *queue
	readers []*queue
}

// begin lets s wait for whom it must, and notes its use. The caller holds mu
// from here until the work is issued: who comes next then records its event
// behind that work.
func (u *uses) begin(s *queue, a access) error {
	if u.writer == s && len(u.readers) == 0 {
		return nil
	}
	waited := false
	for _, r := range u.readers {
		if r == s {
			waited = true
		} else if a == writes {
			if err := s.waitFor(r); err != nil {
				return err
			}
		}
	}
	if w := u.writer; w != nil && w != s && !waited {
		if err := s.waitFor(w); err != nil {
			return err
		}
	}
	switch {
	case a == writes:
		u.writer, u.readers = s, u.readers[:0]
	case !waited && u.writer != s:
		u.readers = append(u.readers, s)
	}
	return nil
}

// settled tells whether begin would do nothing.
func (u *uses) settled(q *queue, a access) bool {
	if u.writer == q {
		return a == reads || len(u.readers) == 0
	}
	return a == reads && slices.Contains(u.readers, q)
}

// end forgets a stream whose work is known to be done.
func (u *uses) end(s *queue) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.writer == s {
		u.writer = nil
	}
	for i, r := range u.readers {
		if r == s {
			u.readers = append(u.readers[:i], u.readers[i+1:]...)
			break
		}
	}
}

// pending are the streams that may still be using the memory.
func (u *uses) pending() []*queue {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.writer == nil && len(u.readers) == 0 {
		return nil
	}
	var streams []*queue
	if u.writer != nil {
		streams = append(streams, u.writer)
	}
	return append(streams, u.readers...)
}

// waitFor lets q wait on the device for what other has been given until now.
// The caller has entered q's device.
func (q *queue) waitFor(other *queue) error {
	if other == q || other.ended() {
		return nil
	}
	api := q.dev.api
	other.mu.Lock()
	defer other.mu.Unlock()
	if other.dev.context != q.dev.context {
		if err := api.CtxSetCurrent(other.dev.context); err != nil {
			return err
		}
	}
	err := other.recordMark()
	if other.dev.context != q.dev.context {
		if back := api.CtxSetCurrent(q.dev.context); err == nil {
			err = back
		}
	}
	if err != nil {
		return err
	}
	// The wait is for this record, whatever is recorded in the mark later.
	return api.StreamWaitEvent(q.handle, other.mark)
}

// recordMark records the queue's mark in its own context. The caller holds mu.
func (q *queue) recordMark() (err error) {
	if q.mark == 0 {
		if q.mark, err = q.dev.api.EventCreate(driver.EventDisableTiming); err != nil {
			return err
		}
	}
	return q.dev.api.EventRecord(q.mark, q.handle)
}
