package ipc

import (
	"context"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ipc/internal/wire"
)

// List returns what the server has published, in the order of names.
func (c *Client) List(ctx context.Context) ([]Entry, error) {
	payload, err := c.ask(ctx, wire.List, wire.Listing)
	if err != nil {
		return nil, fmt.Errorf("listing: %w", err)
	}
	return wire.ParseListing(payload)
}

// Stat returns what the server shares, and who holds what.
func (c *Client) Stat(ctx context.Context) (Stats, error) {
	payload, err := c.ask(ctx, wire.Stat, wire.Stats)
	if err != nil {
		return Stats{}, fmt.Errorf("asking who holds what: %w", err)
	}
	var stats Stats
	err = stats.Parse(payload)
	return stats, err
}

// Ping returns when the server has answered.
func (c *Client) Ping(ctx context.Context) error {
	if _, err := c.ask(ctx, wire.Ping, wire.Pong); err != nil {
		return fmt.Errorf("pinging: %w", err)
	}
	return nil
}

// Table is a table of a server.
type Table struct {
	Schema  *arrow.Schema
	Batches []arrow.RecordBatch
}

// Release gives all batches back.
func (t *Table) Release() {
	for _, b := range t.Batches {
		b.Release()
	}
	t.Batches = nil
}

// Table returns a table. Its batches show the server's memory, which they only
// read; each ends its lease with its last reference. Those of a server in this
// process are its own.
func (c *Client) Table(ctx context.Context, name string) (t *Table, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("table %q: %w", name, err)
		}
	}()
	if err := known(name); err != nil {
		return nil, err
	}
	call, err := c.call(ctx, wire.Get, wire.AppendName(nil, name), &call{name: name})
	if err != nil {
		return nil, err
	}
	defer call.leave()
	r := receiver{call: call}
	got := &Table{}
	if got.Schema, err = r.begin(ctx); err != nil {
		return nil, err
	}
	for {
		batch, err := r.next(ctx)
		if err != nil {
			got.Release()
			return nil, err
		}
		if batch == nil {
			return got, nil
		}
		got.Batches = append(got.Batches, batch)
	}
}

// Buffer returns a buffer, which shows the server's memory and ends its lease with
// its last reference.
func (c *Client) Buffer(ctx context.Context, name string) (b arrowbuf.Buffer, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("buffer %q: %w", name, err)
		}
	}()
	if err := known(name); err != nil {
		return nil, err
	}
	call, err := c.call(ctx, wire.Get, wire.AppendName(nil, name), &call{name: name})
	if err != nil {
		return nil, err
	}
	defer call.leave()
	e, err := call.next(ctx)
	if err != nil {
		return nil, err
	}
	if e.batch == nil {
		return nil, fmt.Errorf("it is a table: %w", ErrWrongKind)
	}
	defer e.lease.release()
	bodies, err := e.bodies(ctx)
	if err != nil {
		return nil, err
	}
	defer bodies.release()
	switch {
	case bodies.local != nil && bodies.local.buffer != nil:
		b = bodies.local.buffer
	case bodies.local != nil || len(e.batch.Parts[0].Metadata) > 0:
		return nil, c.fault("a batch, a buffer expected")
	case len(bodies.parts[0]) == 0:
		return arrowbuf.CPU().Alloc(0)
	default:
		b = bodies.parts[0][0].Buffer
	}
	b.Retain()
	return b, nil
}

// Subscription is a stream of a server. It is for one goroutine at a time.
type Subscription struct {
	receiver
	name   string
	schema *arrow.Schema
	window uint32
	taken  uint32
	ended  bool
}

// known refuses names that no server takes: asking would end the connection.
func known(name string) error {
	if wire.CheckName(name) != nil {
		return fmt.Errorf("no name of 1 to %d bytes of UTF-8 without control characters: %w", wire.MaxName, ErrNotFound)
	}
	return nil
}

// Stream subscribes to a stream, from the next batch that is written on. Up to
// window batches come before they are taken by Next; then the server's writer
// waits. The caller closes the result.
func (c *Client) Stream(ctx context.Context, name string, window int) (*Subscription, error) {
	if window < 1 || window > 1<<20 {
		return nil, fmt.Errorf("stream %q: a window of %d batches: %w", name, window, arrowbuf.ErrOutOfRange)
	}
	if err := known(name); err != nil {
		return nil, fmt.Errorf("stream %q: %w", name, err)
	}
	call, err := c.call(ctx, wire.Subscribe, wire.AppendSubscribe(nil, uint32(window), name), &call{name: name, stream: true})
	if err != nil {
		return nil, fmt.Errorf("stream %q: %w", name, err)
	}
	s := &Subscription{receiver: receiver{call: call}, name: name, window: uint32(window)}
	if s.schema, err = s.begin(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("stream %q: %w", name, err)
	}
	return s, nil
}

// Schema is what all batches are of.
func (s *Subscription) Schema() *arrow.Schema { return s.schema }

// Next returns the next batch, which shows the server's memory and ends its lease
// with its last reference. At the stream's end it is io.EOF.
func (s *Subscription) Next(ctx context.Context) (arrow.RecordBatch, error) {
	if s.ended {
		return nil, io.EOF
	}
	batch, err := s.next(ctx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("stream %q: %w", s.name, err)
	case batch == nil:
		s.ended = true
		return nil, io.EOF
	}
	if s.taken++; 2*s.taken >= s.window {
		s.call.client.out.Put(wire.Frame{Type: wire.Credit, Request: s.call.number, Payload: wire.AppendU32(nil, s.taken)})
		s.taken = 0
	}
	return batch, nil
}

// Close ends the subscription. Batches stay good until they are released.
func (s *Subscription) Close() {
	if !s.ended {
		s.ended = true
		s.call.client.out.Put(wire.Frame{Type: wire.Cancel, Request: s.call.number})
	}
	s.call.leave()
}
