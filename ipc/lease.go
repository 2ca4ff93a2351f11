package ipc

import (
	"fmt"

	"github.com/quiver-gpu/quiver/ipc/internal/wire"
)

// giveBack takes what the client says that it does not use any more. The caller
// holds the books.
func (c *conn) giveBack(what wire.Type, numbers []uint64) error {
	s := &c.server.store
	for _, n := range numbers {
		if what == wire.Release {
			l := c.leases[n]
			if l == nil {
				return fmt.Errorf("lease %d, which the client does not hold: %w", n, ErrFault)
			}
			c.endLease(n, l)
			continue
		}
		b := s.blocks[n]
		if b == nil || !b.retiring {
			return fmt.Errorf("block %d, which the client was not asked to forget: %w", n, ErrFault)
		}
		if _, known := b.known[c]; !known {
			return fmt.Errorf("block %d, which the client does not know: %w", n, ErrFault)
		}
		s.forgotten(c, b)
	}
	return nil
}

func (c *conn) endLease(number uint64, l *lease) {
	delete(c.leases, number)
	for _, b := range l.form.blocks {
		b.leases--
	}
	l.form.leave()
}

// forsake ends all that a client holds whose connection has ended. It may still
// read: no block that it has a lease in is written again. The caller holds the
// books.
func (c *conn) forsake() {
	c.gone = true
	for number, l := range c.leases {
		for _, b := range l.form.blocks {
			b.spoiled = true
		}
		c.endLease(number, l)
	}
	for _, b := range c.server.store.blocks {
		if _, known := b.known[c]; known {
			c.server.store.forgotten(c, b)
		}
	}
}
