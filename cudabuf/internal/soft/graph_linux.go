package soft

import "github.com/quiver-gpu/quiver/cudabuf/internal/driver"

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
