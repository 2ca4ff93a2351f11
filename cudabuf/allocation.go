package cudabuf

import (
	"fmt"
	"io"
	"sync/atomic"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// allocation is memory of the driver or of another owner, which buffers show.
// It has a reference from the buffer that owns it, and one from each graph that
// works on it.
type allocation struct {
	id   uint64 // tells allocations apart and orders them
	refs atomic.Int64
	uses uses
	// sharing says how other processes get at the memory, nil where they do
	// not: memory of the pool, and of other libraries.
	sharing *sharing
	// owner takes the memory back.
	owner owner
}

// owner is who memory comes from. The queues in pending may still be using what
// it takes back.
type owner interface {
	takeBack(a *allocation, pending []*queue)
}

// ownerFunc is an owner of one allocation.
type ownerFunc func(pending []*queue)

func (f ownerFunc) takeBack(_ *allocation, pending []*queue) { f(pending) }

var allocations atomic.Uint64

func newAllocation(free func(pending []*queue)) *allocation {
	a := &allocation{}
	a.belong(ownerFunc(free))
	return a
}

// belong begins the allocation's life, with one reference.
func (a *allocation) belong(o owner) {
	a.id, a.owner = allocations.Add(1), o
	a.refs.Store(1)
}

// tryRetain adds a reference, unless the memory is on its way back.
func (a *allocation) tryRetain() bool {
	for {
		n := a.refs.Load()
		if n == 0 {
			return false
		}
		if a.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (a *allocation) release() {
	if a.refs.Add(-1) == 0 {
		a.owner.takeBack(a, a.uses.pending())
	}
}

// wait returns when no stream uses the memory any more.
func (a *allocation) wait() error {
	for _, q := range a.uses.pending() {
		if err := q.synchronize(); err != nil {
			return err
		}
	}
	return nil
}

// span is what Buffer and HostBuffer have in common: a counted part of an
// allocation.
type span struct {
	dev      *Device
	memory   *allocation // nil for a span of length 0
	whole    *span       // what it was cut from and holds, nil for the owner itself
	address  uintptr
	length   int64
	readOnly bool
	refs     atomic.Int64
}

// own makes s, which is new, the owner of memory.
func (s *span) own(dev *Device, memory *allocation, address uintptr, length int64) {
	s.dev, s.memory, s.address, s.length = dev, memory, address, length
	s.refs.Store(1)
}

// cut makes part, which is new, show bytes [offset, offset+length) of s.
func (s *span) cut(part *span, offset, length int64) error {
	if err := s.enter(offset, length); err != nil {
		return err
	}
	part.own(s.dev, s.memory, s.address+uintptr(offset), length)
	part.whole, part.readOnly = s, s.readOnly // the reference that enter took is the part's
	if length == 0 {
		part.memory, part.address = nil, 0
	}
	return nil
}

// Address is the address of the first byte, 0 for a buffer of length 0. What
// others do with it is not ordered; see Wait.
func (s *span) Address() uintptr { return s.address }

// Len is the length in bytes.
func (s *span) Len() int64 { return s.length }

// Mutable tells whether the buffer may be written to: not one that was made
// read-only, nor its slices.
func (s *span) Mutable() bool { return !s.readOnly }

// Wait returns when no stream uses the memory any more (cuStreamSynchronize on
// those that do), so that what others do with the address comes afterwards.
func (s *span) Wait() error {
	if err := s.hold(); err != nil {
		return err
	}
	defer s.Release()
	if s.memory == nil {
		return nil
	}
	return s.memory.wait()
}

// Retain adds a reference.
func (s *span) Retain() {
	if err := s.hold(); err != nil {
		panic(fmt.Errorf("cudabuf: Retain: %w", err))
	}
}

// Release gives one reference back, and with the last one the memory.
func (s *span) Release() {
	switch n := s.refs.Add(-1); {
	case n < 0:
		panic(fmt.Errorf("cudabuf: Release: %w", arrowbuf.ErrReleased))
	case n > 0:
	case s.whole != nil:
		s.whole.Release()
	case s.memory != nil:
		s.memory.release()
	}
}

// hold takes a reference for the time of an operation, so that memory which
// another goroutine releases meanwhile is not used again under it.
func (s *span) hold() error {
	for {
		n := s.refs.Load()
		if n <= 0 {
			return s.released()
		}
		if s.refs.CompareAndSwap(n, n+1) {
			return nil
		}
	}
}

func (s *span) released() error { return fmt.Errorf("%v: %w", s.dev, arrowbuf.ErrReleased) }

// enter checks a range and holds the span; the caller releases it.
func (s *span) enter(pos, n int64) error {
	if err := s.hold(); err != nil {
		return err
	}
	if err := arrowbuf.CheckRange(pos, n, s.length); err != nil {
		s.Release()
		return err
	}
	return nil
}

// enterWriting is enter for what writes.
func (s *span) enterWriting(pos, n int64) error {
	if s.readOnly {
		return fmt.Errorf("%v: writing %d bytes: %w", s.dev, n, ErrReadOnly)
	}
	return s.enter(pos, n)
}

// reaches returns an error unless the byte at an offset, which is not 0, lies in
// the memory that the span is part of, or right behind it.
func (s *span) reaches(offset int64) error {
	owner := s
	for owner.whole != nil && s.length > 0 {
		owner = owner.whole
	}
	at := int64(s.address-owner.address) + offset
	if at < 0 || at > owner.length {
		return fmt.Errorf("a pointer %d bytes from a buffer of %d bytes: %w", offset, s.length, arrowbuf.ErrOutOfRange)
	}
	return nil
}

// readAt reads as io.ReaderAt says, with what copies all of a range.
func (s *span) readAt(p []byte, off int64, copyToHost func(dst []byte, pos int64) (int64, error)) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("reading at %d: %w", off, arrowbuf.ErrOutOfRange)
	}
	if off >= s.length {
		if err := s.hold(); err != nil {
			return 0, err
		}
		s.Release()
		return 0, io.EOF
	}
	want := min(int64(len(p)), s.length-off)
	n, err := copyToHost(p[:want], off)
	if err == nil && n < int64(len(p)) {
		err = io.EOF
	}
	return int(n), err
}
