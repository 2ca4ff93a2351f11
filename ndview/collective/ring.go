package collective

import (
	"fmt"
	"net"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/quiver-gpu/quiver/internal/memfile"
)

// A pair of ranks on one machine moves elements through shared memory. Each of the two has a
// file in memory that only it can write, and maps the file of the other for reading. The file
// has the ring of the bytes that its rank sends, and counters. A rank that waits for the other
// reads a byte from a socket, which ends when the other process dies.

const (
	// ringBytes is the size of a ring, a power of two.
	ringBytes = 1 << 19
	// pieceBytes is how much is copied before the other rank may begin.
	pieceBytes = 1 << 16

	countersBytes = 4096
	fileBytes     = countersBytes + ringBytes
	cacheLine     = 64
)

// half is the memory of one rank of a pair.
type half struct {
	sent     *atomic.Uint64 // bytes put into its ring so far
	received *atomic.Uint64 // bytes taken from the other rank's ring so far
	// How often the rank began to wait for bytes, and for space.
	waitsForBytes, waitsForSpace *atomic.Uint64
	ring                         []byte
}

func halfOf(data []byte) half {
	counter := func(i int) *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&data[i*cacheLine])) }
	return half{counter(0), counter(1), counter(2), counter(3), data[countersBytes:fileBytes]}
}

// shared is the memory of a pair of ranks, seen from one.
type shared struct {
	mine, theirs []byte
}

// unmap unmaps the memory, which must not be in use.
func (s *shared) unmap() error {
	if err := memfile.Unmap(s.mine); err != nil {
		return err
	}
	return memfile.Unmap(s.theirs)
}

// sender and receiver return the ends of the two rings. A socket wakes the ranks of each.
func (s *shared) sender(bell net.Conn) *ringSender {
	return &ringSender{ringEnd{mine: halfOf(s.mine), theirs: halfOf(s.theirs), bell: bell}}
}

func (s *shared) receiver(bell net.Conn) *ringReceiver {
	return &ringReceiver{ringEnd{mine: halfOf(s.mine), theirs: halfOf(s.theirs), bell: bell}}
}

// ringEnd is one end of a ring, for one goroutine.
type ringEnd struct {
	mine, theirs half
	bell         net.Conn
	asked        bool   // the other rank may have written a byte for the last wait
	woken        uint64 // the last wait of the other rank for which a byte was written
	buffer       [16]byte
}

func (e *ringEnd) SetDeadline(t time.Time) error { return e.bell.SetDeadline(t) }
func (e *ringEnd) Close() error                  { return e.bell.Close() }

// wake wakes the other rank if it waits. The caller has changed its own counter by Add: in a
// program with the race detector, Store does not come before the next Load on amd64.
func (e *ringEnd) wake(waits *atomic.Uint64) error {
	n := waits.Load()
	if n == e.woken {
		return nil
	}
	e.woken = n
	_, err := e.bell.Write(e.buffer[:1])
	return err
}

// wait returns when ready may have become true. The counter says that this rank waits, so
// ready is asked after it is set: the other rank changes its counters first and looks at this
// one afterwards.
func (e *ringEnd) wait(waits *atomic.Uint64, ready func() bool) error {
	if !e.asked {
		waits.Add(1)
		e.asked = true
		if ready() {
			return nil
		}
	}
	_, err := e.bell.Read(e.buffer[:])
	e.asked = false
	if err != nil && ready() { // the last bytes of a rank that is gone
		return nil
	}
	return err
}

// ringSender puts bytes into a ring.
type ringSender struct{ ringEnd }

// space returns how many bytes the ring takes.
func (s *ringSender) space() (uint64, error) {
	used := s.mine.sent.Load() - s.theirs.received.Load()
	if used > ringBytes {
		return 0, fmt.Errorf("%d bytes in a ring of %d: %w", used, ringBytes, errMessage)
	}
	return ringBytes - used, nil
}

// Write returns when all bytes are in the ring.
func (s *ringSender) Write(p []byte) (int, error) {
	written := 0
	for written < len(p) {
		space, err := s.space()
		if err == nil && space == 0 {
			err = s.wait(s.mine.waitsForSpace, func() bool { n, err := s.space(); return n > 0 || err != nil })
			if err == nil {
				continue
			}
		}
		if err != nil {
			return written, err
		}
		sent := s.mine.sent.Load()
		at := sent % ringBytes
		n := copy(s.mine.ring[at:min(ringBytes, at+min(space, pieceBytes))], p[written:])
		s.mine.sent.Add(uint64(n)) // see wake
		written += n
		if err := s.wake(s.theirs.waitsForBytes); err != nil {
			return written, err
		}
	}
	return written, nil
}

// ringReceiver takes bytes out of a ring.
type ringReceiver struct{ ringEnd }

// available returns how many bytes are in the ring.
func (r *ringReceiver) available() (uint64, error) {
	n := r.theirs.sent.Load() - r.mine.received.Load()
	if n > ringBytes {
		return 0, fmt.Errorf("%d bytes in a ring of %d: %w", n, ringBytes, errMessage)
	}
	return n, nil
}

// Read returns at least one byte.
func (r *ringReceiver) Read(p []byte) (int, error) {
	for {
		available, err := r.available()
		if err == nil && available == 0 {
			err = r.wait(r.mine.waitsForBytes, func() bool { n, err := r.available(); return n > 0 || err != nil })
			if err == nil {
				continue
			}
		}
		if err != nil {
			return 0, err
		}
		received := r.mine.received.Load()
		at := received % ringBytes
		n := copy(p, r.theirs.ring[at:min(ringBytes, at+min(available, pieceBytes))])
		r.mine.received.Add(uint64(n)) // see wake
		// A rank that is gone needs no space.
		_ = r.wake(r.theirs.waitsForSpace)
		return n, nil
	}
}
