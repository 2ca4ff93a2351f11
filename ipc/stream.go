package ipc

import (
	"context"
	"fmt"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
)

// StreamOptions says how a stream is published.
type StreamOptions struct {
	// Depth is how many batches wait for a subscriber that does not take them,
	// before Write waits for it: 4 where it is 0.
	Depth int
	// Options are those of each batch.
	Options []PublishOption
}

// Stream is a published stream of record batches. Each batch goes to those who
// subscribe at that time. It may be used from any goroutine.
type Stream struct {
	name   string
	schema *arrow.Schema
	header []byte // see published
	o      StreamOptions
	drop   func() // withdraws the name

	turn chan struct{} // held by the writer

	mu      sync.Mutex
	feeds   map[*Feed]struct{}
	joined  chan struct{} // closed, and made anew, when one subscribes
	ended   chan struct{}
	batches int64
	rows    int64
	bytes   int64
	device  string
}

// NewStream publishes a stream.
func (c *Catalog) NewStream(name string, schema *arrow.Schema, o StreamOptions) (*Stream, error) {
	if o.Depth == 0 {
		o.Depth = 4
	}
	if o.Depth < 0 {
		return nil, fmt.Errorf("stream %q: a depth of %d: %w", name, o.Depth, arrowbuf.ErrOutOfRange)
	}
	header, err := arrowipc.EncodeSchema(schema)
	if err != nil {
		return nil, fmt.Errorf("stream %q: %w", name, err)
	}
	s := &Stream{
		name: name, schema: schema, header: header, o: o, device: arrowbuf.CPU().String(),
		turn: make(chan struct{}, 1), joined: make(chan struct{}), ended: make(chan struct{}),
		feeds: map[*Feed]struct{}{},
	}
	s.drop = func() { _ = c.Withdraw(name) } // unless it is withdrawn
	if err := c.add(&published{kind: KindStream, name: name, schema: schema, stream: s}); err != nil {
		return nil, err
	}
	return s, nil
}

// Schema is what all batches are of.
func (s *Stream) Schema() *arrow.Schema { return s.schema }

// Write gives a batch to all who subscribe, and takes a reference to it until
// they have released it. It waits while one of them has Depth batches that it has
// not taken. After Close it is ErrClosed. Without a subscriber the batch is
// counted, and goes nowhere.
func (s *Stream) Write(ctx context.Context, batch arrow.RecordBatch) error {
	if !batch.Schema().Equal(s.schema) {
		return fmt.Errorf("stream %q: a batch of another schema: %v, not %v: %w", s.name, batch.Schema(), s.schema, arrow.ErrInvalid)
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	select {
	case <-s.ended:
		s.mu.Unlock()
		return fmt.Errorf("stream %q: %w", s.name, ErrClosed)
	default:
	}
	it := newBatchItem(s.name, uint64(s.batches), batch, s.o.Options)
	defer it.release()
	s.batches++
	s.rows += batch.NumRows()
	s.bytes += it.bytes()
	s.device = deviceOf(batch).String()
	feeds := make([]*Feed, 0, len(s.feeds))
	for f := range s.feeds {
		feeds = append(feeds, f)
	}
	s.mu.Unlock()
	for _, f := range feeds {
		if err := f.put(ctx, it); err != nil {
			return fmt.Errorf("stream %q, batch %d, which some subscribers did not get: %w", s.name, it.sequence, err)
		}
	}
	return nil
}

// WaitSubscribers returns when at least n subscribe.
func (s *Stream) WaitSubscribers(ctx context.Context, n int) error {
	for {
		s.mu.Lock()
		there, joined := len(s.feeds), s.joined
		s.mu.Unlock()
		if there >= n {
			return nil
		}
		select {
		case <-joined:
		case <-s.ended:
			return fmt.Errorf("stream %q: %w", s.name, ErrClosed)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Close withdraws the stream. Subscribers get what was written, and then its
// end. A second Close does nothing.
func (s *Stream) Close() error {
	select {
	case <-s.ended:
	default:
		s.drop()
	}
	return nil
}

// end is called once, by who withdraws the name.
func (s *Stream) end() { close(s.ended) }

func (s *Stream) written() (rows, batches, bytes int64, subscribers uint32, device string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows, s.batches, s.bytes, uint32(len(s.feeds)), s.device
}

// Feed is what one subscriber gets of a stream.
type Feed struct {
	stream *Stream
	ready  chan struct{} // there may be an item
	room   chan struct{} // there may be room
	left   chan struct{} // closed with the feed

	mu     sync.Mutex
	items  []*item
	closed bool
}

// Subscribe begins to receive a stream, from the next batch on. The caller
// closes the result.
func (c *Catalog) Subscribe(name string) (*Feed, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := c.find(name, KindStream)
	if err != nil {
		return nil, err
	}
	f := &Feed{stream: p.stream, ready: make(chan struct{}, 1), room: make(chan struct{}, 1), left: make(chan struct{})}
	p.stream.join(f)
	return f, nil
}

func (s *Stream) join(f *Feed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.feeds[f] = struct{}{}
	close(s.joined)
	s.joined = make(chan struct{})
}

func (s *Stream) leave(f *Feed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.feeds, f)
}

// put waits for room and adds an item, unless the feed or the stream ends first.
// The stream's writer alone calls it.
func (f *Feed) put(ctx context.Context, it *item) error {
	for {
		f.mu.Lock()
		added := !f.closed && len(f.items) < f.stream.o.Depth
		if added {
			it.retain()
			f.items = append(f.items, it)
		}
		f.mu.Unlock()
		if added {
			signal(f.ready)
			return nil
		}
		select {
		case <-f.room:
		case <-f.left:
			return nil
		case <-f.stream.ended:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// next returns the next item, with a reference.
func (f *Feed) next(ctx context.Context) (*item, error) {
	for ended := false; ; {
		f.mu.Lock()
		var it *item
		if len(f.items) > 0 {
			it, f.items = f.items[0], f.items[1:]
		}
		ended = ended || f.closed
		f.mu.Unlock()
		if it != nil {
			signal(f.room)
			return it, nil
		}
		if ended {
			return nil, fmt.Errorf("stream %q: %w", f.stream.name, ErrClosed)
		}
		select {
		case <-f.ready:
		case <-f.left:
		case <-f.stream.ended:
			ended = true // of what there is, the rest is still to come
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Schema is what all batches are of.
func (f *Feed) Schema() *arrow.Schema { return f.stream.schema }

// Next returns the next batch, with a reference for the caller, and its place in
// the stream. At the stream's end it is ErrClosed.
func (f *Feed) Next(ctx context.Context) (batch arrow.RecordBatch, sequence uint64, err error) {
	it, err := f.next(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer it.release()
	it.batch.Retain()
	return it.batch, it.sequence, nil
}

// Close ends the subscription, and gives back what was not taken. A second Close
// does nothing.
func (f *Feed) Close() {
	f.mu.Lock()
	items := f.items
	f.items = nil
	if !f.closed {
		f.closed = true
		close(f.left)
	}
	f.mu.Unlock()
	f.stream.leave(f)
	for _, it := range items {
		it.release()
	}
}

// signal wakes one who waits, or the next who does.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
