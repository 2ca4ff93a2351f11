package ipc

import (
	"slices"
	"sync"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ipc/handle"
	"github.com/quiver-gpu/quiver/ipc/internal/wire"
)

// store keeps the books of a server: blocks, who knows them, what lies in them
// and who reads it. What takes time is put off until the lock is open.
type store struct {
	idleLimit int64

	mu     sync.Mutex
	later  []func()
	next   uint64
	blocks map[uint64]*block
	open   map[place]*block // to which small batches are added
	pools  map[*cudabuf.SharedPool]*exportedPool
	idle   []*block // the longest idle first
	kept   int64    // bytes of idle
	closed bool
}

// do runs f with the books, and what it puts off behind it.
func (s *store) do(f func()) {
	s.mu.Lock()
	f()
	later := s.later
	s.later = nil
	s.mu.Unlock()
	for _, g := range later {
		g()
	}
}

// add takes over a block, with a form in it.
func (s *store) add(b *block) {
	s.next++
	b.id, b.forms, b.known = s.next, 1, map[*conn]struct{}{}
	s.blocks[b.id] = b
}

// place says whose bytes lie in a block, and what kind of block that is.
type place struct {
	mechanism handle.Mechanism
	dev       *cudabuf.Device
	owner     string // a name
}

// take returns a block with n bytes for a form, and where they are. Small batches
// of a name share a block. Of what another name had in one nothing is left.
func (s *store) take(at place, n int64) (b *block, offset int64, err error) {
	fresh := false
	s.do(func() {
		if b = s.open[at]; b != nil && !b.spoiled && b.room() >= n {
			offset = b.end()
			b.used = offset + n
			b.forms++
			return
		}
		i := slices.IndexFunc(s.idle, func(b *block) bool {
			return b.mechanism == at.mechanism && b.gpu() == at.dev && b.buffer.Len() >= n && (b.size <= 2*n || b.size <= granuleGPU)
		})
		if b, fresh = nil, true; i >= 0 {
			b = s.idle[i]
			s.idle = slices.Delete(s.idle, i, i+1)
			s.kept -= b.size
			b.forms = 1
		}
	})
	if !fresh {
		return b, offset, nil
	}
	if b == nil {
		if b, err = newBlock(at.mechanism, at.dev, n); err != nil {
			return nil, 0, err
		}
		b.own = true
		s.do(func() { s.add(b) })
	} else if b.at.owner != at.owner {
		err = clearAll(b.buffer)
	}
	s.do(func() {
		b.at = at
		if b.used = n; err != nil {
			b.spoiled = true
			s.leave(b)
			return
		}
		if last := s.open[at]; last == nil || last.room() < b.room() {
			s.open[at] = b
		}
	})
	return b, 0, err
}

// end is where the next form in a block may begin.
func (b *block) end() int64 { return (b.used + 63) &^ 63 }

// room is how many bytes another form may have.
func (b *block) room() int64 { return b.buffer.Len() - b.end() }

// native returns the block of memory that is shared as it is, with a form in it.
func (s *store) native(m handle.Mechanism, buffer *cudabuf.Buffer, pooled bool) (*block, error) {
	var b *block
	s.do(func() { b = s.enter(m, buffer) })
	if b != nil {
		return b, nil
	}
	made, err := s.nativeBlock(m, buffer, pooled)
	if err != nil {
		return nil, err
	}
	s.do(func() {
		if b = s.enter(m, buffer); b != nil { // which another client's request made meanwhile
			s.later = append(s.later, made.free)
			return
		}
		b = made
		s.add(b)
	})
	return b, nil
}

// enter returns the block that has a buffer in memory shared as it is, with a form
// more in it, or nil. The caller holds the books.
func (s *store) enter(m handle.Mechanism, buffer *cudabuf.Buffer) *block {
	for _, b := range s.blocks {
		inside := buffer.Address() - b.base
		if !b.own && !b.retiring && b.mechanism == m && b.gpu() == buffer.Device() && inside < uintptr(b.size) {
			b.forms++
			return b
		}
	}
	return nil
}

// leave ends a form in a block. The caller holds the books.
func (s *store) leave(b *block) {
	if b.forms--; b.forms > 0 {
		return
	}
	if s.open[b.at] == b {
		delete(s.open, b.at)
	}
	if !b.own || b.spoiled || s.closed || b.size > s.idleLimit {
		s.retire(b)
		return
	}
	s.idle = append(s.idle, b)
	for s.kept += b.size; s.kept > s.idleLimit; {
		oldest := s.idle[0]
		s.idle = s.idle[1:]
		s.kept -= oldest.size
		s.retire(oldest)
	}
}

// retire asks those who know a block to forget it, and frees it then. The caller
// holds the books.
func (s *store) retire(b *block) {
	b.retiring = true
	for c := range b.known {
		c.out.Put(wire.Frame{Type: wire.Forget, Payload: wire.AppendNumbers(nil, []uint64{b.id})})
	}
	s.freeUnknown(b)
}

// freeUnknown frees a block that is not used when nobody knows it any more.
func (s *store) freeUnknown(b *block) {
	if b.retiring && len(b.known) == 0 {
		delete(s.blocks, b.id)
		s.later = append(s.later, b.free)
	}
}

// forgotten notes that a client has closed a block.
func (s *store) forgotten(c *conn, b *block) {
	delete(b.known, c)
	s.freeUnknown(b)
}

// close retires what is idle, and keeps nothing from now on.
func (s *store) close() {
	s.do(func() {
		s.closed = true
		for _, b := range s.idle {
			s.retire(b)
		}
		s.idle, s.kept = nil, 0
	})
}

// clearAll sets all bytes to 0.
func clearAll(b arrowbuf.Buffer) error {
	if host, ok := arrowbuf.HostBytes(b); ok {
		clear(host)
		return nil
	}
	return b.(*cudabuf.Buffer).Fill(0)
}
