package ipc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/ipc/internal/wire"
)

// get sends a table or a buffer.
func (c *conn) get(ctx context.Context, number uint32, name string) error {
	schema, items, err := c.server.catalog.items(name)
	if err != nil {
		return err
	}
	defer func() {
		for _, it := range items {
			it.release()
		}
	}()
	if schema != nil {
		if err := c.sendSchema(number, schema); err != nil {
			return err
		}
	}
	for _, it := range items {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := c.offer(number, it); err != nil {
			return err
		}
	}
	return nil
}

// subscribe sends a stream as far as the credit goes.
func (c *conn) subscribe(ctx context.Context, number uint32, credit *credit, name string) error {
	feed, err := c.server.catalog.Subscribe(name)
	if err != nil {
		return err
	}
	defer feed.Close()
	if err := c.sendSchema(number, feed.Schema()); err != nil {
		return err
	}
	for credit.take(ctx) {
		it, err := feed.next(ctx)
		if err != nil {
			if errors.Is(err, ErrClosed) {
				return nil // the stream's end
			}
			return err
		}
		err = c.offer(number, it)
		it.release()
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// offer gives the client a lease of an item.
func (c *conn) offer(number uint32, it *item) error {
	f, err := it.formFor(c)
	if err != nil {
		return err
	}
	done, err := f.written(false)
	events := c.peer.Events && c.peer.Process.SameNamespace(c.server.self) && c.peer.Process != c.server.self
	if err == nil && !done && !events {
		done, err = f.written(true)
	}
	if err != nil {
		f.release()
		return err
	}
	c.server.store.do(func() { err = c.lend(number, it, f, !done, events) })
	return err
}

// lend takes over a form's reference. The caller holds the books.
func (c *conn) lend(number uint32, it *item, f *form, pending, events bool) error {
	if c.gone {
		f.leave()
		return ErrClosed
	}
	m := wire.BatchMessage{Lease: c.issued + 1, Sequence: it.sequence, Pending: pending, Parts: f.parts}
	payload := m.Append(nil)
	if len(payload) > wire.MaxPayload {
		f.leave()
		return fmt.Errorf("batch %d of %q takes %d bytes to describe, a frame at most %d", it.sequence, it.name, len(payload), wire.MaxPayload)
	}
	for _, b := range f.blocks {
		if _, known := b.known[c]; known {
			continue
		}
		announced, err := b.announcement(c.server, events)
		if err != nil {
			f.leave()
			return err
		}
		b.known[c] = struct{}{}
		c.out.Put(announced)
	}
	c.issued++
	c.leases[c.issued] = &lease{form: f, sequence: it.sequence, since: time.Now()}
	for _, b := range f.blocks {
		b.leases++
	}
	c.out.Put(wire.Frame{Type: wire.Batch, Request: number, Payload: payload})
	return nil
}

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

// credit is how many batches a subscriber takes.
type credit struct {
	mu    sync.Mutex
	n     uint64
	added chan struct{}
}

func newCredit(n uint32) *credit { return &credit{n: uint64(n), added: make(chan struct{}, 1)} }

// take waits for credit and uses one of it. It is false when ctx ends.
func (c *credit) take(ctx context.Context) bool {
	for {
		c.mu.Lock()
		got := c.n > 0
		if got {
			c.n--
		}
		c.mu.Unlock()
		if got {
			return true
		}
		select {
		case <-c.added:
		case <-ctx.Done():
			return false
		}
	}
}

// addCredit adds to a subscription's credit. One that has just ended is not there
// any more.
func (c *conn) addCredit(number uint32, more uint32) error {
	c.mu.Lock()
	r := c.requests[number]
	c.mu.Unlock()
	if r == nil {
		return nil
	}
	if r.credit == nil {
		return fmt.Errorf("request %d is no subscription: %w", number, ErrFault)
	}
	r.credit.mu.Lock()
	r.credit.n += uint64(more)
	n := r.credit.n
	r.credit.mu.Unlock()
	if n > math.MaxInt32 {
		return fmt.Errorf("a credit of %d batches: %w", n, ErrFault)
	}
	signal(r.credit.added)
	return nil
}

// sendSchema sends what the batches of a request are of.
func (c *conn) sendSchema(number uint32, schema *arrow.Schema) error {
	metadata, err := arrowipc.EncodeSchema(schema)
	if err == nil && len(metadata) > wire.MaxPayload {
		err = fmt.Errorf("a schema of %d bytes, a frame has at most %d", len(metadata), wire.MaxPayload)
	}
	if err == nil {
		c.out.Put(wire.Frame{Type: wire.Schema, Request: number, Payload: metadata})
	}
	return err
}
