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
	id       uint64 // tells allocations apart and orders them
	refs     atomic.Int64
	accesses accessTracker
	// sharing says how other processes get at the memory, nil where they do
	// not: memory of the pool, and of other libraries.
	sharing *sharing
	// owner takes the memory back.
	owner owner
}

// owner is who memory comes from. The queues in pending may still be using what
// it takes back.
type owner interface {
	free(a *allocation, pending []*cudaStream)
}

// ownerFunc is an owner of one allocation.
type ownerFunc func(pending []*cudaStream)

func (f ownerFunc) free(_ *allocation, pending []*cudaStream) { f(pending) }

var allocations atomic.Uint64

func newAllocation(free func(pending []*cudaStream)) *allocation {
	a := &allocation{}
	a.init(ownerFunc(free))
	return a
}

// init begins the allocation's life, with one reference.
func (a *allocation) init(o owner) {
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
		a.owner.free(a, a.accesses.pending())
	}
}

// wait returns when no stream uses the memory any more.
func (a *allocation) wait() error {
	for _, cs := range a.accesses.pending() {
		if err := cs.synchronize(); err != nil {
			return err
		}
	}
	return nil
}

// memoryView is what Buffer and HostBuffer have in common: a counted part of an
// allocation.
type memoryView struct {
	dev        *Device
	memory     *allocation // nil for a span of length 0
	slicedFrom *memoryView // what it was cut from and holds, nil for the owner itself
	address    uintptr
	length     int64
	readOnly   bool
	refs       atomic.Int64
}

// init makes s, which is new, the owner of memory.
func (v *memoryView) init(dev *Device, memory *allocation, address uintptr, length int64) {
	v.dev, v.memory, v.address, v.length = dev, memory, address, length
	v.refs.Store(1)
}

// sliceInto makes part, which is new, show bytes [offset, offset+length) of s.
func (v *memoryView) sliceInto(part *memoryView, offset, length int64) error {
	if err := v.retainRange(offset, length); err != nil {
		return err
	}
	part.init(v.dev, v.memory, v.address+uintptr(offset), length)
	part.slicedFrom, part.readOnly = v, v.readOnly // the reference that enter took is the part's
	if length == 0 {
		part.memory, part.address = nil, 0
	}
	return nil
}

// Address is the address of the first byte, 0 for a buffer of length 0. What
// others do with it is not ordered; see Wait.
func (v *memoryView) Address() uintptr { return v.address }

// Len is the length in bytes.
func (v *memoryView) Len() int64 { return v.length }

// Mutable tells whether the buffer may be written to: not one that was made
// read-only, nor its slices.
func (v *memoryView) Mutable() bool { return !v.readOnly }

// Wait returns when no stream uses the memory any more (cuStreamSynchronize on
// those that do), so that what others do with the address comes afterwards.
func (v *memoryView) Wait() error {
	if err := v.retain(); err != nil {
		return err
	}
	defer v.Release()
	if v.memory == nil {
		return nil
	}
	return v.memory.wait()
}

// Retain adds a reference.
func (v *memoryView) Retain() {
	if err := v.retain(); err != nil {
		panic(fmt.Errorf("cudabuf: Retain: %w", err))
	}
}

// Release gives one reference back, and with the last one the memory.
func (v *memoryView) Release() {
	switch n := v.refs.Add(-1); {
	case n < 0:
		panic(fmt.Errorf("cudabuf: Release: %w", arrowbuf.ErrReleased))
	case n > 0:
	case v.slicedFrom != nil:
		v.slicedFrom.Release()
	case v.memory != nil:
		v.memory.release()
	}
}

// retain takes a reference for the time of an operation, so that memory which
// another goroutine releases meanwhile is not used again under it.
func (v *memoryView) retain() error {
	for {
		n := v.refs.Load()
		if n <= 0 {
			return v.errReleased()
		}
		if v.refs.CompareAndSwap(n, n+1) {
			return nil
		}
	}
}

func (v *memoryView) errReleased() error { return fmt.Errorf("%v: %w", v.dev, arrowbuf.ErrReleased) }

// retainRange checks a range and holds the span; the caller releases it.
func (v *memoryView) retainRange(pos, n int64) error {
	if err := v.retain(); err != nil {
		return err
	}
	if err := arrowbuf.CheckRange(pos, n, v.length); err != nil {
		v.Release()
		return err
	}
	return nil
}

// retainRangeToWrite is enter for what writes.
func (v *memoryView) retainRangeToWrite(pos, n int64) error {
	if v.readOnly {
		return fmt.Errorf("%v: writing %d bytes: %w", v.dev, n, ErrReadOnly)
	}
	return v.retainRange(pos, n)
}

// checkOffset returns an error unless the byte at an offset, which is not 0, lies in
// the memory that the span is part of, or right behind it.
func (v *memoryView) checkOffset(offset int64) error {
	owner := v
	for owner.slicedFrom != nil && v.length > 0 {
		owner = owner.slicedFrom
	}
	at := int64(v.address-owner.address) + offset
	if at < 0 || at > owner.length {
		return fmt.Errorf("a pointer %d bytes from a buffer of %d bytes: %w", offset, v.length, arrowbuf.ErrOutOfRange)
	}
	return nil
}

// readAt reads as io.ReaderAt says, with what copies all of a range.
func (v *memoryView) readAt(p []byte, off int64, copyToHost func(dst []byte, pos int64) (int64, error)) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("reading at %d: %w", off, arrowbuf.ErrOutOfRange)
	}
	if off >= v.length {
		if err := v.retain(); err != nil {
			return 0, err
		}
		v.Release()
		return 0, io.EOF
	}
	want := min(int64(len(p)), v.length-off)
	n, err := copyToHost(p[:want], off)
	if err == nil && n < int64(len(p)) {
		err = io.EOF
	}
	return int(n), err
}
