package ipc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quiver-gpu/quiver/ipc/internal/wire"
)

// get sends a table or a buffer.
func (c *conn) get(ctx context.Context, number uint32, name string) error {
	header, items, err := c.server.catalog.items(name)
	if err != nil {
		return err
	}
	defer func() {
		for _, it := range items {
			it.release()
		}
	}()
	if header != nil {
		if err := c.sendSchema(number, header); err != nil {
			return err
		}
	}
	var leases []*lease
	defer func() { c.count(leases) }()
	for _, it := range items {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		l, err := c.offer(ctx, number, it)
		if err != nil {
			return err
		}
		leases = append(leases, l)
	}
	return nil
}

// count lets the time of leases run: the client has all that it waits for before it
// can end them.
func (c *conn) count(leases []*lease) {
	c.server.store.do(func() {
		for _, l := range leases {
			l.counted = time.Now()
		}
	})
}

// subscribe sends a stream as far as the credit goes.
func (c *conn) subscribe(ctx context.Context, number uint32, credit *credit, name string) error {
	feed, err := c.server.catalog.Subscribe(name)
	if err != nil {
		return err
	}
	defer feed.Close()
	if err := c.sendSchema(number, feed.stream.header); err != nil {
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
		l, err := c.offer(ctx, number, it)
		it.release()
		if err != nil {
			return err
		}
		c.count([]*lease{l})
	}
	return ctx.Err()
}

// offer gives the client a lease of an item.
func (c *conn) offer(ctx context.Context, number uint32, it *item) (l *lease, err error) {
	f, err := it.formFor(c)
	if err != nil {
		return nil, err
	}
	done, err := f.written()
	events := c.peer.Events && c.peer.Process.SameNamespace(c.server.self) && c.peer.Process != c.server.self
	if err == nil && !done && !events {
		done, err = true, f.wait(ctx)
	}
	if err != nil {
		f.release()
		return nil, err
	}
	c.server.store.do(func() { l, err = c.lend(number, it, f, !done, events) })
	return l, err
}

// lend takes over a form's reference. The caller holds the books.
func (c *conn) lend(number uint32, it *item, f *form, pending, events bool) (*lease, error) {
	if c.gone {
		f.leave()
		return nil, ErrClosed
	}
	m := wire.BatchMessage{Lease: c.issued + 1, Sequence: it.sequence, Pending: pending, Parts: f.parts}
	payload := m.Append(nil)
	if len(payload) > wire.MaxPayload {
		f.leave()
		return nil, fmt.Errorf("batch %d of %q takes %d bytes to describe, a frame at most %d", it.sequence, it.name, len(payload), wire.MaxPayload)
	}
	for _, b := range f.blocks {
		if _, known := b.known[c]; known {
			continue
		}
		announced, err := b.announcement(c.server, events)
		if err != nil {
			f.leave()
			return nil, err
		}
		b.known[c] = struct{}{}
		c.out.Put(announced)
	}
	c.issued++
	l := &lease{form: f, sequence: it.sequence, since: time.Now()}
	c.leases[c.issued] = l
	for _, b := range f.blocks {
		b.leases++
	}
	c.out.Put(wire.Frame{Type: wire.Batch, Request: number, Payload: payload})
	return l, nil
}

// sendSchema sends what the batches of a request are of.
func (c *conn) sendSchema(number uint32, header []byte) error {
	if len(header) > wire.MaxPayload {
		return fmt.Errorf("a schema of %d bytes, a frame has at most %d", len(header), wire.MaxPayload)
	}
	c.out.Put(wire.Frame{Type: wire.Schema, Request: number, Payload: header})
	return nil
}
