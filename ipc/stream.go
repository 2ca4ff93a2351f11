package ipc

import (
	"context"
	"fmt"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
)

// StreamOptions configures a published stream.
type StreamOptions struct {
	// Depth is the number of batches queued per subscriber; if a queue is full,
	// Write blocks. 0 means 4.
	Depth int
	// Options apply to each batch.
	Options []PublishOption
}

// Stream is a published stream of record batches. Each batch goes to the
// subscribers at the time of its Write. Its methods may be called from any
// goroutine.
type Stream struct {
	name     string
	schema   *arrow.Schema
	header   []byte // the schema as the metadata of an Arrow IPC message
	options  StreamOptions
	withdraw func() // withdraws the name

	writing chan struct{} // a semaphore of 1: the writer holds it

	mu          sync.Mutex
	subscribers map[*Subscriber]struct{}
	subscribed  chan struct{} // closed and replaced when a subscriber is added
	ended       chan struct{}
	batches     int64
	rows        int64
	bytes       int64
	device      string
}

// NewStream publishes a stream. The error wraps ErrExists if the name is in use,
// and arrowbuf.ErrOutOfRange if the depth is negative.
func (c *Catalog) NewStream(name string, schema *arrow.Schema, o StreamOptions) (*Stream, error) {
	if o.Depth == 0 {
		o.Depth = 4
	}
	if o.Depth < 0 {
		return nil, fmt.Errorf("ipc.NewStream: stream %q: depth: got %d, want at least 0: %w", name, o.Depth, arrowbuf.ErrOutOfRange)
	}
	header, err := arrowipc.EncodeSchema(schema)
	if err != nil {
		return nil, fmt.Errorf("ipc.NewStream: stream %q: %w", name, err)
	}
	s := &Stream{
		name: name, schema: schema, header: header, options: o, device: arrowbuf.CPU().String(),
		writing: make(chan struct{}, 1), subscribed: make(chan struct{}), ended: make(chan struct{}),
		subscribers: map[*Subscriber]struct{}{},
	}
	s.withdraw = func() { _ = c.Withdraw(name) } // the name may be withdrawn already
	if err := c.add(&publication{kind: KindStream, name: name, schema: schema, stream: s}); err != nil {
		return nil, err
	}
	return s, nil
}

// Schema returns the schema of all batches.
func (s *Stream) Schema() *arrow.Schema { return s.schema }

// Write sends a batch to all subscribers. It takes a reference for each until the
// subscriber has released the batch. Write blocks while a subscriber's queue is
// full. After Close the error wraps ErrClosed. Without subscribers the batch is
// only counted.
func (s *Stream) Write(ctx context.Context, batch arrow.RecordBatch) error {
	if batch == nil {
		return fmt.Errorf("ipc.Stream.Write: nil batch for stream %q: %w", s.name, arrow.ErrInvalid)
	}
	if !batch.Schema().Equal(s.schema) {
		return fmt.Errorf("ipc.Stream.Write: schema of a batch of stream %q: got %v, want %v: %w", s.name, batch.Schema(), s.schema, arrow.ErrInvalid)
	}
	select {
	case s.writing <- struct{}{}:
		defer func() { <-s.writing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	select {
	case <-s.ended:
		s.mu.Unlock()
		return fmt.Errorf("ipc.Stream.Write: stream %q: %w", s.name, ErrClosed)
	default:
	}
	o := newBatchObject(s.name, uint64(s.batches), batch, s.options.Options)
	defer o.release()
	s.batches++
	s.rows += batch.NumRows()
	s.bytes += o.bytes()
	s.device = batchDevice(batch).String()
	subscribers := make([]*Subscriber, 0, len(s.subscribers))
	for f := range s.subscribers {
		subscribers = append(subscribers, f)
	}
	s.mu.Unlock()
	for _, f := range subscribers {
		if err := f.enqueue(ctx, o); err != nil {
			return fmt.Errorf("ipc.Stream.Write: stream %q, batch %d: not all subscribers received it: %w", s.name, o.sequence, err)
		}
	}
	return nil
}

// WaitSubscribers blocks until the stream has at least n subscribers. The error
// wraps ErrClosed if the stream is closed first.
func (s *Stream) WaitSubscribers(ctx context.Context, n int) error {
	for {
		s.mu.Lock()
		count, joined := len(s.subscribers), s.subscribed
		s.mu.Unlock()
		if count >= n {
			return nil
		}
		select {
		case <-joined:
		case <-s.ended:
			return fmt.Errorf("ipc.Stream.WaitSubscribers: stream %q: %w", s.name, ErrClosed)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Close withdraws the stream. Subscribers receive the batches that were written,
// and then the end of the stream. A second Close does nothing.
func (s *Stream) Close() error {
	select {
	case <-s.ended:
	default:
		s.withdraw()
	}
	return nil
}

// finish ends the stream. Withdraw calls it once.
func (s *Stream) finish() { close(s.ended) }

func (s *Stream) totals() (rows, batches, bytes int64, subscribers uint32, device string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows, s.batches, s.bytes, uint32(len(s.subscribers)), s.device
}

// Subscriber receives the batches of a stream in the process that publishes it.
type Subscriber struct {
	stream *Stream
	ready  chan struct{} // signaled after a batch is queued
	space  chan struct{} // signaled after a batch is dequeued
	done   chan struct{} // closed by Close

	mu     sync.Mutex
	queue  []*object
	closed bool
}

// Subscribe returns a subscriber that receives the batches written after the
// call. The caller closes it.
func (c *Catalog) Subscribe(name string) (*Subscriber, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := c.lookup(name, KindStream)
	if err != nil {
		return nil, err
	}
	f := &Subscriber{stream: p.stream, ready: make(chan struct{}, 1), space: make(chan struct{}, 1), done: make(chan struct{})}
	p.stream.addSubscriber(f)
	return f, nil
}

func (s *Stream) addSubscriber(f *Subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscribers[f] = struct{}{}
	close(s.subscribed)
	s.subscribed = make(chan struct{})
}

func (s *Stream) removeSubscriber(f *Subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.subscribers, f)
}

// enqueue waits until the queue has space and appends an object. It returns nil
// without appending if the subscriber or the stream is closed first. Only the
// stream's writer calls it.
func (s *Subscriber) enqueue(ctx context.Context, o *object) error {
	for {
		s.mu.Lock()
		added := !s.closed && len(s.queue) < s.stream.options.Depth
		if added {
			o.retain()
			s.queue = append(s.queue, o)
		}
		s.mu.Unlock()
		if added {
			notify(s.ready)
			return nil
		}
		select {
		case <-s.space:
		case <-s.done:
			return nil
		case <-s.stream.ended:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// dequeue returns the next object. The caller owns one reference.
func (s *Subscriber) dequeue(ctx context.Context) (*object, error) {
	for ended := false; ; {
		s.mu.Lock()
		var o *object
		if len(s.queue) > 0 {
			o, s.queue = s.queue[0], s.queue[1:]
		}
		ended = ended || s.closed
		s.mu.Unlock()
		if o != nil {
			notify(s.space)
			return o, nil
		}
		if ended {
			return nil, fmt.Errorf("stream %q: %w", s.stream.name, ErrClosed)
		}
		select {
		case <-s.ready:
		case <-s.done:
		case <-s.stream.ended:
			ended = true // the queued batches are still returned
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Schema returns the schema of all batches.
func (s *Subscriber) Schema() *arrow.Schema { return s.stream.schema }

// Next returns the next batch and its sequence number in the stream. The caller
// owns one reference. At the end of the stream the error wraps ErrClosed.
func (s *Subscriber) Next(ctx context.Context) (batch arrow.RecordBatch, sequence uint64, err error) {
	o, err := s.dequeue(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer o.release()
	o.batch.Retain()
	return o.batch, o.sequence, nil
}

// Close ends the subscription and releases the queued batches. A second Close
// does nothing.
func (s *Subscriber) Close() {
	s.mu.Lock()
	objects := s.queue
	s.queue = nil
	if !s.closed {
		s.closed = true
		close(s.done)
	}
	s.mu.Unlock()
	s.stream.removeSubscriber(s)
	for _, o := range objects {
		o.release()
	}
}

// notify wakes the goroutine that waits on c, or the next one that does.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
