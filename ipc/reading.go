package ipc

import (
	"fmt"

	"github.com/quiver-gpu/quiver/ipc/internal/wire"
)

// read takes what the server sends until the connection ends.
func (c *Client) read() {
	defer close(c.done)
	for {
		f, err := c.in.Read()
		if err == nil {
			err = c.take(f)
		}
		if err != nil {
			c.fail(c.ended(err))
			return
		}
	}
}

// take passes a frame on. An error ends the connection.
func (c *Client) take(f wire.Frame) error {
	defer func() { f.CloseFile() }()
	switch f.Type {
	case wire.Block:
		return c.announced(&f)
	case wire.Forget:
		return c.forget(f)
	case wire.Batch:
		m := new(wire.BatchMessage)
		if err := m.Parse(f.Payload); err != nil {
			return err
		}
		return c.offered(f, m)
	case wire.Error:
		if f.Request == 0 {
			return parseError(f.Payload)
		}
		return c.answered(f, true)
	case wire.Schema:
		return c.answered(f, false)
	case wire.Listing, wire.Stats, wire.Pong, wire.End:
		return c.answered(f, true)
	default:
		return fmt.Errorf("a server does not send %v: %w", f.Type, ErrFault)
	}
}

// answered passes on an answer, the last of its request perhaps.
func (c *Client) answered(f wire.Frame, last bool) error {
	c.mu.Lock()
	call := c.calls[f.Request]
	if last && call != nil {
		delete(c.calls, f.Request)
		if call.slot {
			<-c.slots
		}
	}
	ended := c.over()
	c.mu.Unlock()
	switch {
	case call != nil:
		call.deliver(event{frame: f})
	case !ended:
		return fmt.Errorf("%v of request %d, which is not under way: %w", f.Type, f.Request, ErrFault)
	}
	return nil
}

// announced opens a block. A failure is told to those who need the block.
func (c *Client) announced(f *wire.Frame) error {
	var m wire.BlockMessage
	if err := m.Parse(f.Payload); err != nil {
		return err
	}
	if m.Descriptor.Mechanism.HasFile() != (f.File != nil) {
		return fmt.Errorf("block %d by %v, with descriptor: %v: %w", m.Block, m.Descriptor.Mechanism, f.File != nil, ErrFault)
	}
	c.mu.Lock()
	known := c.blocks[m.Block] != nil
	c.mu.Unlock()
	if known {
		return fmt.Errorf("block %d is announced a second time: %w", m.Block, ErrFault)
	}
	b := c.open(m, f.File)
	c.mu.Lock()
	ended := c.over()
	if !ended {
		c.blocks[m.Block] = b
	}
	c.mu.Unlock()
	if ended {
		b.close()
	}
	return nil
}

// forget closes blocks.
func (c *Client) forget(f wire.Frame) error {
	numbers, err := wire.ParseNumbers(f.Payload)
	if err != nil {
		return err
	}
	var unused []*opened
	c.mu.Lock()
	for _, n := range numbers {
		switch b := c.blocks[n]; {
		case b == nil && c.err == nil:
			err = fmt.Errorf("block %d is to be forgotten, and was not announced: %w", n, ErrFault)
		case b != nil && b.leases > 0:
			err = fmt.Errorf("block %d is to be forgotten, and %d leases are in it: %w", n, b.leases, ErrFault)
		case b != nil:
			unused = append(unused, b)
			delete(c.blocks, n)
		}
	}
	c.mu.Unlock()
	closeAll(unused)
	if err == nil {
		c.out.Put(wire.Frame{Type: wire.Forgotten, Payload: f.Payload})
	}
	return err
}

// offered takes a lease.
func (c *Client) offered(f wire.Frame, m *wire.BatchMessage) error {
	c.mu.Lock()
	call := c.calls[f.Request]
	ended := c.over()
	if ended || call == nil || m.Lease != c.last+1 {
		c.mu.Unlock()
		if ended {
			return nil
		}
		return fmt.Errorf("lease %d behind %d, of request %d: %w", m.Lease, c.last, f.Request, ErrFault)
	}
	c.last = m.Lease
	l, err := c.newHeld(call.name, m)
	c.mu.Unlock()
	if err != nil {
		return err
	}
	call.deliver(event{frame: f, batch: m, lease: l})
	return nil
}
