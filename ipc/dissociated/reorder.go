package dissociated

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// maxSequenceGap is the maximum difference between a sequence number and the next
// expected one.
const maxSequenceGap = 1 << 16

// reorderBuffer holds the messages that arrive before their turn. The two streams
// arrive in any order; messages leave by their sequence numbers.
type reorderBuffer struct {
	limit int64 // the maximum number of buffered bytes

	mu            sync.Mutex
	changed       sync.Cond
	next          uint32              // the next sequence number to leave
	headers       map[uint32]Metadata // buffered metadata
	bodies        map[uint32]body     // buffered bodies
	bufferedBytes int64               // the bytes of both
	awaited       awaitedKind         // what the reader waits for, of message next
	metadataErr   error               // the error that ended the metadata stream
	dataErr       error               // the error that ended the body stream
	closed        bool
}

// awaitedKind is the kind of message that the reader waits for.
type awaitedKind int

const (
	awaitsNothing awaitedKind = iota
	awaitsMetadata
	awaitsBody
)

// stallTimeout bounds the time that the body stream may be blocked while the
// reader waits for metadata that does not come. A server may wait for one stream
// before it sends the other.
const stallTimeout = 10 * time.Second

type body struct {
	kind   BodyKind
	buffer arrowbuf.Buffer
}

func newReorderBuffer(first uint32, limit int64) *reorderBuffer {
	b := &reorderBuffer{limit: limit, next: first, headers: map[uint32]Metadata{}, bodies: map[uint32]body{}}
	b.changed.L = &b.mu
	return b
}

var errClosed = errors.New("the reader was released")

// checkSequence returns an error if a sequence number is too far from the next
// one.
func (b *reorderBuffer) checkSequence(sequence uint32) error {
	if ahead := sequence - b.next; ahead >= maxSequenceGap {
		return fmt.Errorf("%w: sequence number: got %d, but %d is next", ErrProtocol, sequence, b.next)
	}
	return nil
}

// reserve waits until a body may be read: it is the next one, or the buffer has
// space for it. The error wraps ErrTooLarge if the buffer is full and the next
// message can only come later.
func (b *reorderBuffer) reserve(sequence uint32, n int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var stalledSince time.Time
	for {
		if b.closed {
			return errClosed
		}
		if err := b.checkSequence(sequence); err != nil {
			return err
		}
		if sequence == b.next || len(b.bodies) == 0 || n <= b.limit-b.bufferedBytes {
			b.bufferedBytes += n
			return nil
		}
		switch missing := b.missing(); {
		case missing == awaitsNothing:
			stalledSince = time.Time{}
		case missing == awaitsBody || !stalledSince.IsZero() && time.Since(stalledSince) >= stallTimeout:
			return fmt.Errorf("%w: body %d of %d bytes arrived before message %d, with %d of at most %d bytes buffered", ErrTooLarge, sequence, n, b.next, b.bufferedBytes, b.limit)
		case stalledSince.IsZero():
			stalledSince = time.Now()
			time.AfterFunc(stallTimeout, b.changed.Broadcast)
		}
		b.changed.Wait()
	}
}

// missing returns what the reader waits for and is not buffered.
func (b *reorderBuffer) missing() awaitedKind {
	var buffered bool
	switch b.awaited {
	case awaitsMetadata:
		_, buffered = b.headers[b.next]
	case awaitsBody:
		_, buffered = b.bodies[b.next]
	}
	if buffered {
		return awaitsNothing
	}
	return b.awaited
}

// addBody adds a body for which reserve returned nil, and takes ownership of it.
func (b *reorderBuffer) addBody(sequence uint32, one body) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, duplicate := b.bodies[sequence]
	switch {
	case b.closed:
		one.buffer.Release()
		return errClosed
	case duplicate:
		one.buffer.Release()
		return fmt.Errorf("%w: body %d arrived twice", ErrProtocol, sequence)
	}
	b.bodies[sequence] = one
	b.changed.Broadcast()
	return nil
}

// addMetadata adds a metadata message when the buffer has space for it.
func (b *reorderBuffer) addMetadata(m Metadata) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := int64(len(m.Header))
	for !b.closed && m.Sequence != b.next && len(b.headers) > 0 && n > b.limit-b.bufferedBytes {
		if b.missing() == awaitsMetadata {
			return fmt.Errorf("%w: metadata message %d arrived before %d, with %d of at most %d bytes buffered", ErrTooLarge, m.Sequence, b.next, b.bufferedBytes, b.limit)
		}
		b.changed.Wait()
	}
	if b.closed {
		return errClosed
	}
	if err := b.checkSequence(m.Sequence); err != nil {
		return err
	}
	if _, duplicate := b.headers[m.Sequence]; duplicate {
		return fmt.Errorf("%w: metadata message %d arrived twice", ErrProtocol, m.Sequence)
	}
	b.bufferedBytes += n
	b.headers[m.Sequence] = m
	b.changed.Broadcast()
	return nil
}

// fail records the error of the metadata stream, the body stream, or both. io.EOF
// becomes ErrPeerGone.
func (b *reorderBuffer) fail(metadata, data bool, err error) {
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: the connection ended before the stream", ErrPeerGone)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if metadata && b.metadataErr == nil {
		b.metadataErr = err
	}
	if data && b.dataErr == nil {
		b.dataErr = err
	}
	b.changed.Broadcast()
}

// nextMetadata waits for the next metadata message.
func (b *reorderBuffer) nextMetadata() (Metadata, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.await(awaitsMetadata)()
	for {
		if m, ok := b.headers[b.next]; ok {
			delete(b.headers, b.next)
			b.bufferedBytes -= int64(len(m.Header))
			b.changed.Broadcast()
			return m, nil
		}
		if b.metadataErr != nil {
			return Metadata{}, b.metadataErr
		}
		// An invalid body ends both streams.
		if b.dataErr != nil && !errors.Is(b.dataErr, ErrPeerGone) {
			return Metadata{}, b.dataErr
		}
		b.changed.Wait()
	}
}

// nextBody waits for the body of the next message. The caller owns it.
func (b *reorderBuffer) nextBody() (body, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.await(awaitsBody)()
	for {
		if next, ok := b.bodies[b.next]; ok {
			delete(b.bodies, b.next)
			b.bufferedBytes -= next.buffer.Len()
			b.changed.Broadcast()
			return next, nil
		}
		if b.dataErr != nil {
			return body{}, b.dataErr
		}
		b.changed.Wait()
	}
}

// await records what the reader waits for until the result is called.
func (b *reorderBuffer) await(w awaitedKind) (done func()) {
	b.awaited = w
	b.changed.Broadcast()
	return func() { b.awaited = awaitsNothing }
}

// advance moves to the next sequence number. It returns an error if the current
// message has an unread body.
func (b *reorderBuffer) advance() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, unread := b.bodies[b.next]; unread {
		return fmt.Errorf("%w: message %d has a body, want none", ErrProtocol, b.next)
	}
	b.next++
	b.changed.Broadcast()
	return nil
}

// checkEnd returns an error if messages follow the end of the stream.
func (b *reorderBuffer) checkEnd() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if count := len(b.bodies) + len(b.headers); count > 0 {
		return fmt.Errorf("%w: %d messages after the end of the stream, number %d", ErrProtocol, count, b.next)
	}
	return nil
}

// close makes all waiting calls return and releases the buffered messages.
func (b *reorderBuffer) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, buffered := range b.bodies {
		buffered.buffer.Release()
	}
	clear(b.bodies)
	clear(b.headers)
	b.closed = true
	b.changed.Broadcast()
}
