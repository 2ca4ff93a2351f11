package soft

import "github.com/quiver-gpu/quiver/cudabuf/internal/driver"

// context is what streams, events and modules belong to. Memory belongs to the
// device: every context of it reaches it.
type context struct {
	driver *Driver
	dev    *device
	handle driver.Context

	// Guarded by Driver.mu.
	flags uint32
	alive bool
	peers map[*context]bool // whose memory kernels reach

	// null and blocking are the streams that order themselves against each
	// other; guarded by Driver.order, but for null itself, as those below.
	null     *stream
	blocking map[*stream]bool
	threads  map[int]*stream // CU_STREAM_PER_THREAD, by thread id
	ended    []*stream       // destroyed, and not known to be done
}

// begin makes a context live, with nothing in it.
func (c *context) begin() {
	c.alive = true
	c.peers = map[*context]bool{}
	c.blocking = map[*stream]bool{}
	c.threads = map[int]*stream{}
	c.ended = nil
	c.null = newStream(c, false, leastPriority)
}

// ofThread returns the stream that a thread has of its own.
func (c *context) ofThread(id int) *stream {
	c.driver.order.Lock()
	defer c.driver.order.Unlock()
	s, ok := c.threads[id]
	if !ok {
		s = newStream(c, true, leastPriority)
		c.threads[id], c.blocking[s] = s, true
	}
	return s
}

// end ends a context and all that is in it, and returns the streams whose work
// is to be waited for. The caller holds Driver.mu.
func (d *Driver) end(c *context) []*stream {
	c.alive = false
	streams := []*stream{c.null}
	for h, s := range d.streams {
		if s.context == c {
			streams = append(streams, s)
			delete(d.streams, h)
		}
	}
	for h, e := range d.events {
		if e.context == c {
			delete(d.events, h)
		}
	}
	for h, m := range d.modules {
		if m.context == c {
			d.unload(h, m)
		}
	}
	for _, other := range d.contexts {
		delete(other.peers, c)
		d.link(other.dev)
	}
	d.link(c.dev)
	d.order.Lock()
	defer d.order.Unlock()
	for _, s := range c.threads {
		streams = append(streams, s)
	}
	for _, s := range streams {
		s.end()
	}
	return append(streams, c.ended...)
}

// endAll ends the contexts of a device that nobody destroyed.
func (d *Driver) endAll(dev *device) {
	d.mu.Lock()
	var streams []*stream
	for _, c := range d.contexts {
		if c.dev == dev && c.alive {
			streams = append(streams, d.end(c)...)
		}
	}
	d.mu.Unlock()
	drain(streams)
}

func drain(streams []*stream) {
	for _, s := range streams {
		s.tail().wait()
	}
}

// abandon frees what ends with a context, as MemFree does: other contexts of the
// device may be using it.
func (d *Driver) abandon(dev *device, left []*block) {
	if len(left) > 0 {
		d.synchronize(dev)
		dev.arena.abandon(left)
	}
}

// find finds a context that lives. The caller holds mu.
func (d *Driver) find(call string, h driver.Context) (*context, error) {
	c, ok := d.contexts[h]
	if !ok || !c.alive {
		return nil, driver.Check(call, driver.InvalidContext)
	}
	return c, nil
}

func (d *Driver) CtxCreate(flags uint32, h driver.Device) (driver.Context, error) {
	const call = "cuCtxCreate"
	dev, err := d.query(call, h)
	if err != nil {
		return 0, err
	}
	if !schedules(flags) {
		return 0, driver.Check(call, driver.InvalidValue)
	}
	if err := dev.alive(call); err != nil {
		return 0, err
	}
	c := &context{driver: d, dev: dev, handle: driver.Context(d.handle()), flags: flags}
	c.begin()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.contexts[c.handle] = c
	d.push(c)
	return c.handle, nil
}

// CtxDestroy waits for what runs in the context. The thread has afterwards the
// context current that it had before CtxCreate.
func (d *Driver) CtxDestroy(h driver.Context) error {
	const call = "cuCtxDestroy"
	if err := d.enter(call); err != nil {
		return err
	}
	d.mu.Lock()
	c, err := d.find(call, h)
	if err == nil && c == c.dev.primary {
		err = &driver.Error{Call: call, Code: driver.InvalidContext, Detail: "a primary context is released, not destroyed"}
	}
	if err != nil {
		d.mu.Unlock()
		return err
	}
	streams, left := d.end(c), c.dev.arena.owned(c)
	delete(d.contexts, h)
	if d.top() == c {
		d.pop()
	}
	d.mu.Unlock()
	drain(streams)
	d.abandon(c.dev, left)
	return nil
}

func (d *Driver) CtxGetDevice() (driver.Device, error) {
	dev, err := d.current("cuCtxGetDevice")
	if err != nil {
		return 0, err
	}
	return driver.Device(dev.ordinal), nil
}

func (d *Driver) CtxGetStreamPriorityRange() (least, greatest int, err error) {
	_, err = d.context("cuCtxGetStreamPriorityRange")
	return leastPriority, greatestPriority, err
}
