package collective

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/quiver-gpu/quiver/ndview"
)

// Group collects operations and runs them together, so that none waits for another of the
// same group: sends and receives between two ranks, or the operations of several
// communicators that one goroutine drives.
//
//	var g collective.Group
//	err := g.Comm(c).Send(mine, next)
//	err = g.Comm(c).Recv(theirs, previous)
//	err = g.Run()
//
// Arrays must not be used between the call and Run. All ranks put the same operations, other
// than sends and receives, into groups in the same order. The zero Group is empty and ready
// to use, from one goroutine.
type Group struct {
	ops []*operation
	err error // of a call
}

// Comm returns a view of a communicator whose operations run at Run. It need not be closed.
// Results in new arrays have their values after Run. Wait, Split, Close and Abort act on c at
// once; Split returns an error wrapping errors.ErrUnsupported.
func (g *Group) Comm(c *Comm) *Comm {
	if g == nil || c == nil {
		return nil
	}
	return &Comm{comm: c.comm, group: g}
}

// Run runs the operations and empties the group. If a call returned an error, Run returns it
// and runs nothing. It does nothing if the group is empty.
func (g *Group) Run() error {
	if g == nil {
		return fmt.Errorf("collective.Group.Run: nil group: %w", ndview.ErrNil)
	}
	ops, err := g.ops, g.err
	g.ops, g.err = nil, nil
	if err != nil {
		for _, o := range ops {
			o.release()
		}
		return fmt.Errorf("collective.Group.Run: %w", err)
	}
	if err := run(ops); err != nil {
		return fmt.Errorf("collective.Group.Run: %w", err)
	}
	return nil
}

// submit runs an operation, or adds it to the group. It passes on the error of building it.
func (c *Comm) submit(name string, o *operation, err error) error {
	if err == nil && c.group == nil {
		err = run([]*operation{o})
	}
	if err != nil {
		err = fmt.Errorf("collective.Comm.%s: %w", name, err)
	}
	if c == nil || c.group == nil {
		return err
	}
	if err != nil {
		c.group.err = errors.Join(c.group.err, err)
		return err
	}
	c.group.ops = append(c.group.ops, o)
	return nil
}

// run runs operations together, releases them and converts their results.
func run(ops []*operation) (err error) {
	if len(ops) == 1 {
		ops[0].comm.order.Lock()
		defer ops[0].comm.order.Unlock()
		return runLocked(ops)
	}
	defer func() { err = finish(ops, err) }()
	var comms []*comm
	byComm := map[*comm][]*operation{}
	for _, o := range ops {
		if byComm[o.comm] == nil {
			comms = append(comms, o.comm)
		}
		byComm[o.comm] = append(byComm[o.comm], o)
	}
	// Always locked in the same order, since other goroutines may run groups too.
	slices.SortFunc(comms, func(a, b *comm) int { return cmp.Compare(a.number, b.number) })
	for _, c := range comms {
		c.order.Lock()
		defer c.order.Unlock()
	}
	for _, c := range comms {
		if err := (&Comm{comm: c}).usable(); err != nil {
			return err
		}
	}
	var onGPU []*operation
	var hosts errgroup.Group
	for _, o := range ops {
		if _, ok := o.comm.engine.(*ncclEngine); ok {
			onGPU = append(onGPU, o) // in the caller's order
		}
	}
	for _, c := range comms {
		if _, ok := c.engine.(*hostEngine); ok {
			hosts.Go(func() error { return c.engine.run(byComm[c]) })
		}
	}
	if len(onGPU) > 0 {
		err = runNCCL(onGPU)
	}
	return errors.Join(err, hosts.Wait())
}

// runLocked runs operations of one communicator, whose order is held.
func runLocked(ops []*operation) error {
	c := ops[0].comm
	err := (&Comm{comm: c}).usable()
	if err == nil {
		err = c.engine.run(ops)
	}
	return finish(ops, err)
}

// finish releases operations and, after a success, converts their results.
func finish(ops []*operation, err error) error {
	for _, o := range ops {
		if err == nil {
			err = o.finish()
		}
		o.release()
	}
	return err
}
