package soft

import (
	"fmt"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"golang.org/x/sys/unix"
)

// context begins every call that works in the context of its thread.
func (d *Driver) context(call string) (*context, error) {
	failure := d.enter(call)
	d.mu.Lock()
	c := d.top()
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
		return nil, driver.Check(call, contextDestroyed)
	}
	if err := c.dev.alive(call); err != nil {
		return nil, err
	}
	return c, d.permit(call)
}

// current is context for calls that need no more than the device.
func (d *Driver) current(call string) (*device, error) {
	c, err := d.context(call)
	if err != nil {
		return nil, err
	}
	return c.dev, nil
}

// top is the current context of the thread. The caller holds mu.
func (d *Driver) top() *context {
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
		d.pop()
		return nil
	}
	c, err := d.find(call, h)
	if err != nil {
		return err
	}
	if stack := d.threads[unix.Gettid()]; len(stack) > 0 {
		stack[len(stack)-1] = c
	} else {
		d.push(c)
	}
	return nil
}

func (d *Driver) push(c *context) {
	id := unix.Gettid()
	d.threads[id] = append(d.threads[id], c)
}

func (d *Driver) pop() {
	id := unix.Gettid()
	if stack := d.threads[id]; len(stack) > 1 {
		d.threads[id] = stack[:len(stack)-1]
	} else {
		delete(d.threads, id)
	}
}

// CtxGetCurrent answers 0 where there is none.
func (d *Driver) CtxGetCurrent() (driver.Context, error) {
	if err := d.enter("cuCtxGetCurrent"); err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.top(); c != nil {
		return c.handle, nil
	}
	return 0, nil
}
