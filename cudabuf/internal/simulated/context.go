//go:build linux

package simulated

import (
	"fmt"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"golang.org/x/sys/unix"
)

// context owns streams, events and modules. Memory belongs to the device, and
// every context of the device can use it.
type context struct {
	driver *Driver
	dev    *device
	handle driver.Context

	// Guarded by Driver.mu.
	flags uint32
	alive bool
	peers map[*context]bool // contexts whose memory kernels can access

	// null and blocking are streams that wait for each other. Driver.order
	// guards the fields below, except null, which never changes while the
	// context is alive.
	null             *stream
	blocking         map[*stream]bool
	perThread        map[int]*stream // CU_STREAM_PER_THREAD, by thread id
	destroyedStreams []*stream       // destroyed streams that may still run operations
}

// start makes a context live and empty.
func (c *context) start() {
	c.alive = true
	c.peers = map[*context]bool{}
	c.blocking = map[*stream]bool{}
	c.perThread = map[int]*stream{}
	c.destroyedStreams = nil
	c.null = newStream(c, false, leastPriority)
}

// perThreadStream returns the stream for CU_STREAM_PER_THREAD of a thread.
func (c *context) perThreadStream(id int) *stream {
	c.driver.order.Lock()
	defer c.driver.order.Unlock()
	s, ok := c.perThread[id]
	if !ok {
		s = newStream(c, true, leastPriority)
		c.perThread[id], c.blocking[s] = s, true
	}
	return s
}

// destroyContext destroys a context and the objects in it. It returns the
// streams that the caller must wait for. The caller holds Driver.mu.
func (d *Driver) destroyContext(c *context) []*stream {
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
	for _, peer := range d.contexts {
		delete(peer.peers, c)
		d.updatePeers(peer.dev)
	}
	d.updatePeers(c.dev)
	d.order.Lock()
	defer d.order.Unlock()
	for _, s := range c.perThread {
		streams = append(streams, s)
	}
	for _, s := range streams {
		s.close()
	}
	return append(streams, c.destroyedStreams...)
}

// destroyContexts destroys the live contexts of a device and waits for their
// streams.
func (d *Driver) destroyContexts(dev *device) {
	d.mu.Lock()
	var streams []*stream
	for _, c := range d.contexts {
		if c.dev == dev && c.alive {
			streams = append(streams, d.destroyContext(c)...)
		}
	}
	d.mu.Unlock()
	drain(streams)
}

// drain waits for all operations of the streams.
func drain(streams []*stream) {
	for _, s := range streams {
		s.tail().wait()
	}
}

// freeOwned frees the memory of a destroyed context. It synchronizes the device
// first, as MemFree does, because other contexts may use the memory.
func (d *Driver) freeOwned(dev *device, owned []*allocation) {
	if len(owned) > 0 {
		d.synchronizeDevice(dev)
		dev.arena.freeLeaked(owned)
	}
}

// lookupContext returns a live context. The caller holds mu.
func (d *Driver) lookupContext(call string, h driver.Context) (*context, error) {
	c, ok := d.contexts[h]
	if !ok || !c.alive {
		return nil, driver.ResultError(call, driver.InvalidContext)
	}
	return c, nil
}

func (d *Driver) CtxCreate(flags uint32, h driver.Device) (driver.Context, error) {
	const call = "cuCtxCreate"
	dev, err := d.enterDevice(call, h)
	if err != nil {
		return 0, err
	}
	if !isScheduleFlag(flags) {
		return 0, driver.ResultError(call, driver.InvalidValue)
	}
	if err := dev.alive(call); err != nil {
		return 0, err
	}
	c := &context{driver: d, dev: dev, handle: driver.Context(d.newHandle()), flags: flags}
	c.start()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.contexts[c.handle] = c
	d.pushContext(c)
	return c.handle, nil
}

// CtxDestroy waits for the streams of the context. If the context is current,
// the context below it on the thread's stack becomes current.
func (d *Driver) CtxDestroy(h driver.Context) error {
	const call = "cuCtxDestroy"
	if err := d.enter(call); err != nil {
		return err
	}
	d.mu.Lock()
	c, err := d.lookupContext(call, h)
	if err == nil && c == c.dev.primary {
		err = &driver.Error{Call: call, Code: driver.InvalidContext, Detail: "a primary context is released, not destroyed"}
	}
	if err != nil {
		d.mu.Unlock()
		return err
	}
	streams, owned := d.destroyContext(c), c.dev.arena.ownedBy(c)
	delete(d.contexts, h)
	if d.currentContext() == c {
		d.popContext()
	}
	d.mu.Unlock()
	drain(streams)
	d.freeOwned(c.dev, owned)
	return nil
}

func (d *Driver) CtxGetDevice() (driver.Device, error) {
	dev, err := d.enterCurrentDevice("cuCtxGetDevice")
	if err != nil {
		return 0, err
	}
	return driver.Device(dev.ordinal), nil
}

func (d *Driver) CtxGetStreamPriorityRange() (least, greatest int, err error) {
	_, err = d.enterContext("cuCtxGetStreamPriorityRange")
	return leastPriority, greatestPriority, err
}

// enterContext begins a call that needs a current context. It returns the
// context of the calling thread.
func (d *Driver) enterContext(call string) (*context, error) {
	failure := d.enter(call)
	d.mu.Lock()
	c := d.currentContext()
	alive := c != nil && c.alive
	d.mu.Unlock()
	switch {
	case failure != nil:
		if c != nil {
			c.dev.lose(failure)
		}
		return nil, failure
	case c == nil:
		return nil, &driver.Error{Call: call, Code: driver.InvalidContext, Detail: fmt.Sprintf("none is set on thread %d", unix.Gettid())}
	case !alive:
		return nil, driver.ResultError(call, contextDestroyed)
	}
	if err := c.dev.alive(call); err != nil {
		return nil, err
	}
	return c, d.permitDuringCapture(call)
}

// enterCurrentDevice begins a call that needs a current context. It returns the
// device of the context.
func (d *Driver) enterCurrentDevice(call string) (*device, error) {
	c, err := d.enterContext(call)
	if err != nil {
		return nil, err
	}
	return c.dev, nil
}

// currentContext returns the current context of the thread, or nil. The caller
// holds mu.
func (d *Driver) currentContext() *context {
	stack := d.threads[unix.Gettid()]
	if len(stack) == 0 {
		return nil
	}
	return stack[len(stack)-1]
}

func (d *Driver) CtxSetCurrent(h driver.Context) error {
	const call = "cuCtxSetCurrent"
	if err := d.enter(call); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if h == 0 {
		d.popContext()
		return nil
	}
	c, err := d.lookupContext(call, h)
	if err != nil {
		return err
	}
	if stack := d.threads[unix.Gettid()]; len(stack) > 0 {
		stack[len(stack)-1] = c
	} else {
		d.pushContext(c)
	}
	return nil
}

func (d *Driver) pushContext(c *context) {
	id := unix.Gettid()
	d.threads[id] = append(d.threads[id], c)
}

func (d *Driver) popContext() {
	id := unix.Gettid()
	if stack := d.threads[id]; len(stack) > 1 {
		d.threads[id] = stack[:len(stack)-1]
	} else {
		delete(d.threads, id)
	}
}

// CtxGetCurrent returns 0 if the thread has no current context.
func (d *Driver) CtxGetCurrent() (driver.Context, error) {
	if err := d.enter("cuCtxGetCurrent"); err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.currentContext(); c != nil {
		return c.handle, nil
	}
	return 0, nil
}

func (d *Driver) DevicePrimaryCtxRetain(h driver.Device) (driver.Context, error) {
	dev, err := d.enterDevice("cuDevicePrimaryCtxRetain", h)
	if err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if dev.retained++; dev.retained == 1 {
		dev.primary.start()
	}
	return dev.context, nil
}

// DevicePrimaryCtxRelease destroys the context and the objects in it when the
// last reference is released.
func (d *Driver) DevicePrimaryCtxRelease(h driver.Device) error {
	const call = "cuDevicePrimaryCtxRelease"
	dev, err := d.enterDevice(call, h)
	if err != nil {
		return err
	}
	d.mu.Lock()
	if dev.retained == 0 {
		d.mu.Unlock()
		return driver.ResultError(call, driver.InvalidContext)
	}
	var streams []*stream
	var owned []*allocation
	if dev.retained--; dev.retained == 0 {
		streams, owned = d.destroyContext(dev.primary), dev.arena.ownedBy(dev.primary)
	}
	d.mu.Unlock()
	drain(streams)
	d.freeOwned(dev, owned)
	return nil
}

func (d *Driver) retained(dev *device) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return dev.retained
}

func (d *Driver) DevicePrimaryCtxGetState(h driver.Device) (flags uint32, active bool, err error) {
	dev, err := d.enterDevice("cuDevicePrimaryCtxGetState", h)
	if err != nil {
		return 0, false, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return dev.primary.flags, dev.retained > 0, nil
}

// DevicePrimaryCtxSetFlags also accepts a live context, as CUDA does since
// version 11.
func (d *Driver) DevicePrimaryCtxSetFlags(h driver.Device, flags uint32) error {
	const call = "cuDevicePrimaryCtxSetFlags"
	dev, err := d.enterDevice(call, h)
	if err != nil {
		return err
	}
	if !isScheduleFlag(flags) {
		return driver.ResultError(call, driver.InvalidValue)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	dev.primary.flags = flags
	return nil
}

// isScheduleFlag reports whether flags is one of the CU_CTX_SCHED_ flags. The
// simulated driver knows no other context flags, and these do not change its
// behaviour.
func isScheduleFlag(flags uint32) bool {
	switch flags {
	case driver.CtxSchedAuto, driver.CtxSchedSpin, driver.CtxSchedYield, driver.CtxSchedBlockingSync:
		return true
	}
	return false
}

// CtxEnablePeerAccess gives kernels of the current context access to the memory
// of the peer context's device.
func (d *Driver) CtxEnablePeerAccess(h driver.Context) error {
	const call = "cuCtxEnablePeerAccess"
	c, err := d.enterContext(call)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	peer, err := d.lookupContext(call, h)
	switch {
	case err != nil:
		return err
	case peer == c:
		return &driver.Error{Call: call, Code: driver.InvalidContext, Detail: "the peer is the current context"}
	case !d.canReach(c.dev, peer.dev):
		return driver.ResultError(call, peerUnsupported)
	case c.peers[peer]:
		return driver.ResultError(call, peerEnabled)
	}
	c.peers[peer] = true
	d.updatePeers(c.dev)
	return nil
}

// updatePeers records which devices dev can access: the peers of any of its
// contexts. The caller holds mu.
func (d *Driver) updatePeers(dev *device) {
	reached := deviceSet{}
	for _, c := range d.contexts {
		if c.dev == dev && c.alive {
			for peer := range c.peers {
				reached[peer.dev.ordinal] = true
			}
		}
	}
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	dev.peers = reached
}

// requireReach returns an error if dev cannot get access to memory of owner.
func (d *Driver) requireReach(call string, dev, owner *device) error {
	if dev == owner || d.canReach(dev, owner) {
		return nil
	}
	return &driver.Error{Call: call, Code: driver.InvalidDevice, Detail: fmt.Sprintf("cuda:%d does not reach cuda:%d", dev.ordinal, owner.ordinal)}
}

// canReach reports whether the hardware lets dev access memory of peer.
func (d *Driver) canReach(dev, peer *device) bool {
	return dev != peer && (d.config.PeerAccess == nil || d.config.PeerAccess(dev.ordinal, peer.ordinal))
}
