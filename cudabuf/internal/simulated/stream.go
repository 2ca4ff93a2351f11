//go:build linux

package simulated

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"golang.org/x/sys/unix"
)

// Priorities of streams, as every GPU of today has them.
const (
	leastPriority    = 0
	greatestPriority = -5
)

// maxQueued is how much work a stream takes before the caller waits, as CUDA's too.
const maxQueued = 1024

// stream runs work in order, later, on a goroutine of its own.
type stream struct {
	context  *context
	dev      *device
	handle   driver.Stream
	blocking bool // orders itself against the null stream
	priority int

	// Guarded by Driver.order.
	closed      bool
	capture     *capture // what is given to the stream goes there
	captureTips []*node  // what the next work of the capture comes after

	mu                   sync.Mutex
	changed              sync.Cond
	queue                []operation
	submitted, completed uint64
	draining             bool
	failure              error // the first that nobody was told yet
}

// operation runs when its stream comes to it and the places are reached.
type operation struct {
	dependencies []dependency
	run          func() error
	onDone       func() // called when the work is over, on a lost device too
}

// newStream starts a stream; the caller makes it known.
func newStream(c *context, blocking bool, priority int) *stream {
	s := &stream{context: c, dev: c.dev, blocking: blocking, priority: priority}
	s.changed.L = &s.mu
	go s.run()
	return s
}

func (s *stream) run() {
	// A fault in a copy or a twin fails that work, not the process.
	debug.SetPanicOnFault(true)
	for {
		s.mu.Lock()
		for len(s.queue) == 0 && !s.draining {
			s.changed.Wait()
		}
		if len(s.queue) == 0 {
			s.mu.Unlock()
			return
		}
		w := s.queue[0]
		s.queue[0] = operation{} // an idle stream keeps nothing of it
		s.queue = s.queue[1:]
		s.mu.Unlock()

		for _, m := range w.dependencies {
			m.wait()
		}
		// On a lost device nothing runs any more.
		if w.run != nil && s.dev.lost.Load() == nil {
			if err := recoverFault(w.run); err != nil {
				s.fail(err)
			}
		}
		if w.onDone != nil {
			w.onDone()
		}
		s.mu.Lock()
		s.completed++
		s.changed.Broadcast()
		s.mu.Unlock()
	}
}

// recoverFault turns a panic of a twin into the error that a GPU would give.
func recoverFault(run func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *driver.Error:
			err = p
		case interface{ Addr() uintptr }:
			err = &driver.Error{Call: "cuLaunchKernel", Code: driver.IllegalAddress, Detail: describeFault(p.Addr())}
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

// popFailure reports the first failure, once.
func (s *stream) popFailure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.failure
	s.failure = nil
	return err
}

// submit queues work, or records it where the stream captures.
func (s *stream) submit(call string, run func() error) error {
	s.waitForCapacity()
	d := s.context.driver
	d.order.Lock()
	defer d.order.Unlock()
	_, err := s.submitLocked(call, operation{run: run})
	return err
}

func (s *stream) waitForCapacity() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.submitted-s.completed >= maxQueued {
		s.changed.Wait()
	}
}

// submitLocked is issue with Driver.order held. The mark that it returns stands for the
// work; that of captured work is reached from the start.
func (s *stream) submitLocked(call string, w operation) (streamPosition, error) {
	if s.closed {
		return streamPosition{}, &driver.Error{Call: call, Code: driver.InvalidHandle, Detail: "the stream is destroyed"}
	}
	if s.capture != nil {
		return streamPosition{}, s.capture.record(call, s, w.run)
	}
	legacy, err := s.legacyDependencies(call)
	if err != nil {
		return streamPosition{}, err
	}
	w.dependencies = append(legacy, w.dependencies...)
	return s.enqueue(w), nil
}

// legacyDependencies returns what work of this stream waits for because of the null stream:
// that of the null stream for all blocking streams, theirs for it.
func (s *stream) legacyDependencies(call string) (after []dependency, err error) {
	null := s.context.null
	switch {
	case s == null:
		for b := range s.context.blocking {
			if b.capture != nil {
				b.capture.invalid = true
				return nil, &driver.Error{Call: call, Code: captureImplicit, Detail: "a blocking stream captures"}
			}
			if tail := b.tail(); !tail.done() {
				after = append(after, tail)
			} else if b.closed {
				delete(s.context.blocking, b)
			}
		}
	case s.blocking:
		if tail := null.tail(); !tail.done() {
			after = append(after, tail)
		}
	}
	return after, nil
}

func (s *stream) enqueue(w operation) streamPosition {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, w)
	s.submitted++
	s.changed.Broadcast()
	return streamPosition{s, s.submitted}
}

// synchronize waits for all work issued so far and reports its first failure,
// once.
func (s *stream) synchronize(call string) error {
	marks, err := s.tails(call)
	if err != nil {
		return err
	}
	for _, m := range marks {
		m.wait()
	}
	return s.popFailure()
}

// tails returns what stands for all work issued so far. A stream that
// captures has none to ask for, and the question spoils the capture.
func (s *stream) tails(call string) ([]dependency, error) {
	d := s.context.driver
	d.order.Lock()
	defer d.order.Unlock()
	if s.closed {
		return nil, &driver.Error{Call: call, Code: driver.InvalidHandle, Detail: "the stream is destroyed"}
	}
	if s.capture != nil {
		return nil, s.capture.invalidate(call)
	}
	if s != s.context.null {
		return []dependency{s.tail()}, nil
	}
	after, err := s.legacyDependencies(call)
	return append(after, s.tail()), err
}

// close lets the work that is queued end. The caller holds Driver.order.
func (s *stream) close() {
	if c := s.capture; c != nil {
		c.invalid = true
		if c.origin == s {
			s.context.driver.endCapture(c) // nobody else can
		}
	}
	s.closed = true
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	s.changed.Broadcast()
}

// dependency is one that work comes after.
type dependency interface {
	done() bool
	wait()
}

// streamPosition is a place in a stream, behind some work. The zero mark is reached.
type streamPosition struct {
	stream *stream
	n      uint64
}

// tail is the place behind all work issued so far.
func (s *stream) tail() streamPosition {
	s.mu.Lock()
	defer s.mu.Unlock()
	return streamPosition{s, s.submitted}
}

func (m streamPosition) done() bool {
	if m.stream == nil {
		return true
	}
	m.stream.mu.Lock()
	defer m.stream.mu.Unlock()
	return m.stream.completed >= m.n
}

func (m streamPosition) wait() {
	if m.stream == nil {
		return
	}
	m.stream.mu.Lock()
	defer m.stream.mu.Unlock()
	for m.stream.completed < m.n {
		m.stream.changed.Wait()
	}
}

// StreamCreateWithPriority clamps the priority, as CUDA does.
func (d *Driver) StreamCreateWithPriority(flags uint32, priority int) (driver.Stream, error) {
	const call = "cuStreamCreateWithPriority"
	c, err := d.enterContext(call)
	if err != nil {
		return 0, err
	}
	if flags&^driver.StreamNonBlocking != 0 {
		return 0, driver.Check(call, driver.InvalidValue)
	}
	s := newStream(c, flags == driver.StreamDefault, min(max(priority, greatestPriority), leastPriority))
	s.handle = driver.Stream(d.newHandle())
	d.mu.Lock()
	d.streams[s.handle] = s
	d.mu.Unlock()
	if s.blocking {
		d.order.Lock()
		c.blocking[s] = true
		d.order.Unlock()
	}
	return s.handle, nil
}

// StreamDestroy returns at once: what the stream was given still runs.
func (d *Driver) StreamDestroy(h driver.Stream) error {
	const call = "cuStreamDestroy"
	_, s, err := d.enterStream(call, h)
	if err != nil {
		return err
	}
	if s.handle == 0 {
		return driver.Check(call, driver.InvalidHandle)
	}
	d.mu.Lock()
	delete(d.streams, h)
	d.mu.Unlock()
	d.order.Lock()
	defer d.order.Unlock()
	s.close()
	c := s.context
	c.destroyedStreams = slices.DeleteFunc(append(c.destroyedStreams, s), func(s *stream) bool { return s.tail().done() })
	return nil
}

func (d *Driver) StreamSynchronize(h driver.Stream) error {
	const call = "cuStreamSynchronize"
	_, s, err := d.enterStream(call, h)
	if err != nil {
		return err
	}
	return s.synchronize(call)
}

func (d *Driver) StreamQuery(h driver.Stream) (done bool, err error) {
	const call = "cuStreamQuery"
	_, s, err := d.enterStream(call, h)
	if err != nil {
		return false, err
	}
	marks, err := s.tails(call)
	if err != nil {
		return false, err
	}
	for _, m := range marks {
		if !m.done() {
			return false, nil
		}
	}
	err = s.popFailure()
	return err == nil, err
}

func (d *Driver) StreamGetPriority(h driver.Stream) (int, error) {
	_, s, err := d.enterStream("cuStreamGetPriority", h)
	if err != nil {
		return 0, err
	}
	return s.priority, nil
}

func (d *Driver) StreamGetCtx(h driver.Stream) (driver.Context, error) {
	_, s, err := d.enterStream("cuStreamGetCtx", h)
	if err != nil {
		return 0, err
	}
	return s.context.handle, nil
}

// enterStream finds a stream, of whatever context: copies may be given to another
// one's. The null stream is that of the current context.
func (d *Driver) enterStream(call string, h driver.Stream) (*device, *stream, error) {
	c, err := d.enterContext(call)
	if err != nil {
		return nil, nil, err
	}
	switch h {
	case 0, driver.LegacyStream:
		return c.dev, c.null, nil
	case driver.PerThreadStream:
		return c.dev, c.perThreadStream(unix.Gettid()), nil
	}
	d.mu.Lock()
	s, ok := d.streams[h]
	d.mu.Unlock()
	if !ok {
		return nil, nil, &driver.Error{Call: call, Code: driver.InvalidHandle, Detail: "no stream"}
	}
	return s.dev, s, nil
}

// hostThreads are the threads that run host functions now; they may not call
// the driver.
type hostThreads struct{ ids sync.Map }

func (h *hostThreads) run(f func()) {
	done := make(chan struct{})
	go func() { // a goroutine of its own, so that f may end it
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		id := unix.Gettid()
		h.ids.Store(id, nil)
		defer h.ids.Delete(id)
		f()
	}()
	<-done
}

func (h *hostThreads) contains(id int) bool {
	_, ok := h.ids.Load(id)
	return ok
}

func (d *Driver) LaunchHostFunc(h driver.Stream, f func()) error {
	const call = "cuLaunchHostFunc"
	_, s, err := d.enterStream(call, h)
	if err != nil {
		return err
	}
	if f == nil {
		return driver.Check(call, driver.InvalidValue)
	}
	return s.submit(call, func() error { d.hostThreads.run(f); return nil })
}

// CtxSynchronize waits for every stream of the context. What they report stays
// for their own StreamSynchronize.
func (d *Driver) CtxSynchronize() error {
	const call = "cuCtxSynchronize"
	c, err := d.enterContext(call)
	if err != nil {
		return err
	}
	if err := d.rejectCapturing(call, c); err != nil {
		return err
	}
	d.synchronizeStreams(func(s *stream) bool { return s.context == c })
	return c.dev.alive(call)
}

// synchronizeDevice waits for every stream of a device.
func (d *Driver) synchronizeDevice(dev *device) {
	d.synchronizeStreams(func(s *stream) bool { return s.dev == dev })
}

func (d *Driver) synchronizeStreams(included func(*stream) bool) {
	d.mu.Lock()
	var streams []*stream
	for _, c := range d.contexts {
		if c.alive && included(c.null) {
			d.order.Lock()
			streams = append(streams, c.null)
			for s := range c.blocking { // those of threads, too
				streams = append(streams, s)
			}
			streams = append(streams, c.destroyedStreams...)
			d.order.Unlock()
		}
	}
	for _, s := range d.streams {
		if included(s) {
			streams = append(streams, s)
		}
	}
	d.mu.Unlock()
	drain(streams)
}

// synchronizeAll waits for all devices.
func (d *Driver) synchronizeAll() { d.synchronizeStreams(func(*stream) bool { return true }) }
