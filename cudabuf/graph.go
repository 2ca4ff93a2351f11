package cudabuf

import (
	"errors"
	"fmt"
	"sync"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// Graph is work that was captured once and can be launched many times. A launch
// costs as much as that of one kernel.
type Graph struct {
	dev      *Device
	exec     driver.GraphExec
	recorded *capture
	mu       sync.Mutex // guards exec
}

// capture lists the allocations that a graph accesses, with one reference to each.
type capture struct{ accesses []access }

// Capture records the work that f submits to its stream, without running it
// (cuStreamBeginCapture, cuStreamEndCapture, cuGraphInstantiate). Only f may use the
// stream, which is closed when f returns. The captured work waits for no other stream.
//
// Each launch uses the same memory. The graph holds a reference to each device buffer
// and HostBuffer; other pinned memory must outlive the graph. f cannot wait for the
// device, allocate on the stream, copy ordinary memory, or run host functions.
func (d *Device) Capture(f func(s *Stream) error) (*Graph, error) {
	if f == nil {
		return nil, fmt.Errorf("cudabuf.Device.Capture: nil function: %w", ErrNil)
	}
	cs, err := d.streams.get(streamKind{flags: driver.StreamNonBlocking, capturing: true})
	if err != nil {
		return nil, err
	}
	g := &Graph{dev: d, recorded: &capture{}}
	s := &Stream{cudaStream: cs, capture: g.recorded}
	err = d.withContext(func() error { return d.api.StreamBeginCapture(cs.handle, driver.CaptureRelaxed) })
	if err != nil {
		d.streams.put(cs)
		return nil, err
	}
	failure := f(s)
	s.closed.Store(true)
	err = d.withContext(func() error {
		graph, err := d.api.StreamEndCapture(cs.handle)
		if err != nil {
			return err
		}
		if failure == nil {
			g.exec, err = d.api.GraphInstantiate(graph)
		}
		return errors.Join(err, d.api.GraphDestroy(graph))
	})
	d.streams.put(cs)
	if failure == nil {
		failure = err
	}
	if failure != nil {
		return nil, errors.Join(fmt.Errorf("capturing a graph: %w", failure), g.Close())
	}
	return g, nil
}

// Launch runs the graph's work in the order of a stream (cuGraphLaunch). It is ordered
// against other streams by all memory that the graph accesses.
func (g *Graph) Launch(s *Stream) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.exec == 0 {
		return fmt.Errorf("%v: graph: %w", g.dev, ErrClosed)
	}
	if err := s.checkDevice(g.dev); err != nil {
		return err
	}
	return s.submit(g.recorded.accesses, func(h driver.Stream) error { return g.dev.api.GraphLaunch(g.exec, h) })
}

// Close destroys the graph and releases its buffers. Launches that are running
// complete. A second Close does nothing.
func (g *Graph) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, a := range g.recorded.accesses {
		a.memory.release()
	}
	g.recorded.accesses = nil
	if g.exec == 0 {
		return nil
	}
	err := g.dev.withContext(func() error { return g.dev.api.GraphExecDestroy(g.exec) })
	g.exec = 0
	return err
}

// record captures work and the memory that it accesses. It waits for no stream; each
// launch does.
func (c *capture) record(s *Stream, accesses []access, enqueue func(driver.Stream) error) error {
	for _, a := range accesses {
		if err := c.addAccess(a); err != nil {
			return s.dev.annotate(err)
		}
	}
	return s.dev.withContext(func() error { return enqueue(s.handle) })
}

// addAccess adds a reference to memory that the graph accesses. The graph keeps it
// even if capturing the work fails.
func (c *capture) addAccess(a access) error {
	for i := range c.accesses {
		if c.accesses[i].memory == a.memory {
			c.accesses[i].mode = c.accesses[i].mode || a.mode
			return nil
		}
	}
	if !a.memory.tryRetain() {
		return arrowbuf.ErrReleased
	}
	c.accesses = append(c.accesses, a)
	return nil
}
