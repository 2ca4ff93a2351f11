package dissociated

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"golang.org/x/sync/errgroup"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
)

// SendOptions configures how bodies are sent.
type SendOptions struct {
	// Window, if not nil, makes Send send bodies as locations in it. Several
	// streams may share a window. nil sends packed bodies.
	Window *Window
	// FreeData is the tag of the client's messages that free locations. It is
	// unused without a Window.
	FreeData Tag

	first uint32 // the first sequence number; not 0 only in tests
}

const (
	// maxQueuedMessages is the maximum number of encoded messages that are not
	// sent yet.
	maxQueuedMessages = 16
	// maxFreedLength is the maximum length of a free_data message.
	maxFreedLength = 1 << 20
)

// Send sends the batches of a reader, on any device, as a stream. Two goroutines
// send the metadata and the bodies, so a client may read one ahead of the other,
// within limits. Send takes ownership of the link. It returns when the client has
// freed all locations or is gone.
//
// If the client is gone before it has received everything, the error wraps
// ErrPeerGone. If the reader fails or ctx is done, the stream is cut off, which
// the client notices. If ctx is done, Send returns at once; locations stay in use
// until the client frees them or is gone.
func Send(ctx context.Context, link Link, batches array.RecordReader, o SendOptions) (err error) {
	if err := link.check(); err != nil {
		return fmt.Errorf("dissociated.Send: %w", err)
	}
	if batches == nil {
		return errors.Join(fmt.Errorf("dissociated.Send: nil reader: %w", arrow.ErrInvalid), link.closeSend())
	}
	stop := context.AfterFunc(ctx, func() { _ = link.closeSend() })
	defer stop()
	sending, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &sender{link: link, options: o, leases: newLeaseTable(), sequence: o.first}
	readingFreed := make(chan struct{})
	go func() {
		defer close(readingFreed)
		if readErr := s.readFreed(); readErr != nil {
			s.leases.closeWith(readErr)
			cancel(readErr)
		}
	}()
	if s.encoder, err = arrowipc.NewEncoder(batches.Schema()); err == nil {
		defer s.encoder.Release()
		err = s.send(sending, batches)
	}
	_ = link.closeSend() // fails if the client is gone
	if o.Window != nil {
		allFreed := s.leases.finish()
		select {
		case <-allFreed:
			err = errors.Join(err, s.leases.clientError())
		case <-ctx.Done():
			go func() {
				<-allFreed
				_ = link.Close()
			}()
			return errors.Join(err, context.Cause(ctx))
		}
	}
	_ = link.Close()
	<-readingFreed
	if err == nil {
		err = context.Cause(ctx)
	}
	return err
}

// sender holds the state of a stream that is sent.
type sender struct {
	link     Link
	options  SendOptions
	encoder  *arrowipc.Encoder
	leases   *leaseTable
	sequence uint32 // of the next message
}

// outgoingBody is a message whose metadata is queued.
type outgoingBody struct {
	sequence uint32
	*arrowipc.Message
}

// send sends all messages of the stream.
func (s *sender) send(ctx context.Context, batches array.RecordReader) error {
	group, ctx := errgroup.WithContext(ctx)
	headers, bodies := make(chan Metadata, maxQueuedMessages), make(chan outgoingBody, maxQueuedMessages)
	group.Go(func() error {
		defer close(headers)
		defer close(bodies)
		return s.encode(ctx, batches, headers, bodies)
	})
	group.Go(func() error {
		for m := range headers {
			if err := s.link.Metadata.Send(nil, hostBuffer(m.Append(nil))); err != nil {
				return fmt.Errorf("metadata message %d: %w", m.Sequence, err)
			}
		}
		return nil
	})
	group.Go(func() error {
		for m := range bodies {
			err := s.sendBody(ctx, m)
			m.Release()
			if err != nil {
				return fmt.Errorf("body %d: %w", m.sequence, err)
			}
		}
		return nil
	})
	err := group.Wait()
	for m := range bodies {
		m.Release()
	}
	return err
}

// encode encodes all messages and the end of the stream.
func (s *sender) encode(ctx context.Context, batches array.RecordReader, headers chan<- Metadata, bodies chan<- outgoingBody) error {
	if err := s.queueMetadata(ctx, s.encoder.Schema(), headers); err != nil {
		return err
	}
	for batches.Next() {
		messages, err := s.encoder.Encode(batches.RecordBatch())
		if err != nil {
			return err
		}
		for i, m := range messages {
			sequence := s.sequence
			if err := s.queueMetadata(ctx, m.Metadata, headers); err != nil {
				releaseAll(messages[i:])
				return err
			}
			select {
			case bodies <- outgoingBody{sequence, m}:
			case <-ctx.Done():
				releaseAll(messages[i:])
				return context.Cause(ctx)
			}
		}
	}
	if err := batches.Err(); err != nil {
		return err
	}
	return s.queueMetadata(ctx, nil, headers)
}

func (s *sender) queueMetadata(ctx context.Context, header []byte, headers chan<- Metadata) error {
	select {
	case headers <- Metadata{s.sequence, header}:
		s.sequence++
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func releaseAll(messages []*arrowipc.Message) {
	for _, m := range messages {
		m.Release()
	}
}

func (s *sender) sendBody(ctx context.Context, m outgoingBody) error {
	parts, err := m.Parts()
	if err != nil {
		return err
	}
	defer parts.Release()
	if s.options.Window == nil {
		tag := BodyTag(m.sequence, Packed)
		return s.link.Data.Send(&tag, packBody(parts, m.BodyLength)...)
	}
	locations, err := s.leaseParts(ctx, m.Metadata, parts)
	if err != nil {
		return err
	}
	tag := BodyTag(m.sequence, Located)
	return s.link.Data.Send(&tag, hostBuffer(locations.Append(nil)))
}

// packBody returns the buffers of a body, with its padding.
func packBody(parts arrowipc.Parts, length int64) (body []arrowbuf.Buffer) {
	offset := int64(0)
	pad := func(to int64) {
		if to > offset {
			body = append(body, hostBuffer(make([]byte, to-offset)))
		}
	}
	for _, part := range parts {
		pad(part.Offset)
		body = append(body, part.Buffer)
		offset = part.Offset + part.Buffer.Len()
	}
	pad(length)
	return body
}

func hostBuffer(b []byte) arrowbuf.Buffer { return arrowbuf.WrapExternal(b, func() {}) }

// readFreed reads the client's free_data messages until the connection ends. The
// error is nil if no messages were expected.
func (s *sender) readFreed() error {
	for {
		m, err := s.link.Data.Receive(func(tag *Tag, n int64) (arrowbuf.Buffer, error) {
			if tag == nil || *tag != s.options.FreeData || s.options.Window == nil {
				return nil, fmt.Errorf("%w: want a free_data message from the client", ErrProtocol)
			}
			return allocateHostBuffer(n, maxFreedLength)
		})
		switch {
		case errors.Is(err, io.EOF) && s.options.Window == nil:
			return nil
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%w: the client closed the connection", ErrPeerGone)
		case err != nil:
			return err
		}
		bytes, _ := arrowbuf.HostBytes(m.Body)
		freed, err := ParseFreed(bytes)
		if err == nil {
			err = s.leases.free(freed)
		}
		if err != nil {
			return err
		}
	}
}

// leaseParts makes leases on the parts of a body and returns the location of each
// buffer of the metadata. It copies parts outside the window into it.
func (s *sender) leaseParts(ctx context.Context, metadata []byte, parts arrowipc.Parts) (Locations, error) {
	info, err := arrowipc.Inspect(metadata)
	if err != nil {
		return nil, err
	}
	windowParts, err := s.options.Window.addParts(ctx, parts)
	if err != nil {
		return nil, err
	}
	locations := make(Locations, 0, len(info.Buffers))
	gone := false
	for _, extent := range info.Buffers {
		var l Location
		if extent.Length > 0 {
			l = Location{uint64(windowParts[0].offset), uint64(extent.Length)}
			gone = !s.leases.add(l.Address, windowParts[0].release) || gone
			windowParts = windowParts[1:]
		}
		locations = append(locations, l)
	}
	if gone {
		return nil, ErrPeerGone
	}
	return locations, nil
}

// leaseTable holds the locations that were sent to a client and that the client
// has not freed. An address has one release function for each time it was sent.
type leaseTable struct {
	mu       sync.Mutex
	releases map[uint64][]func()
	count    int
	closed   bool          // no leases can be added
	allFreed chan struct{} // closed when all leases are freed after finish
	finished bool          // finish was called
	err      error         // the reason for closeWith
}

func newLeaseTable() *leaseTable {
	return &leaseTable{releases: map[uint64][]func(){}, allFreed: make(chan struct{})}
}

// add adds a lease. If the client is gone, it calls release and returns false.
func (l *leaseTable) add(address uint64, release func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		release()
		return false
	}
	l.releases[address] = append(l.releases[address], release)
	l.count++
	return true
}

// free ends the leases of a free_data message. It ignores address 0, the address
// of empty buffers. The error wraps ErrProtocol if an address has no lease.
func (l *leaseTable) free(addresses []uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, address := range addresses {
		if address == 0 {
			continue
		}
		releases := l.releases[address]
		if len(releases) == 0 {
			return fmt.Errorf("%w: free_data of %#x, which has no lease", ErrProtocol, address)
		}
		releases[0]()
		if l.releases[address] = releases[1:]; len(releases) == 1 {
			delete(l.releases, address)
		}
		l.count--
	}
	l.closeIfEmpty()
	return nil
}

// finish declares that no more leases are added. The returned channel is closed
// when all leases have ended.
func (l *leaseTable) finish() (allFreed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finished = true
	l.closeIfEmpty()
	return l.allFreed
}

// clientError returns the error if the client violated the protocol.
func (l *leaseTable) clientError() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(l.err, ErrPeerGone) {
		return nil
	}
	return l.err
}

func (l *leaseTable) closeIfEmpty() {
	if l.finished && l.count == 0 && !l.closed {
		l.closed = true
		close(l.allFreed)
	}
}

// closeWith ends all leases, because the client is gone or has violated the
// protocol.
func (l *leaseTable) closeWith(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, releases := range l.releases {
		for _, release := range releases {
			release()
		}
	}
	clear(l.releases)
	if !l.closed {
		l.err = err
	}
	l.count, l.finished = 0, true
	l.closeIfEmpty()
}
