package ipc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/ipc/internal/wire"
)

// List returns the server's published names in ascending order.
func (c *Client) List(ctx context.Context) ([]Entry, error) {
	payload, err := c.roundTrip(ctx, wire.List, wire.Listing)
	if err != nil {
		return nil, fmt.Errorf("ipc.Client.List: %w", err)
	}
	entries, err := wire.ParseListing(payload)
	return entriesOf(entries), err
}

// Stat returns the server's clients with their leases, and its shared blocks.
func (c *Client) Stat(ctx context.Context) (Stats, error) {
	payload, err := c.roundTrip(ctx, wire.Stat, wire.Stats)
	if err != nil {
		return Stats{}, fmt.Errorf("ipc.Client.Stat: %w", err)
	}
	var stats wire.StatsMessage
	err = stats.Parse(payload)
	return statsOf(stats), err
}

// Ping sends a request and waits for the server's reply.
func (c *Client) Ping(ctx context.Context) error {
	if _, err := c.roundTrip(ctx, wire.Ping, wire.Pong); err != nil {
		return fmt.Errorf("ipc.Client.Ping: %w", err)
	}
	return nil
}

// Table is a published table.
type Table struct {
	Schema  *arrow.Schema
	Batches []arrow.RecordBatch
}

// Release releases all batches.
func (t *Table) Release() {
	for _, b := range t.Batches {
		b.Release()
	}
	t.Batches = nil
}

// Table returns a table of the server. The caller releases it. The batches show
// the server's memory, which is read-only on a GPU; the last release of a batch
// ends its lease. If the server is in this process, they are the published
// batches themselves. The error wraps ErrNotFound or ErrWrongKind if no such
// table is published.
func (c *Client) Table(ctx context.Context, name string) (t *Table, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("ipc.Client.Table: table %q: %w", name, err)
		}
	}()
	if err := checkName(name); err != nil {
		return nil, err
	}
	request, err := c.startRequest(ctx, wire.Get, wire.AppendName(nil, name), &pendingRequest{name: name})
	if err != nil {
		return nil, err
	}
	defer request.abandon()
	r := batchReader{request: request}
	got := &Table{}
	if got.Schema, err = r.readSchema(ctx); err != nil {
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

// Buffer returns a read-only buffer that shows the server's memory. The caller owns
// one reference; the last release ends the lease. The error wraps ErrNotFound or
// ErrWrongKind if no such buffer is published.
func (c *Client) Buffer(ctx context.Context, name string) (arrowbuf.Buffer, error) {
	layout, b, err := c.getBuffer(ctx, name)
	if err == nil && layout != nil {
		b.Release()
		err = fmt.Errorf("the name is an array: %w", ErrWrongKind)
	}
	if err != nil {
		return nil, fmt.Errorf("ipc.Client.Buffer: buffer %q: %w", name, err)
	}
	return b, nil
}

// Array returns the layout of a published array, and a read-only buffer that shows
// the server's memory. The caller owns one reference to the buffer; its last release
// ends the lease. The layout comes from the server unread; package ndarray checks it
// and returns NDBuffers. The error wraps ErrNotFound or ErrWrongKind if no such array
// is published.
func (c *Client) Array(ctx context.Context, name string) (layout []byte, b arrowbuf.Buffer, err error) {
	layout, b, err = c.getBuffer(ctx, name)
	if err == nil && layout == nil {
		b.Release()
		err = fmt.Errorf("the name is a buffer: %w", ErrWrongKind)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("ipc.Client.Array: array %q: %w", name, err)
	}
	return layout, b, nil
}

// getBuffer returns a published buffer and, of an array, its layout.
func (c *Client) getBuffer(ctx context.Context, name string) (layout []byte, b arrowbuf.Buffer, err error) {
	if err := checkName(name); err != nil {
		return nil, nil, err
	}
	request, err := c.startRequest(ctx, wire.Get, wire.AppendName(nil, name), &pendingRequest{name: name})
	if err != nil {
		return nil, nil, err
	}
	defer request.abandon()
	e, err := request.next(ctx)
	if err != nil {
		return nil, nil, err
	}
	if e.batch == nil {
		return nil, nil, fmt.Errorf("the name is a table: %w", ErrWrongKind)
	}
	defer e.lease.release()
	if !e.batch.OfBuffer() {
		return nil, nil, c.fault("got a batch, want a buffer")
	}
	bodies, err := e.openBodies(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer bodies.release()
	switch {
	case bodies.local != nil && bodies.local.buffer == nil:
		return nil, nil, c.fault("got a batch, want a buffer")
	case bodies.local != nil:
		b = bodies.local.buffer
	case len(bodies.parts[0]) > 0:
		b = bodies.parts[0][0].Buffer
	default:
		b, err = arrowbuf.CPU().Alloc(0)
		if err != nil {
			return nil, nil, err
		}
		defer b.Release()
	}
	if len(e.batch.Parts[0].Metadata) > 0 {
		layout = slices.Clone(e.batch.Parts[0].Metadata)
	}
	b, err = readOnly(b)
	return layout, b, err
}

// Subscription reads a stream of a server. Only one goroutine may use it at a
// time.
type Subscription struct {
	batchReader
	name   string
	schema *arrow.Schema
	window uint32 // the flow control window, in batches
	taken  uint32 // batches returned since the last CREDIT
	ended  bool
}

// checkName returns an error for an invalid name. Sending such a name would end
// the connection.
func checkName(name string) error {
	if wire.CheckName(name) != nil {
		return fmt.Errorf("want a name of 1 to %d bytes of UTF-8 without control characters: %w", wire.MaxName, ErrNotFound)
	}
	return nil
}

// Stream subscribes to a stream; the first batch is the next one that is written.
// The server sends up to window batches before Next returns them, then its writer
// blocks. The caller closes the subscription. The error wraps ErrNotFound or
// ErrWrongKind if no such stream is published.
func (c *Client) Stream(ctx context.Context, name string, window int) (*Subscription, error) {
	if window < 1 || window > 1<<20 {
		return nil, fmt.Errorf("ipc.Client.Stream: stream %q: window: got %d batches, want 1 to %d: %w", name, window, 1<<20, arrowbuf.ErrOutOfRange)
	}
	if err := checkName(name); err != nil {
		return nil, fmt.Errorf("ipc.Client.Stream: stream %q: %w", name, err)
	}
	request, err := c.startRequest(ctx, wire.Subscribe, wire.AppendSubscribe(nil, uint32(window), name), &pendingRequest{name: name, stream: true})
	if err != nil {
		return nil, fmt.Errorf("ipc.Client.Stream: stream %q: %w", name, err)
	}
	s := &Subscription{batchReader: batchReader{request: request}, name: name, window: uint32(window)}
	if s.schema, err = s.readSchema(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("ipc.Client.Stream: stream %q: %w", name, err)
	}
	return s, nil
}

// Schema returns the schema of all batches.
func (s *Subscription) Schema() *arrow.Schema { return s.schema }

// Next returns the next batch, which shows the server's memory. The caller owns
// one reference; the last release ends the lease. At the end of the stream it
// returns io.EOF.
func (s *Subscription) Next(ctx context.Context) (arrow.RecordBatch, error) {
	if s.ended {
		return nil, io.EOF
	}
	batch, err := s.next(ctx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("ipc.Subscription.Next: stream %q: %w", s.name, err)
	case batch == nil:
		s.ended = true
		return nil, io.EOF
	}
	if s.taken++; 2*s.taken >= s.window {
		s.request.client.out.Put(wire.Frame{Type: wire.Credit, Request: s.request.number, Payload: wire.AppendCredit(nil, s.taken)})
		s.taken = 0
	}
	return batch, nil
}

// Close ends the subscription. Batches stay valid until they are released.
func (s *Subscription) Close() {
	if !s.ended {
		s.ended = true
		s.request.client.out.Put(wire.Frame{Type: wire.Cancel, Request: s.request.number})
	}
	s.request.abandon()
}

// batchReader decodes the batches of a request's responses.
type batchReader struct {
	request  *pendingRequest
	metadata []byte // of the schema
	decoder  *arrowipc.Decoder
	dev      arrowbuf.Device // the device of the decoder
}

// readSchema waits for the schema.
func (r *batchReader) readSchema(ctx context.Context) (*arrow.Schema, error) {
	e, err := r.request.next(ctx)
	if err != nil {
		return nil, err
	}
	if e.frame.Type != wire.Schema {
		e.release()
		if e.batch != nil && e.batch.OfBuffer() {
			return nil, fmt.Errorf("the name is a buffer or an array: %w", ErrWrongKind)
		}
		return nil, r.request.client.fault("got %v, want SCHEMA", e.frame.Type)
	}
	r.metadata = e.frame.Payload
	dev := arrowbuf.CPU()
	if gpus := r.request.client.gpus; len(gpus) > 0 {
		dev = gpus[0] // the most likely device
	}
	if err := r.setDevice(dev); err != nil {
		return nil, err
	}
	return r.decoder.Schema(), nil
}

// setDevice sets the device of the decoder.
func (r *batchReader) setDevice(dev arrowbuf.Device) (err error) {
	if r.dev != dev {
		r.decoder, err = arrowipc.NewDecoder(r.metadata, dev)
		r.dev = dev
	}
	return err
}

// next waits for the next batch. At the end it returns nil.
func (r *batchReader) next(ctx context.Context) (arrow.RecordBatch, error) {
	e, err := r.request.next(ctx)
	if err != nil {
		return nil, err
	}
	switch e.frame.Type {
	case wire.End:
		return nil, nil
	case wire.Batch:
		defer e.lease.release()
		batch, err := r.decodeBatch(ctx, e)
		if err != nil {
			return nil, fmt.Errorf("batch %d of %q: %w", e.batch.Sequence, e.lease.name, err)
		}
		return batch, nil
	default:
		return nil, r.request.client.fault("got %v, want BATCH", e.frame.Type)
	}
}

// decodeBatch decodes the messages of a batch.
func (r *batchReader) decodeBatch(ctx context.Context, e response) (arrow.RecordBatch, error) {
	bodies, err := e.openBodies(ctx)
	if err != nil {
		return nil, err
	}
	defer bodies.release()
	if l := bodies.local; l != nil {
		if l.batch == nil {
			return nil, r.request.client.fault("got a buffer, want a batch")
		}
		l.batch.Retain()
		return l.batch, nil
	}
	if err := r.setDevice(bodies.dev); err != nil {
		return nil, err
	}
	defer r.decoder.Release() // each batch brings its own dictionaries
	for i, p := range e.batch.Parts {
		batch, err := r.decoder.Decode(p.Metadata, bodies.parts[i])
		if err != nil {
			return nil, err
		}
		if last := i == len(e.batch.Parts)-1; batch != nil != last {
			if batch != nil {
				batch.Release()
			}
			return nil, r.request.client.fault("message %d of %d of a batch: want a record batch as the last message only", i+1, len(e.batch.Parts))
		} else if last {
			return batch, nil
		}
	}
	return nil, nil // not reached: a BATCH has at least one part
}

// batchBodies holds the bodies of a batch's messages.
type batchBodies struct {
	dev   arrowbuf.Device
	parts []arrowipc.Parts
	local *localObject
}

// openBodies returns the bodies of a batch. Each block gets one view, and each
// region a slice of that view.
func (e response) openBodies(ctx context.Context) (*batchBodies, error) {
	b := &batchBodies{dev: arrowbuf.CPU(), parts: make([]arrowipc.Parts, len(e.batch.Parts))}
	shown := map[uint64]arrowbuf.Buffer{}
	defer func() {
		for _, buffer := range shown {
			buffer.Release()
		}
	}()
	for n, block := range e.lease.blocks {
		if block.err != nil {
			return nil, e.lease.client.explainOpenError(ctx, block.err)
		}
		if block.local != nil {
			return &batchBodies{local: block.local}, nil
		}
		b.dev = block.device()
		buffer, err := block.view(e.lease, 0, block.size, e.batch.Pending)
		if err != nil {
			return nil, err
		}
		shown[n] = buffer
	}
	for i, p := range e.batch.Parts {
		for _, r := range p.Regions {
			part, err := shown[r.Block].Slice(r.Offset, r.Length)
			if err != nil {
				b.release()
				return nil, err
			}
			b.parts[i] = append(b.parts[i], arrowipc.Part{Offset: r.BodyOffset, Buffer: part})
		}
	}
	return b, nil
}

// explainOpenError adds ErrServerGone to an error of opening memory if the server
// has died. The connection may not have reported the death yet.
func (c *Client) explainOpenError(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if gone := c.Ping(ctx); errors.Is(gone, ErrServerGone) {
		return fmt.Errorf("%w: %w", gone, err)
	}
	return err
}

func (b *batchBodies) release() {
	for _, parts := range b.parts {
		parts.Release()
	}
}

// readFrames reads and handles frames until the connection ends.
func (c *Client) readFrames() {
	defer close(c.readerDone)
	for {
		f, err := c.in.Read()
		if err == nil {
			err = c.handleFrame(f)
		}
		if err != nil {
			if failed := c.out.Err(); failed != nil && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) {
				// A failed write ended the connection, and the server has not sent why. That
				// the queue is too long is a fault of neither.
				err = fmt.Errorf("%w: %s", ErrServerGone, failed.Error())
			}
			c.fail(c.connectionError(err))
			return
		}
	}
}

// handleFrame handles one frame. An error ends the connection.
func (c *Client) handleFrame(f wire.Frame) error {
	defer func() { f.CloseFile() }()
	switch f.Type {
	case wire.Block:
		return c.handleBlock(&f)
	case wire.Forget:
		return c.handleForget(f)
	case wire.Batch:
		m := new(wire.BatchMessage)
		if err := m.Parse(f.Payload); err != nil {
			return err
		}
		return c.handleBatch(f, m)
	case wire.Error:
		if f.Request == 0 {
			return parseError(f.Payload)
		}
		return c.handleReply(f, true)
	case wire.Schema:
		return c.handleReply(f, false)
	case wire.Listing, wire.Stats, wire.Pong, wire.End:
		return c.handleReply(f, true)
	default:
		return fmt.Errorf("only clients send %v: %w", f.Type, ErrFault)
	}
}

// handleReply delivers a frame to its request. If last is true, the frame ends
// the request.
func (c *Client) handleReply(f wire.Frame, last bool) error {
	c.mu.Lock()
	request := c.requests[f.Request]
	if last && request != nil {
		delete(c.requests, f.Request)
		if request.slot {
			<-c.slots
		}
	}
	ended := c.hasEnded()
	c.mu.Unlock()
	switch {
	case request != nil:
		request.deliver(response{frame: f})
	case !ended:
		return fmt.Errorf("%v for request %d, which is not in progress: %w", f.Type, f.Request, ErrFault)
	}
	return nil
}

// handleBlock opens a block. A failure is reported to the requests that need the
// block.
func (c *Client) handleBlock(f *wire.Frame) error {
	var m wire.BlockMessage
	if err := m.Parse(f.Payload); err != nil {
		return err
	}
	if m.Descriptor.Mechanism.HasFile() != (f.File != nil) {
		return fmt.Errorf("block %d through %v, with descriptor: %v: %w", m.Block, m.Descriptor.Mechanism, f.File != nil, ErrFault)
	}
	c.mu.Lock()
	exists := c.blocks[m.Block] != nil
	c.mu.Unlock()
	if exists {
		return fmt.Errorf("block %d was announced a second time: %w", m.Block, ErrFault)
	}
	b := c.openBlock(m, f.File)
	c.mu.Lock()
	ended := c.hasEnded()
	if !ended {
		c.blocks[m.Block] = b
	}
	c.mu.Unlock()
	if ended {
		b.close()
	}
	return nil
}

// handleForget closes blocks and confirms that.
func (c *Client) handleForget(f wire.Frame) error {
	numbers, err := wire.ParseNumbers(f.Payload)
	if err != nil {
		return err
	}
	var unused []*openedBlock
	c.mu.Lock()
	for _, n := range numbers {
		switch b := c.blocks[n]; {
		case b == nil && c.err == nil:
			err = fmt.Errorf("FORGET of block %d, which was not announced: %w", n, ErrFault)
		case b != nil && b.leases > 0:
			err = fmt.Errorf("FORGET of block %d, which has %d leases: %w", n, b.leases, ErrFault)
		case b != nil:
			unused = append(unused, b)
			delete(c.blocks, n)
		}
	}
	c.mu.Unlock()
	closeBlocks(unused)
	if err == nil {
		c.out.Put(wire.Frame{Type: wire.Forgotten, Payload: f.Payload})
	}
	return err
}

// handleBatch records the lease of a batch and delivers the batch to its request.
func (c *Client) handleBatch(f wire.Frame, m *wire.BatchMessage) error {
	c.mu.Lock()
	request := c.requests[f.Request]
	ended := c.hasEnded()
	if ended || request == nil || m.Lease != c.lastLease+1 {
		c.mu.Unlock()
		if ended {
			return nil
		}
		return fmt.Errorf("lease %d after %d, for request %d: %w", m.Lease, c.lastLease, f.Request, ErrFault)
	}
	c.lastLease = m.Lease
	l, err := c.newClientLease(request.name, m)
	c.mu.Unlock()
	if err != nil {
		return err
	}
	request.deliver(response{frame: f, batch: m, lease: l})
	return nil
}
