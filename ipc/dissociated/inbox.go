package dissociated

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// farAhead is by how many sequence numbers a message may be ahead of its turn.
const farAhead = 1 << 16

// inbox is where messages wait for their turn: those of both streams arrive in
// any order, and leave by their sequence numbers.
type inbox struct {
	limit int64 // how many bytes may wait

	mu       sync.Mutex
	changed  sync.Cond
	next     uint32              // whose turn it is
	headers  map[uint32]Metadata // that wait
	bodies   map[uint32]body     // that wait
	waiting  int64               // their bytes
	wanted   want                // what somebody waits for, of next
	metadata error               // why the stream of metadata goes no further
	data     error               // why the stream of bodies goes no further
	closed   bool
}

type want int

const (
	wantsNothing want = iota
	wantsMetadata
	wantsBody
)

// patience is how long a stream of bodies may be held up while nothing comes on
// that of metadata: a server may be waiting for the one to send the other.
const patience = 10 * time.Second

type body struct {
	kind   BodyKind
	buffer arrowbuf.Buffer
}

func newInbox(first uint32, limit int64) *inbox {
	b := &inbox{limit: limit, next: first, headers: map[uint32]Metadata{}, bodies: map[uint32]body{}}
	b.changed.L = &b.mu
	return b
}

var errClosed = errors.New("the reader was released")

// place says whether the sequence number of a message can be right.
func (b *inbox) place(sequence uint32) error {
	if ahead := sequence - b.next; ahead >= farAhead {
		return fmt.Errorf("%w: message %d arrives when %d is next", ErrProtocol, sequence, b.next)
	}
	return nil
}

// admit waits until a body may come: it is the one that is wanted, or there is
// room. Where what is wanted cannot come before and there is no room, that is
// ErrTooLarge.
func (b *inbox) admit(sequence uint32, n int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var heldUp time.Time
	for {
		if b.closed {
			return errClosed
		}
		if err := b.place(sequence); err != nil {
			return err
		}
		if sequence == b.next || len(b.bodies) == 0 || n <= b.limit-b.waiting {
			b.waiting += n
			return nil
		}
		switch missing := b.missing(); {
		case missing == wantsNothing:
			heldUp = time.Time{}
		case missing == wantsBody || !heldUp.IsZero() && time.Since(heldUp) >= patience:
			return fmt.Errorf("%w: body %d of %d bytes arrives when message %d is next, and %d of at most %d bytes wait already", ErrTooLarge, sequence, n, b.next, b.waiting, b.limit)
		case heldUp.IsZero():
			heldUp = time.Now()
			time.AfterFunc(patience, b.changed.Broadcast)
		}
		b.changed.Wait()
	}
}

// missing is what somebody waits for and is not there.
func (b *inbox) missing() want {
	var there bool
	switch b.wanted {
	case wantsMetadata:
		_, there = b.headers[b.next]
	case wantsBody:
		_, there = b.bodies[b.next]
	}
	if there {
		return wantsNothing
	}
	return b.wanted
}

// addBody takes over a body that was admitted.
func (b *inbox) addBody(sequence uint32, one body) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, twice := b.bodies[sequence]
	switch {
	case b.closed:
		one.buffer.Release()
		return errClosed
	case twice:
		one.buffer.Release()
		return fmt.Errorf("%w: body %d came twice", ErrProtocol, sequence)
	}
	b.bodies[sequence] = one
	b.changed.Broadcast()
	return nil
}

// addMetadata takes a message, when there is room for it.
func (b *inbox) addMetadata(m Metadata) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := int64(len(m.Header))
	for !b.closed && m.Sequence != b.next && len(b.headers) > 0 && n > b.limit-b.waiting {
		if b.missing() == wantsMetadata {
			return fmt.Errorf("%w: metadata message %d arrives before %d, and %d of at most %d bytes wait already", ErrTooLarge, m.Sequence, b.next, b.waiting, b.limit)
		}
		b.changed.Wait()
	}
	if b.closed {
		return errClosed
	}
	if err := b.place(m.Sequence); err != nil {
		return err
	}
	if _, twice := b.headers[m.Sequence]; twice {
		return fmt.Errorf("%w: metadata message %d came twice", ErrProtocol, m.Sequence)
	}
	b.waiting += n
	b.headers[m.Sequence] = m
	b.changed.Broadcast()
	return nil
}

// fail ends the stream of metadata, or that of bodies, or both. An end of the
// connection is ErrPeerGone.
func (b *inbox) fail(metadata, data bool, err error) {
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: the connection ended before the stream", ErrPeerGone)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if metadata && b.metadata == nil {
		b.metadata = err
	}
	if data && b.data == nil {
		b.data = err
	}
	b.changed.Broadcast()
}

// nextMetadata waits for the metadata whose turn it is.
func (b *inbox) nextMetadata() (Metadata, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.wait(wantsMetadata)()
	for {
		if m, ok := b.headers[b.next]; ok {
			delete(b.headers, b.next)
			b.waiting -= int64(len(m.Header))
			b.changed.Broadcast()
			return m, nil
		}
		if b.metadata != nil {
			return Metadata{}, b.metadata
		}
		// What was sent for both ends where a body cannot be read.
		if b.data != nil && !errors.Is(b.data, ErrPeerGone) {
			return Metadata{}, b.data
		}
		b.changed.Wait()
	}
}

// nextBody waits for the body whose turn it is, which the caller owns.
func (b *inbox) nextBody() (body, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.wait(wantsBody)()
	for {
		if one, ok := b.bodies[b.next]; ok {
			delete(b.bodies, b.next)
			b.waiting -= one.buffer.Len()
			b.changed.Broadcast()
			return one, nil
		}
		if b.data != nil {
			return body{}, b.data
		}
		b.changed.Wait()
	}
}

// wait says what is waited for, until the result is called.
func (b *inbox) wait(w want) (done func()) {
	b.wanted = w
	b.changed.Broadcast()
	return func() { b.wanted = wantsNothing }
}

// advance says that the message whose turn it was is done with. A body that is
// left of it had no business there.
func (b *inbox) advance() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, left := b.bodies[b.next]; left {
		return fmt.Errorf("%w: message %d has a body, which its kind has not", ErrProtocol, b.next)
	}
	b.next++
	b.changed.Broadcast()
	return nil
}

// ended is the end of the stream, behind which nothing may be left.
func (b *inbox) ended() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if left := len(b.bodies) + len(b.headers); left > 0 {
		return fmt.Errorf("%w: %d messages come after the end of the stream, number %d", ErrProtocol, left, b.next)
	}
	return nil
}

// close ends all waiting and drops what is left.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range b.bodies {
		one.buffer.Release()
	}
	clear(b.bodies)
	clear(b.headers)
	b.closed = true
	b.changed.Broadcast()
}
