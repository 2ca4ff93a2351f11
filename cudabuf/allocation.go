package cudabuf

import (
	"fmt"
	"io"
	"sync/atomic"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// allocation is memory of the driver or of another library, which buffers view.
// The buffer that owns it holds one reference, and each graph that accesses it
// holds one.
type allocation struct {
	id       uint64 // unique; the order in which operations lock allocations
	refs     atomic.Int64
	accesses accessTracker
	// sharing describes how other processes open the memory. It is nil for memory
	// of a Pool and of other libraries.
	sharing *sharing
	owner   owner
}

// owner is the source of an allocation. free returns the memory to it; the
// pending streams may still use the memory.
type owner interface {
	free(a *allocation, pending []*cudaStream)
}

// ownerFunc is the owner of a single allocation.
type ownerFunc func(pending []*cudaStream)

func (f ownerFunc) free(_ *allocation, pending []*cudaStream) { f(pending) }

var allocations atomic.Uint64

// newAllocation returns an allocation with one reference. free is called after
// the last release.
func newAllocation(free func(pending []*cudaStream)) *allocation {
	a := &allocation{}
	a.init(ownerFunc(free))
	return a
}

// init gives the allocation an owner and one reference.
func (a *allocation) init(o owner) {
	a.id, a.owner = allocations.Add(1), o
	a.refs.Store(1)
}

// tryRetain adds a reference. It returns false if the memory is being freed.
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

// wait returns when no stream uses the memory.
func (a *allocation) wait() error {
	for _, cs := range a.accesses.pending() {
		if err := cs.synchronize(); err != nil {
			return err
		}
	}
	return nil
}

// memoryView is the part of an allocation that a Buffer or a HostBuffer views,
// with a reference count.
type memoryView struct {
	dev        *Device
	memory     *allocation // nil if length is 0
	slicedFrom *memoryView // holds a reference to it; nil for the owner
	address    uintptr
	length     int64
	readOnly   bool
	refs       atomic.Int64
}

// init makes v, which is new, the owner of memory.
func (v *memoryView) init(dev *Device, memory *allocation, address uintptr, length int64) {
	v.dev, v.memory, v.address, v.length = dev, memory, address, length
	v.refs.Store(1)
}

// sliceInto makes part, which is new, a view of bytes [offset, offset+length).
func (v *memoryView) sliceInto(part *memoryView, offset, length int64) error {
	if err := v.retainRange(offset, length); err != nil {
		return err
	}
	part.init(v.dev, v.memory, v.address+uintptr(offset), length)
	part.slicedFrom, part.readOnly = v, v.readOnly // part keeps the reference of retainRange
	if length == 0 {
		part.memory, part.address = nil, 0
	}
	return nil
}

// Address is the address of the first byte, or 0 if the length is 0. Work that
// uses the address directly is not ordered; see Wait.
func (v *memoryView) Address() uintptr { return v.address }

// Len is the length in bytes.
func (v *memoryView) Len() int64 { return v.length }

// Mutable reports whether the buffer may be written to. A read-only buffer and
// its slices may not.
func (v *memoryView) Mutable() bool { return !v.readOnly }

// describe returns what String returns: where the bytes are, not the bytes.
func (v *memoryView) describe(kind string, on arrowbuf.Device) string {
	if v.dev == nil {
		return kind + "(without a device)"
	}
	state := ""
	switch {
	case v.refs.Load() <= 0:
		state = ", released"
	case v.readOnly:
		state = ", read-only"
	}
	return fmt.Sprintf("%s(%d bytes at %#x of %v%s)", kind, v.length, v.address, on, state)
}

// Wait returns when no stream uses the memory (cuStreamSynchronize on each stream
// that does). Call it before using the address directly.
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

// Release releases one reference. The last one frees the memory.
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

// retain adds a reference, or returns arrowbuf.ErrReleased. Operations hold one
// so that a concurrent Release does not free the memory.
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

// retainRange checks a range and adds a reference, which the caller releases.
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

// retainRangeToWrite is retainRange for a write. It refuses read-only memory.
func (v *memoryView) retainRangeToWrite(pos, n int64) error {
	if v.readOnly {
		return fmt.Errorf("%v: writing %d bytes: %w", v.dev, n, ErrReadOnly)
	}
	return v.retainRange(pos, n)
}

// checkOffset returns an error unless the offset, which is not 0, points into the
// memory of the owner or just past its end.
func (v *memoryView) checkOffset(offset int64) error {
	owner := v
	for owner.slicedFrom != nil && v.length > 0 {
		owner = owner.slicedFrom
	}
	at := int64(v.address-owner.address) + offset
	if at < 0 || at > owner.length {
		return fmt.Errorf("offset %d from a buffer of %d bytes: %w", offset, v.length, arrowbuf.ErrOutOfRange)
	}
	return nil
}

// readAt implements io.ReaderAt by copyToHost, which copies a whole range.
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
