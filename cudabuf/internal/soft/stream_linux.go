package soft

import (
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// stream runs work in order, later, on a goroutine of its own.
type stream struct {
	dev *device

	mu     sync.Mutex // held while sending, so that nothing follows a close
	closed bool
	work   chan func() error

	failure struct {
		sync.Mutex
		err error
	}
}

func newStream(dev *device) *stream {
	s := &stream{dev: dev, work: make(chan func() error, 256)}
	go s.run()
	return s
}

func (s *stream) run() {
	// A fault in a copy or a twin fails that work, not the process.
	debug.SetPanicOnFault(true)
	for work := range s.work {
		if err := guard(work); err != nil {
			s.fail(err)
		}
	}
}

// guard turns a panic of a twin into the error that a GPU would give.
func guard(work func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *driver.Error:
			err = p
		case interface{ Addr() uintptr }:
			err = &driver.Error{Call: "cuLaunchKernel", Code: driver.IllegalAddress, Detail: fmt.Sprintf("fault at %#x", p.Addr())}
		default:
			err = &driver.Error{Call: "cuLaunchKernel", Code: driver.LaunchFailed, Detail: fmt.Sprint("the twin panics: ", p)}
		}
	}()
	return work()
}

func (s *stream) fail(err error) {
	s.failure.Lock()
	defer s.failure.Unlock()
	if s.failure.err == nil {
		s.failure.err = err
	}
	s.dev.lose(err)
}

// issue queues work; CUDA too waits when a queue is full.
func (s *stream) issue(call string, work func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return &driver.Error{Call: call, Code: driver.InvalidHandle, Detail: "the stream is destroyed"}
	}
	s.work <- work
	return nil
}

// synchronize waits for all work issued so far and reports its first failure,
// once.
func (s *stream) synchronize(call string) error {
	done := make(chan struct{})
	if err := s.issue(call, func() error { close(done); return nil }); err != nil {
		return err
	}
	<-done
	s.failure.Lock()
	defer s.failure.Unlock()
	err := s.failure.err
	s.failure.err = nil
	return err
}

// close lets the work that is queued end.
func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.work)
	}
}

func (d *Driver) StreamCreateWithPriority(flags uint32, _ int) (driver.Stream, error) {
	const call = "cuStreamCreateWithPriority"
	dev, err := d.current(call)
	if err != nil {
		return 0, err
	}
	if flags != driver.StreamNonBlocking {
		// A blocking stream waits for the null stream and the other way round.
		return 0, &driver.Error{Call: call, Code: driver.NotSupported, Detail: "the soft driver has non-blocking streams only"}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	h := driver.Stream(d.handle())
	d.streams[h] = newStream(dev)
	return h, nil
}

func (d *Driver) StreamDestroy(h driver.Stream) error {
	const call = "cuStreamDestroy"
	_, s, err := d.stream(call, h)
	if err != nil {
		return err
	}
	if h == 0 {
		return driver.Check(call, driver.InvalidHandle)
	}
	d.mu.Lock()
	delete(d.streams, h)
	d.mu.Unlock()
	s.close()
	return nil
}

func (d *Driver) StreamSynchronize(h driver.Stream) error {
	const call = "cuStreamSynchronize"
	_, s, err := d.stream(call, h)
	if err != nil {
		return err
	}
	return s.synchronize(call)
}

// stream finds a stream of the current context.
func (d *Driver) stream(call string, h driver.Stream) (*device, *stream, error) {
	dev, err := d.current(call)
	if err != nil {
		return nil, nil, err
	}
	if h == 0 {
		return dev, dev.null, nil
	}
	d.mu.Lock()
	s, ok := d.streams[h]
	d.mu.Unlock()
	if !ok || s.dev != dev {
		return nil, nil, &driver.Error{Call: call, Code: driver.InvalidHandle, Detail: "no stream of the current context"}
	}
	return dev, s, nil
}

// synchronize waits for every stream of a device. What they report stays for
// their own StreamSynchronize.
func (d *Driver) synchronize(dev *device) {
	d.mu.Lock()
	streams := []*stream{dev.null}
	for _, s := range d.streams {
		if s.dev == dev {
			streams = append(streams, s)
		}
	}
	d.mu.Unlock()
	for _, s := range streams {
		done := make(chan struct{})
		if s.issue("", func() error { close(done); return nil }) == nil {
			<-done
		}
	}
}
