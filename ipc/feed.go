package ipc

import (
	"context"
	"fmt"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
)

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
