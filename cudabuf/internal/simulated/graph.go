//go:build linux

package simulated

import (
	"slices"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"golang.org/x/sys/unix"
)

// graph is the result of a capture.
type graph struct{ nodes []*node }

// graphExec is an executable graph. Its launches run one at a time, as in CUDA.
type graphExec struct {
	graph      *graph
	lastLaunch streamPosition // guarded by Driver.order
}

func (d *Driver) GraphInstantiate(h driver.Graph) (driver.GraphExec, error) {
	const call = "cuGraphInstantiate"
	if _, err := d.enterContext(call); err != nil {
		return 0, err
	}
	d.order.Lock()
	defer d.order.Unlock()
	g, ok := d.graphs[h]
	if !ok {
		return 0, driver.ResultError(call, driver.InvalidValue)
	}
	e := driver.GraphExec(d.newHandle())
	d.execs[e] = &graphExec{graph: g}
	return e, nil
}

// GraphLaunch runs the nodes in the order in which they were recorded, which
// satisfies their dependencies.
func (d *Driver) GraphLaunch(h driver.GraphExec, sh driver.Stream) error {
	const call = "cuGraphLaunch"
	_, s, err := d.enterStream(call, sh)
	if err != nil {
		return err
	}
	s.waitForCapacity()
	d.order.Lock()
	defer d.order.Unlock()
	e, ok := d.execs[h]
	if !ok {
		return driver.ResultError(call, driver.InvalidValue)
	}
	nodes := e.graph.nodes
	at, err := s.submitLocked(call, operation{dependencies: []dependency{e.lastLaunch}, run: func() error {
		for _, n := range nodes {
			if err := n.run(); err != nil {
				return err
			}
		}
		return nil
	}})
	if err == nil && s.capture == nil {
		e.lastLaunch = at
	}
	return err
}

func (d *Driver) GraphExecDestroy(h driver.GraphExec) error {
	return destroyGraph(d, "cuGraphExecDestroy", h, d.execs)
}

func (d *Driver) GraphDestroy(h driver.Graph) error {
	return destroyGraph(d, "cuGraphDestroy", h, d.graphs)
}

func destroyGraph[H comparable, T any](d *Driver, call string, h H, all map[H]T) error {
	if _, err := d.enterContext(call); err != nil {
		return err
	}
	d.order.Lock()
	defer d.order.Unlock()
	if _, ok := all[h]; !ok {
		return driver.ResultError(call, driver.InvalidValue)
	}
	delete(all, h)
	return nil
}

// capture records operations instead of running them. Driver.order guards it.
type capture struct {
	mode    driver.CaptureMode
	thread  int
	origin  *stream
	streams []*stream // all capturing streams, the origin first
	nodes   []*node   // each after its dependencies
	invalid bool
	done    bool
}

// node is one captured operation.
type node struct {
	dependencies []*node
	run          func() error
}

// validate returns an error if the capture is invalid.
func (c *capture) validate(call string) error {
	if c.invalid {
		return driver.ResultError(call, captureInvalidated)
	}
	return nil
}

// invalidate invalidates the capture and returns the error of the call that did
// so.
func (c *capture) invalidate(call string) error {
	if err := c.validate(call); err != nil {
		return err
	}
	c.invalid = true
	return &driver.Error{Call: call, Code: captureUnsupported, Detail: "the call invalidates the capture"}
}

// record adds an operation of a stream.
func (c *capture) record(call string, s *stream, run func() error) error {
	if err := c.validate(call); err != nil {
		return err
	}
	n := &node{dependencies: s.captureTips, run: run}
	c.nodes = append(c.nodes, n)
	s.captureTips = []*node{n}
	return nil
}

// join makes the next operation of a stream depend on nodes of the capture.
func (c *capture) join(call string, s *stream, tips []*node) error {
	switch {
	case c.done:
		return &driver.Error{Call: call, Code: capturedEvent, Detail: "the capture has ended"}
	case c.invalid:
		return c.validate(call)
	case s.closed:
		return driver.ResultError(call, driver.InvalidHandle)
	case s == s.context.null:
		c.invalid = true
		return &driver.Error{Call: call, Code: captureImplicit, Detail: "the null stream cannot capture"}
	case s.capture == nil:
		s.capture = c
		c.streams = append(c.streams, s)
	case s.capture != c:
		c.invalid, s.capture.invalid = true, true
		return driver.ResultError(call, captureMerge)
	}
	for _, n := range tips {
		if !slices.Contains(s.captureTips, n) {
			s.captureTips = append(slices.Clone(s.captureTips), n)
		}
	}
	return nil
}

// allJoined reports whether the end of the origin depends on all nodes.
func (c *capture) allJoined() bool {
	seen := map[*node]bool{}
	open := slices.Clone(c.origin.captureTips)
	for len(open) > 0 {
		n := open[len(open)-1]
		open = open[:len(open)-1]
		if !seen[n] {
			seen[n] = true
			open = append(open, n.dependencies...)
		}
	}
	for _, s := range c.streams {
		for _, n := range s.captureTips {
			if !seen[n] {
				return false
			}
		}
	}
	return true
}

func (d *Driver) StreamBeginCapture(h driver.Stream, mode driver.CaptureMode) error {
	const call = "cuStreamBeginCapture"
	_, s, err := d.enterStream(call, h)
	if err != nil {
		return err
	}
	if mode < driver.CaptureGlobal || mode > driver.CaptureRelaxed {
		return driver.ResultError(call, driver.InvalidValue)
	}
	d.order.Lock()
	defer d.order.Unlock()
	switch {
	case s.closed:
		return driver.ResultError(call, driver.InvalidHandle)
	case s == s.context.null:
		return &driver.Error{Call: call, Code: captureUnsupported, Detail: "the null stream cannot capture"}
	case s.capture != nil:
		return &driver.Error{Call: call, Code: illegalState, Detail: "the stream already captures"}
	}
	s.capture = &capture{mode: mode, thread: unix.Gettid(), origin: s, streams: []*stream{s}}
	d.captures = append(d.captures, s.capture)
	return nil
}

// StreamEndCapture ends the capture of all its streams, even if it returns an
// error.
func (d *Driver) StreamEndCapture(h driver.Stream) (driver.Graph, error) {
	const call = "cuStreamEndCapture"
	_, s, err := d.enterStream(call, h)
	if err != nil {
		return 0, err
	}
	d.order.Lock()
	defer d.order.Unlock()
	c := s.capture
	switch {
	case c == nil:
		return 0, &driver.Error{Call: call, Code: illegalState, Detail: "the stream does not capture"}
	case c.origin != s:
		c.invalid = true
		return 0, &driver.Error{Call: call, Code: captureUnmatched, Detail: "the capture began on another stream"}
	case c.mode != driver.CaptureRelaxed && c.thread != unix.Gettid():
		return 0, driver.ResultError(call, captureWrongThread)
	}
	joined := c.allJoined()
	d.endCapture(c)
	switch {
	case c.invalid:
		return 0, driver.ResultError(call, captureInvalidated)
	case !joined:
		return 0, &driver.Error{Call: call, Code: captureUnjoined, Detail: "the origin does not wait for a stream that joined the capture"}
	}
	g := driver.Graph(d.newHandle())
	d.graphs[g] = &graph{c.nodes}
	return g, nil
}

// endCapture ends the capture of all its streams. The caller holds order.
func (d *Driver) endCapture(c *capture) {
	for _, s := range c.streams {
		s.capture, s.captureTips = nil, nil
	}
	c.done = true
	d.captures = slices.DeleteFunc(d.captures, func(x *capture) bool { return x == c })
}

// implicitSyncCalls are the calls that may synchronize implicitly. A global
// capture forbids them to all threads, a thread-local capture to its own
// thread.
var implicitSyncCalls = map[string]bool{
	"cuMemAlloc": true, "cuMemFree": true,
	"cuMemHostAlloc": true, "cuMemFreeHost": true, "cuMemHostRegister": true, "cuMemHostUnregister": true,
	"cuModuleLoadData": true, "cuModuleUnload": true,
	"cuEventQuery": true, "cuEventSynchronize": true,
}

// permitDuringCapture returns an error if a capture forbids the call, and
// invalidates the capture.
func (d *Driver) permitDuringCapture(call string) error {
	if !implicitSyncCalls[call] {
		return nil
	}
	return d.invalidateCaptures(call, func(c *capture) bool {
		return c.mode == driver.CaptureGlobal || c.mode == driver.CaptureThreadLocal && c.thread == unix.Gettid()
	})
}

// rejectCapturing returns an error if streams of a context capture, and
// invalidates their captures.
func (d *Driver) rejectCapturing(call string, c *context) error {
	return d.invalidateCaptures(call, func(x *capture) bool {
		return slices.ContainsFunc(x.streams, func(s *stream) bool { return s.context == c })
	})
}

// invalidateCaptures invalidates the affected captures and returns the first
// error.
func (d *Driver) invalidateCaptures(call string, affected func(*capture) bool) error {
	d.order.Lock()
	defer d.order.Unlock()
	var failure error
	for _, c := range d.captures {
		if affected(c) {
			if err := c.invalidate(call); failure == nil {
				failure = err
			}
		}
	}
	return failure
}
