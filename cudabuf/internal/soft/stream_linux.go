package soft

import (
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// Priorities of streams, as every GPU of today has them.
const (
	leastPriority    = 0
	greatestPriority = -5
)

// depth is how much work a stream takes before the caller waits, as CUDA's too.
const depth = 1024

// stream runs work in order, later, on a goroutine of its own.
type stream struct {
	context  *context
	dev      *device
	handle   driver.Stream
	blocking bool // orders itself against the null stream
	priority int

	// Guarded by Driver.order.
	closed  bool
	capture *capture // what is given to the stream goes there
	tips    []*node  // what the next work of the capture comes after

	mu           sync.Mutex
	changed      sync.Cond
	queue        []work
	issued, done uint64
	ended        bool
	failure      error // the first that nobody was told yet
}

// work runs when its stream comes to it and the places are reached.
type work struct {
	after []place
	run   func() error
	over  func() // called when the work is over, on a lost device too
}

// newStream starts a stream; the caller makes it known.
func newStream(c *context, blocking bool, priority int) *stream {
	s := &stream{context: c, dev: c.dev, blocking: blocking, priority: priority}
	s.changed.L = &s.mu
	go s.loop()
	return s
}

func (s *stream) loop() {
	// A fault in a copy or a twin fails that work, not the process.
	debug.SetPanicOnFault(true)
	for {
		s.mu.Lock()
		for len(s.queue) == 0 && !s.ended {
			s.changed.Wait()
		}
		if len(s.queue) == 0 {
			s.mu.Unlock()
			return
		}
		w := s.queue[0]
		s.queue[0] = work{} // an idle stream keeps nothing of it
		s.queue = s.queue[1:]
		s.mu.Unlock()

		for _, m := range w.after {
			m.wait()
		}
		// On a lost device nothing runs any more.
		if w.run != nil && s.dev.lost.Load() == nil {
			if err := guard(w.run); err != nil {
				s.fail(err)
			}
		}
		if w.over != nil {
			w.over()
		}
		s.mu.Lock()
		s.done++
		s.changed.Broadcast()
		s.mu.Unlock()
	}
}

// guard turns a panic of a twin into the error that a GPU would give.
func guard(run func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *driver.Error:
			err = p
		case interface{ Addr() uintptr }:
			err = &driver.Error{Call: "cuLaunchKernel", Code: driver.IllegalAddress, Detail: fault(p.Addr())}
		default:
			err = &driver.Error{Call: "cuLaunchKernel", Code: driver.LaunchFailed, Detail: fmt.Sprint("the twin panics: ", p)}
		}
	}()
	return run()
}

func (s *stream) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == nil {
		s.failure = err
	}
	s.dev.lose(err)
}

// takeFailure reports the first failure, once.
func (s *stream) takeFailure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.failure
	s.failure = nil
	return err
}

// issue queues work, or records it where the stream captures.
func (s *stream) issue(call string, run func() error) error {
	s.waitForRoom()
	d := s.context.driver
	d.order.Lock()
	defer d.order.Unlock()
	_, err := s.add(call, work{run: run})
	return err
}

func (s *stream) waitForRoom() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.issued-s.done >= depth {
		s.changed.Wait()
	}
}

// add is issue with Driver.order held. The mark that it returns stands for the
// work; that of captured work is reached from the start.
func (s *stream) add(call string, w work) (mark, error) {
	if s.closed {
		return mark{}, &driver.Error{Call: call, Code: driver.InvalidHandle, Detail: "the stream is destroyed"}
	}
	if s.capture != nil {
		return mark{}, s.capture.add(call, s, w.run)
	}
	legacy, err := s.legacy(call)
	if err != nil {
		return mark{}, err
	}
	w.after = append(legacy, w.after...)
	return s.push(w), nil
}

// legacy returns what work of this stream waits for because of the null stream:
// that of the null stream for all blocking streams, theirs for it.
func (s *stream) legacy(call string) (after []place, err error) {
	null := s.context.null
	switch {
	case s == null:
		for b := range s.context.blocking {
			if b.capture != nil {
				b.capture.invalid = true
				return nil, &driver.Error{Call: call, Code: captureImplicit, Detail: "a blocking stream captures"}
			}
			if tail := b.tail(); !tail.reached() {
				after = append(after, tail)
			} else if b.closed {
				delete(s.context.blocking, b)
			}
		}
	case s.blocking:
		if tail := null.tail(); !tail.reached() {
			after = append(after, tail)
		}
	}
	return after, nil
}

func (s *stream) push(w work) mark {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, w)
	s.issued++
	s.changed.Broadcast()
	return mark{s, s.issued}
}

// synchronize waits for all work issued so far and reports its first failure,
// once.
func (s *stream) synchronize(call string) error {
	marks, err := s.pending(call)
	if err != nil {
		return err
	}
	for _, m := range marks {
		m.wait()
	}
	return s.takeFailure()
}

// pending returns what stands for all work issued so far. A stream that
// captures has none to ask for, and the question spoils the capture.
func (s *stream) pending(call string) ([]place, error) {
	d := s.context.driver
	d.order.Lock()
	defer d.order.Unlock()
	if s.closed {
		return nil, &driver.Error{Call: call, Code: driver.InvalidHandle, Detail: "the stream is destroyed"}
	}
	if s.capture != nil {
		return nil, s.capture.forbid(call)
	}
	if s != s.context.null {
		return []place{s.tail()}, nil
	}
	after, err := s.legacy(call)
	return append(after, s.tail()), err
}

// end lets the work that is queued end. The caller holds Driver.order.
func (s *stream) end() {
	if c := s.capture; c != nil {
		c.invalid = true
		if c.origin == s {
			s.context.driver.endCapture(c) // nobody else can
		}
	}
	s.closed = true
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.changed.Broadcast()
}
