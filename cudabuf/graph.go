package cudabuf

import (
	"errors"
	"fmt"
	"sync"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// Graph is work that was recorded once and is launched often, at the cost of
// one launch.
type Graph struct {
	dev  *Device
	exec driver.GraphExec
	work *capture
	mu   sync.Mutex // guards exec
}

// capture is what the stream of a graph was given: the memory that it uses.
type capture struct{ uses []use } // each with a reference to its memory

// Capture records what f gives to the stream that it gets, and runs none of it
// (cuStreamBeginCapture, cuStreamEndCapture, cuGraphInstantiate). The stream is
// for f alone and ends with it; its work waits for nothing but itself.
//
// The graph works on the same memory at each launch. It holds the buffers, of
// the device and of the host; other pinned memory must stay as long as the
// graph. f cannot wait for the device, allocate on the stream, copy from or to
// ordinary memory, or run host functions.
func (d *Device) Capture(f func(s *Stream) error) (*Graph, error) {
	q, err := d.queues.open(queueKind{flags: driver.StreamNonBlocking, captures: true})
	if err != nil {
		return nil, err
	}
	g := &Graph{dev: d, work: &capture{}}
	s := &Stream{queue: q, capture: g.work}
	err = d.do(func() error { return d.api.StreamBeginCapture(q.handle, driver.CaptureRelaxed) })
	if err != nil {
		d.queues.put(q)
		return nil, err
	}
	failure := f(s)
	s.closed.Store(true)
	err = d.do(func() error {
		graph, err := d.api.StreamEndCapture(q.handle)
		if err != nil {
			return err
		}
		if failure == nil {
			g.exec, err = d.api.GraphInstantiate(graph)
		}
		return errors.Join(err, d.api.GraphDestroy(graph))
	})
	d.queues.put(q)
	if failure == nil {
		failure = err
	}
	if failure != nil {
		return nil, errors.Join(fmt.Errorf("capturing a graph: %w", failure), g.Close())
	}
	return g, nil
}

// Launch runs the graph's work in the order of a stream (cuGraphLaunch). It is
// ordered against other streams by all memory that the graph uses.
func (g *Graph) Launch(s *Stream) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.exec == 0 {
		return fmt.Errorf("%v: graph: %w", g.dev, ErrClosed)
	}
	if err := s.on(g.dev); err != nil {
		return err
	}
	return s.issue(g.work.uses, func(h driver.Stream) error { return g.dev.api.GraphLaunch(g.exec, h) })
}

// Close gives the graph back, and the buffers that it holds. Launches that are
// under way go on. A second Close does nothing.
func (g *Graph) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, u := range g.work.uses {
		u.memory.release()
	}
	g.work.uses = nil
	if g.exec == 0 {
		return nil
	}
	err := g.dev.do(func() error { return g.dev.api.GraphExecDestroy(g.exec) })
	g.exec = 0
	return err
}

// issue records work, with what it uses. Nothing is waited for: that is the
// business of each launch.
func (c *capture) issue(s *Stream, uses []use, work func(driver.Stream) error) error {
	for _, u := range uses {
		if err := c.add(u); err != nil {
			return s.dev.named(err)
		}
	}
	return s.dev.do(func() error { return work(s.handle) })
}

// add takes a reference to memory that the graph uses, also where recording the
// use fails then.
func (c *capture) add(u use) error {
	for i := range c.uses {
		if c.uses[i].memory == u.memory {
			c.uses[i].how = c.uses[i].how || u.how
			return nil
		}
	}
	if !u.memory.tryRetain() {
		return arrowbuf.ErrReleased
	}
	c.uses = append(c.uses, u)
	return nil
}
