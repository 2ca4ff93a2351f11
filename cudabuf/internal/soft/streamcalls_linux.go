package soft

import (
	"slices"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"golang.org/x/sys/unix"
)

// StreamCreateWithPriority clamps the priority, as CUDA does.
func (d *Driver) StreamCreateWithPriority(flags uint32, priority int) (driver.Stream, error) {
	const call = "cuStreamCreateWithPriority"
	c, err := d.context(call)
	if err != nil {
		return 0, err
	}
	if flags&^driver.StreamNonBlocking != 0 {
		return 0, driver.Check(call, driver.InvalidValue)
	}
	s := newStream(c, flags == driver.StreamDefault, min(max(priority, greatestPriority), leastPriority))
	s.handle = driver.Stream(d.handle())
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
	_, s, err := d.stream(call, h)
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
	s.end()
	c := s.context
	c.ended = slices.DeleteFunc(append(c.ended, s), func(s *stream) bool { return s.tail().reached() })
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

func (d *Driver) StreamQuery(h driver.Stream) (done bool, err error) {
	const call = "cuStreamQuery"
	_, s, err := d.stream(call, h)
	if err != nil {
		return false, err
	}
	marks, err := s.pending(call)
	if err != nil {
		return false, err
	}
	for _, m := range marks {
		if !m.reached() {
			return false, nil
		}
	}
	err = s.takeFailure()
	return err == nil, err
}

func (d *Driver) StreamGetPriority(h driver.Stream) (int, error) {
	_, s, err := d.stream("cuStreamGetPriority", h)
	if err != nil {
		return 0, err
	}
	return s.priority, nil
}

func (d *Driver) StreamGetCtx(h driver.Stream) (driver.Context, error) {
	_, s, err := d.stream("cuStreamGetCtx", h)
	if err != nil {
		return 0, err
	}
	return s.context.handle, nil
}

// stream finds a stream, of whatever context: copies may be given to another
// one's. The null stream is that of the current context.
func (d *Driver) stream(call string, h driver.Stream) (*device, *stream, error) {
	c, err := d.context(call)
	if err != nil {
		return nil, nil, err
	}
	switch h {
	case 0, driver.LegacyStream:
		return c.dev, c.null, nil
	case driver.PerThreadStream:
		return c.dev, c.ofThread(unix.Gettid()), nil
	}
	d.mu.Lock()
	s, ok := d.streams[h]
	d.mu.Unlock()
	if !ok {
		return nil, nil, &driver.Error{Call: call, Code: driver.InvalidHandle, Detail: "no stream"}
	}
	return s.dev, s, nil
}
