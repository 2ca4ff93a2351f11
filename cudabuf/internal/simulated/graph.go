//go:build linux

package simulated

import (
	"slices"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"golang.org/x/sys/unix"
)

// graph is what a capture made, ready to run.
type graph struct{ nodes []*node }

// graphExec runs one launch at a time, as CUDA's do.
type graphExec struct {
	graph *graph
	last  mark // guarded by Driver.order
}

func (d *Driver) GraphInstantiate(h driver.Graph) (driver.GraphExec, error) {
	const call = "cuGraphInstantiate"
	if _, err := d.context(call); err != nil {
		return 0, err
	}
	d.order.Lock()
	defer d.order.Unlock()
	g, ok := d.graphs[h]
	if !ok {
		return 0, driver.Check(call, driver.InvalidValue)
	}
	e := driver.GraphExec(d.handle())
	d.execs[e] = &graphExec{graph: g}
	return e, nil
}

// GraphLaunch runs the nodes one after the other, in the order of their
// recording, which is one that the graph allows.
func (d *Driver) GraphLaunch(h driver.GraphExec, sh driver.Stream) error {
	const call = "cuGraphLaunch"
	_, s, err := d.stream(call, sh)
	if err != nil {
		return err
	}
	s.waitForRoom()
	d.order.Lock()
	defer d.order.Unlock()
	e, ok := d.execs[h]
	if !ok {
		return driver.Check(call, driver.InvalidValue)
	}
	nodes := e.graph.nodes
	at, err := s.add(call, work{after: []place{e.last}, run: func() error {
		for _, n := range nodes {
			if err := n.run(); err != nil {
				return err
			}
		}
		return nil
	}})
	if err == nil && s.capture == nil {
		e.last = at
	}
	return err
}

func (d *Driver) GraphExecDestroy(h driver.GraphExec) error {
	return destroy(d, "cuGraphExecDestroy", h, d.execs)
}

func (d *Driver) GraphDestroy(h driver.Graph) error {
	return destroy(d, "cuGraphDestroy", h, d.graphs)
}

func destroy[H comparable, T any](d *Driver, call string, h H, all map[H]T) error {
	if _, err := d.context(call); err != nil {
		return err
	}
	d.order.Lock()
	defer d.order.Unlock()
	if _, ok := all[h]; !ok {
		return driver.Check(call, driver.InvalidValue)
	}
	delete(all, h)
	return nil
}

// capture is work that is recorded in place of being run. Driver.order guards
// it.
type capture struct {
	mode    driver.CaptureMode
	thread  int
	origin  *stream
	streams []*stream // that capture into it, the origin first
	nodes   []*node   // each behind what it comes after
	invalid bool
	ended   bool
}

// node is one piece of work.
type node struct {
	after []*node
	run   func() error
}

func (c *capture) check(call string) error {
	if c.invalid {
		return driver.Check(call, captureInvalidated)
	}
	return nil
}

// forbid spoils the capture and says so.
func (c *capture) forbid(call string) error {
	if err := c.check(call); err != nil {
		return err
	}
	c.invalid = true
	return &driver.Error{Call: call, Code: captureUnsupported, Detail: "the capture is spoilt"}
}

// add records work of a stream.
func (c *capture) add(call string, s *stream, run func() error) error {
	if err := c.check(call); err != nil {
		return err
	}
	n := &node{after: s.tips, run: run}
	c.nodes = append(c.nodes, n)
	s.tips = []*node{n}
	return nil
}

// join lets a stream go on after nodes of the capture.
func (c *capture) join(call string, s *stream, tips []*node) error {
	switch {
	case c.ended:
		return &driver.Error{Call: call, Code: capturedEvent, Detail: "the capture has ended"}
	case c.invalid:
		return c.check(call)
	case s.closed:
		return driver.Check(call, driver.InvalidHandle)
	case s == s.context.null:
		c.invalid = true
		return &driver.Error{Call: call, Code: captureImplicit, Detail: "the null stream cannot capture"}
	case s.capture == nil:
		s.capture = c
		c.streams = append(c.streams, s)
	case s.capture != c:
		c.invalid, s.capture.invalid = true, true
		return driver.Check(call, captureMerge)
	}
	for _, n := range tips {
		if !slices.Contains(s.tips, n) {
			s.tips = append(slices.Clone(s.tips), n)
		}
	}
	return nil
}

// joined tells whether all that was recorded comes before the origin's end.
func (c *capture) joined() bool {
	seen := map[*node]bool{}
	open := slices.Clone(c.origin.tips)
	for len(open) > 0 {
		n := open[len(open)-1]
		open = open[:len(open)-1]
		if !seen[n] {
			seen[n] = true
			open = append(open, n.after...)
		}
	}
	for _, s := range c.streams {
		for _, n := range s.tips {
			if !seen[n] {
				return false
			}
		}
	}
	return true
}

func (d *Driver) StreamBeginCapture(h driver.Stream, mode driver.CaptureMode) error {
	const call = "cuStreamBeginCapture"
	_, s, err := d.stream(call, h)
	if err != nil {
		return err
	}
	if mode < driver.CaptureGlobal || mode > driver.CaptureRelaxed {
		return driver.Check(call, driver.InvalidValue)
	}
	d.order.Lock()
	defer d.order.Unlock()
	switch {
	case s.closed:
		return driver.Check(call, driver.InvalidHandle)
	case s == s.context.null:
		return &driver.Error{Call: call, Code: captureUnsupported, Detail: "the null stream cannot capture"}
	case s.capture != nil:
		return &driver.Error{Call: call, Code: illegalState, Detail: "the stream captures already"}
	}
	s.capture = &capture{mode: mode, thread: unix.Gettid(), origin: s, streams: []*stream{s}}
	d.captures = append(d.captures, s.capture)
	return nil
}

// StreamEndCapture takes all streams out of the capture, whatever it answers.
func (d *Driver) StreamEndCapture(h driver.Stream) (driver.Graph, error) {
	const call = "cuStreamEndCapture"
	_, s, err := d.stream(call, h)
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
		return 0, driver.Check(call, captureWrongThread)
	}
	joined := c.joined()
	d.endCapture(c)
	switch {
	case c.invalid:
		return 0, driver.Check(call, captureInvalidated)
	case !joined:
		return 0, &driver.Error{Call: call, Code: captureUnjoined, Detail: "a stream that joined the capture was not waited for"}
	}
	g := driver.Graph(d.handle())
	d.graphs[g] = &graph{c.nodes}
	return g, nil
}

// endCapture takes the streams out of it. The caller holds order.
func (d *Driver) endCapture(c *capture) {
	for _, s := range c.streams {
		s.capture, s.tips = nil, nil
	}
	c.ended = true
	d.captures = slices.DeleteFunc(d.captures, func(x *capture) bool { return x == c })
}

// mayWait are calls that may wait for the device behind the caller's back. A
// capture that is not relaxed forbids them to its thread, a global one to all.
var mayWait = map[string]bool{
	"cuMemAlloc": true, "cuMemFree": true,
	"cuMemHostAlloc": true, "cuMemFreeHost": true, "cuMemHostRegister": true, "cuMemHostUnregister": true,
	"cuModuleLoadData": true, "cuModuleUnload": true,
	"cuEventQuery": true, "cuEventSynchronize": true,
}

// permit fails for such calls, and spoils the captures that forbid them.
func (d *Driver) permit(call string) error {
	if !mayWait[call] {
		return nil
	}
	return d.spoil(call, func(c *capture) bool {
		return c.mode == driver.CaptureGlobal || c.mode == driver.CaptureThreadLocal && c.thread == unix.Gettid()
	})
}

// captured fails where streams of a context capture, and spoils their captures.
func (d *Driver) captured(call string, c *context) error {
	return d.spoil(call, func(x *capture) bool {
		return slices.ContainsFunc(x.streams, func(s *stream) bool { return s.context == c })
	})
}

func (d *Driver) spoil(call string, which func(*capture) bool) error {
	d.order.Lock()
	defer d.order.Unlock()
	var failure error
	for _, c := range d.captures {
		if which(c) {
			if err := c.forbid(call); failure == nil {
				failure = err
			}
		}
	}
	return failure
}
