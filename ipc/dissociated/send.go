package dissociated

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/apache/arrow-go/v18/arrow/array"
	"golang.org/x/sync/errgroup"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
)

// SendOptions say how bodies go.
type SendOptions struct {
	// Window has bodies go as locations in it, which several streams may share;
	// nil has them go packed.
	Window *Window
	// FreeData is the tag of the client's messages that free locations. Without
	// a Window it has no meaning.
	FreeData Tag

	first uint32 // the first sequence number, 0 but in tests
}

const (
	// inFlight is how many messages may be encoded and not sent.
	inFlight = 16
	// maxFreed is the longest free_data message that is taken.
	maxFreed = 1 << 20
)

// Send sends the batches of a reader, which may live on any device, as a stream:
// the metadata and the bodies by two goroutines, so that a client may read the
// one before the other within limits. It takes over the link and returns when the
// client has freed all locations, or is gone: then its locations are free as well.
//
// A client that is gone before it has all is ErrPeerGone. Where the reader fails,
// or the context ends, the stream has no end, which the client sees. At the end of
// the context Send returns; what the client holds stays in use until it is freed
// or the client is gone.
func Send(ctx context.Context, link Link, batches array.RecordReader, o SendOptions) (err error) {
	stop := context.AfterFunc(ctx, func() { _ = link.closeSend() })
	defer stop()
	sending, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &sender{link: link, options: o, lent: newLent(), sequence: o.first}
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		if left := s.listen(); left != nil {
			s.lent.end(left)
			cancel(left)
		}
	}()
	if s.encoder, err = arrowipc.NewEncoder(batches.Schema()); err == nil {
		defer s.encoder.Release()
		err = s.send(sending, batches)
	}
	_ = link.closeSend() // which fails where the client is gone
	if o.Window != nil {
		back := s.lent.noMore()
		select {
		case <-back:
			err = errors.Join(err, s.lent.misuse())
		case <-ctx.Done():
			go func() {
				<-back
				_ = link.Close()
			}()
			return errors.Join(err, context.Cause(ctx))
		}
	}
	_ = link.Close()
	<-listening
	if err == nil {
		err = context.Cause(ctx)
	}
	return err
}

// sender is a stream on its way out.
type sender struct {
	link     Link
	options  SendOptions
	encoder  *arrowipc.Encoder
	lent     *lent
	sequence uint32 // of the next message
}

// outgoing is a message whose metadata is on its way.
type outgoing struct {
	sequence uint32
	*arrowipc.Message
}

// send returns when all is sent.
func (s *sender) send(ctx context.Context, batches array.RecordReader) error {
	group, ctx := errgroup.WithContext(ctx)
	headers, bodies := make(chan Metadata, inFlight), make(chan outgoing, inFlight)
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

// encode makes the messages, the end of the stream included.
func (s *sender) encode(ctx context.Context, batches array.RecordReader, headers chan<- Metadata, bodies chan<- outgoing) error {
	if err := s.metadata(ctx, s.encoder.Schema(), headers); err != nil {
		return err
	}
	for batches.Next() {
		messages, err := s.encoder.Encode(batches.RecordBatch())
		if err != nil {
			return err
		}
		for i, m := range messages {
			sequence := s.sequence
			if err := s.metadata(ctx, m.Metadata, headers); err != nil {
				releaseAll(messages[i:])
				return err
			}
			select {
			case bodies <- outgoing{sequence, m}:
			case <-ctx.Done():
				releaseAll(messages[i:])
				return context.Cause(ctx)
			}
		}
	}
	if err := batches.Err(); err != nil {
		return err
	}
	return s.metadata(ctx, nil, headers)
}

func (s *sender) metadata(ctx context.Context, header []byte, headers chan<- Metadata) error {
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

func (s *sender) sendBody(ctx context.Context, m outgoing) error {
	parts, err := m.Parts()
	if err != nil {
		return err
	}
	defer parts.Release()
	if s.options.Window == nil {
		tag := BodyTag(m.sequence, Packed)
		return s.link.Data.Send(&tag, packed(parts, m.BodyLength)...)
	}
	locations, err := s.locate(ctx, m.Metadata, parts)
	if err != nil {
		return err
	}
	tag := BodyTag(m.sequence, Located)
	return s.link.Data.Send(&tag, hostBuffer(locations.Append(nil)))
}

// packed is a body with its padding.
func packed(parts arrowipc.Parts, length int64) (body []arrowbuf.Buffer) {
	at := int64(0)
	pad := func(to int64) {
		if to > at {
			body = append(body, hostBuffer(make([]byte, to-at)))
		}
	}
	for _, part := range parts {
		pad(part.Offset)
		body = append(body, part.Buffer)
		at = part.Offset + part.Buffer.Len()
	}
	pad(length)
	return body
}

func hostBuffer(b []byte) arrowbuf.Buffer { return arrowbuf.WrapExternal(b, func() {}) }

// listen takes what the client says, until it is gone. The error is nil where
// nothing was expected of it.
func (s *sender) listen() error {
	for {
		m, err := s.link.Data.Receive(func(tag *Tag, n int64) (arrowbuf.Buffer, error) {
			if tag == nil || *tag != s.options.FreeData || s.options.Window == nil {
				return nil, fmt.Errorf("%w: a client's message is none that frees data", ErrProtocol)
			}
			return hostPlace(n, maxFreed)
		})
		switch {
		case errors.Is(err, io.EOF) && s.options.Window == nil:
			return nil
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%w: it closed the connection", ErrPeerGone)
		case err != nil:
			return err
		}
		bytes, _ := arrowbuf.HostBytes(m.Body)
		freed, err := ParseFreed(bytes)
		if err == nil {
			err = s.lent.freed(freed)
		}
		if err != nil {
			return err
		}
	}
}

// locate lends the parts of a body to the client, copied into the window where
// they do not lie in it, and answers where each buffer of the metadata is.
func (s *sender) locate(ctx context.Context, metadata []byte, parts arrowipc.Parts) (Locations, error) {
	info, err := arrowipc.Inspect(metadata)
	if err != nil {
		return nil, err
	}
	placed, err := s.options.Window.place(ctx, parts)
	if err != nil {
		return nil, err
	}
	locations := make(Locations, 0, len(info.Buffers))
	gone := false
	for _, extent := range info.Buffers {
		var l Location
		if extent.Length > 0 {
			l = Location{uint64(placed[0].offset), uint64(extent.Length)}
			gone = !s.lent.lend(l.Address, placed[0].giveBack) || gone
			placed = placed[1:]
		}
		locations = append(locations, l)
	}
	if gone {
		return nil, ErrPeerGone
	}
	return locations, nil
}

// lent is what a client was told the locations of and has not freed: for each
// address, once for each time it was sent, how to give it back.
type lent struct {
	mu    sync.Mutex
	by    map[uint64][]func()
	count int
	ended bool
	empty chan struct{} // closed once, when nothing is lent after last
	last  bool
	why   error // of the end, where that was none of the client's choice
}

func newLent() *lent { return &lent{by: map[uint64][]func(){}, empty: make(chan struct{})} }

// lend remembers an address. It answers false when the client is gone: then the
// memory was given back at once.
func (l *lent) lend(address uint64, giveBack func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		giveBack()
		return false
	}
	l.by[address] = append(l.by[address], giveBack)
	l.count++
	return true
}

// freed gives back what a free_data message names. Address 0 is that of empty
// buffers, which are not lent. One that is not lent is ErrProtocol.
func (l *lent) freed(addresses []uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range addresses {
		if one == 0 {
			continue
		}
		times := l.by[one]
		if len(times) == 0 {
			return fmt.Errorf("%w: free_data of %#x, where nothing is lent", ErrProtocol, one)
		}
		times[0]()
		if l.by[one] = times[1:]; len(times) == 1 {
			delete(l.by, one)
		}
		l.count--
	}
	l.check()
	return nil
}

// noMore says that nothing else will be lent. The channel is closed when all is
// back: a client that is gone gave it all back.
func (l *lent) noMore() (back <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = true
	l.check()
	return l.empty
}

// misuse is what the client did that it may not, if so.
func (l *lent) misuse() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(l.why, ErrPeerGone) {
		return nil
	}
	return l.why
}

func (l *lent) check() {
	if l.last && l.count == 0 && !l.ended {
		l.ended = true
		close(l.empty)
	}
}

// end gives everything back: the client is gone, or did what it may not.
func (l *lent) end(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, times := range l.by {
		for _, giveBack := range times {
			giveBack()
		}
	}
	clear(l.by)
	if !l.ended {
		l.why = why
	}
	l.count, l.last = 0, true
	l.check()
}
