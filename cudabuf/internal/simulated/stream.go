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

// Priorities of streams, equal to those of present GPUs.
const (
	leastPriority    = 0
	greatestPriority = -5
)

// maxQueued is the number of operations that a stream queues before the caller
// waits. CUDA has the same limit.
const maxQueued = 1024

// stream runs operations in order on its own goroutine.
type stream struct {
	context  *context
	dev      *device
	handle   driver.Stream
	blocking bool // synchronizes with the null stream
	priority int

	// Guarded by Driver.order.
	closed      bool
	capture     *capture // operations are recorded here if not nil
	captureTips []*node  // dependencies of the next captured operation

	mu                   sync.Mutex
	changed              sync.Cond
	queue                []operation
	submitted, completed uint64
	draining             bool
	failure              error // the first error that was not yet reported
}

// operation runs when it is first in the queue of its stream and its
// dependencies are done.
type operation struct {
	dependencies []dependency
	run          func() error
	onDone       func() // called after run, also on a lost device
}

// newStream starts a stream. The caller registers it with the driver.
func newStream(c *context, blocking bool, priority int) *stream {
	s := &stream{context: c, dev: c.dev, blocking: blocking, priority: priority}
	s.changed.L = &s.mu
	go s.run()
	return s
}

func (s *stream) run() {
	// A fault in a copy or a host kernel fails the operation, not the process.
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
		op := s.queue[0]
		s.queue[0] = operation{} // an idle stream must not keep memory alive
		s.queue = s.queue[1:]
		s.mu.Unlock()

		for _, dependency := range op.dependencies {
			dependency.wait()
		}
		// A lost device runs nothing.
		if op.run != nil && s.dev.lost.Load() == nil {
			if err := recoverFault(op.run); err != nil {
				s.fail(err)
			}
		}
		if op.onDone != nil {
			op.onDone()
		}
		s.mu.Lock()
		s.completed++
		s.changed.Broadcast()
		s.mu.Unlock()
	}
}

// recoverFault turns a panic of a host kernel into the error that a GPU would
// report.
func recoverFault(run func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *driver.Error:
			err = p
		case interface{ Addr() uintptr }:
			err = &driver.Error{Call: "cuLaunchKernel", Code: driver.IllegalAddress, Detail: describeFault(p.Addr())}
		default:
			err = &driver.Error{Call: "cuLaunchKernel", Code: driver.LaunchFailed, Detail: fmt.Sprint("the host kernel panicked: ", p)}
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

// popFailure returns the first failure and forgets it.
func (s *stream) popFailure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.failure
	s.failure = nil
	return err
}

// submit enqueues an operation, or records it if the stream captures.
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

// submitLocked is submit with Driver.order held. It returns the position of the
// operation. The position of a captured operation is already reached.
func (s *stream) submitLocked(call string, op operation) (streamPosition, error) {
	if s.closed {
		return streamPosition{}, &driver.Error{Call: call, Code: driver.InvalidHandle, Detail: "the stream is destroyed"}
	}
	if s.capture != nil {
		return streamPosition{}, s.capture.record(call, s, op.run)
	}
	legacy, err := s.legacyDependencies(call)
	if err != nil {
		return streamPosition{}, err
	}
	op.dependencies = append(legacy, op.dependencies...)
	return s.enqueue(op), nil
}

// legacyDependencies returns the positions that the next operation must wait
// for because of the null stream. The null stream waits for all blocking
// streams, and a blocking stream waits for the null stream.
func (s *stream) legacyDependencies(call string) (dependencies []dependency, err error) {
	null := s.context.null
	switch {
	case s == null:
		for other := range s.context.blocking {
			if other.capture != nil {
				other.capture.invalid = true
				return nil, &driver.Error{Call: call, Code: captureImplicit, Detail: "a blocking stream captures"}
			}
			if tail := other.tail(); !tail.done() {
				dependencies = append(dependencies, tail)
			} else if other.closed {
				delete(s.context.blocking, other)
			}
		}
	case s.blocking:
		if tail := null.tail(); !tail.done() {
			dependencies = append(dependencies, tail)
		}
	}
	return dependencies, nil
}

func (s *stream) enqueue(op operation) streamPosition {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, op)
	s.submitted++
	s.changed.Broadcast()
	return streamPosition{s, s.submitted}
}

// synchronize waits for all submitted operations and returns their first
// failure once.
func (s *stream) synchronize(call string) error {
	tails, err := s.tails(call)
	if err != nil {
		return err
	}
	for _, tail := range tails {
		tail.wait()
	}
	return s.popFailure()
}

// tails returns the positions that are reached when all submitted operations
// are done. Calling it on a stream that captures invalidates the capture.
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
	dependencies, err := s.legacyDependencies(call)
	return append(dependencies, s.tail()), err
}

// close ends the stream after its queued operations. The caller holds
// Driver.order.
func (s *stream) close() {
	if c := s.capture; c != nil {
		c.invalid = true
		if c.origin == s {
			s.context.driver.endCapture(c) // no other stream can end it
		}
	}
	s.closed = true
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	s.changed.Broadcast()
}

// dependency is a condition that an operation waits for.
type dependency interface {
	done() bool
	wait()
}

// streamPosition is the end of the n-th operation of a stream. The zero
// position is reached.
type streamPosition struct {
	stream *stream
	n      uint64
}

// tail returns the position after all submitted operations.
func (s *stream) tail() streamPosition {
	s.mu.Lock()
	defer s.mu.Unlock()
	return streamPosition{s, s.submitted}
}

func (p streamPosition) done() bool {
	if p.stream == nil {
		return true
	}
	p.stream.mu.Lock()
	defer p.stream.mu.Unlock()
	return p.stream.completed >= p.n
}

func (p streamPosition) wait() {
	if p.stream == nil {
		return
	}
	p.stream.mu.Lock()
	defer p.stream.mu.Unlock()
	for p.stream.completed < p.n {
		p.stream.changed.Wait()
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
		return 0, driver.ResultError(call, driver.InvalidValue)
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

// StreamDestroy returns at once. Submitted operations still run.
func (d *Driver) StreamDestroy(h driver.Stream) error {
	const call = "cuStreamDestroy"
	_, s, err := d.enterStream(call, h)
	if err != nil {
		return err
	}
	if s.handle == 0 {
		return driver.ResultError(call, driver.InvalidHandle)
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
	tails, err := s.tails(call)
	if err != nil {
		return false, err
	}
	for _, tail := range tails {
		if !tail.done() {
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

// enterStream begins a call that uses a stream, which may belong to any
// context. Handle 0 is the null stream of the current context.
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
		return nil, nil, &driver.Error{Call: call, Code: driver.InvalidHandle, Detail: "no such stream"}
	}
	return s.dev, s, nil
}

// hostThreads holds the ids of the threads that currently run host functions.
// These must not call the driver.
type hostThreads struct{ ids sync.Map }

func (h *hostThreads) run(f func()) {
	done := make(chan struct{})
	go func() { // on a separate goroutine, which f may end by runtime.Goexit
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
		return driver.ResultError(call, driver.InvalidValue)
	}
	return s.submit(call, func() error { d.hostThreads.run(f); return nil })
}

// CtxSynchronize waits for every stream of the context. Failures are reported
// by the synchronization of their own stream.
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

// synchronizeStreams waits for the streams that included reports.
func (d *Driver) synchronizeStreams(included func(*stream) bool) {
	d.mu.Lock()
	var streams []*stream
	for _, c := range d.contexts {
		if c.alive && included(c.null) {
			d.order.Lock()
			streams = append(streams, c.null)
			for s := range c.blocking { // includes per-thread streams
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

// synchronizeAll waits for every stream of every device.
func (d *Driver) synchronizeAll() { d.synchronizeStreams(func(*stream) bool { return true }) }
