package pool

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Pool lends memory. It may be used from any goroutine.
type Pool[S comparable] interface {
	// Get lends at least n bytes, n >= 0, for use on s at once, and on other
	// streams behind what s has been given till now. Without a stream anybody
	// may use them at once. Zero bytes have address 0.
	Get(n int64, s S) (*Block[S], error)
	// Put takes a block back. pending are the streams that may still use it,
	// each once, and the one that it was got for unless that has done all that
	// it was given before; the pool keeps the slice. A block that is not lent
	// is arrowbuf.ErrReleased.
	Put(b *Block[S], pending []S) error
	// Trim gives what is idle back to the driver. It waits for no stream.
	Trim() error
	// Forget says that s has done its work and gets no more.
	Forget(s S)
	// Close waits for pending streams and gives everything back. It fails
	// while a block is lent; otherwise it answers the first error that giving
	// memory back ever had. Nothing may be got afterwards.
	Close() error
}

// Upstream is where memory comes from: a driver, and the streams of a device.
// Errors of Alloc that are arrowbuf.ErrOutOfMemory make a pool give back what it
// can and ask again.
type Upstream[S comparable] struct {
	Alloc func(n int64) (address uintptr, err error)
	Free  func(address uintptr) error

	// Done tells, without waiting, whether s has done all that it was given.
	Done func(s S) bool
	// Order makes what after is given from now on wait for what before has
	// been given till now.
	Order func(before, after S) error
	// Wait returns when s has done all that it was given.
	Wait func(s S) error
}

// Align is the multiple to which sizes are rounded up, and of which every
// address is one as long as the driver's are.
const Align = 512

// roundSize rounds a size up to Align.
func roundSize(n int64) (int64, error) {
	if n < 0 {
		return 0, fmt.Errorf("%d bytes of memory: %w", n, arrowbuf.ErrOutOfRange)
	}
	if n > math.MaxInt64/2 {
		return 0, fmt.Errorf("%d bytes of memory: %w", n, arrowbuf.ErrOutOfMemory)
	}
	return roundUp(n, Align), nil
}

// roundUp rounds n up to a multiple of a power of two.
func roundUp(n, multiple int64) int64 { return (n + multiple - 1) &^ (multiple - 1) }

func outOfMemory(err error) bool { return errors.Is(err, arrowbuf.ErrOutOfMemory) }

// Block is memory that a pool lends.
type Block[S comparable] struct {
	Address uintptr // of the first byte
	Size    int64   // usable bytes, at least what was asked for

	accounted int64 // what it counts as while it is lent
	state     atomic.Int32
	pending   []S // streams that may still use it, none while it is lent

	// Of a Caching pool: the neighbours in the same allocation of the driver,
	// and whether the block is such an allocation, never to be cut.
	prev, next *Block[S]
	dedicated  bool
}

// A block is lent, or it has been put and waits in a shard, or it is in a list
// of free blocks. One that was merged into its neighbour stays returned.
const (
	allocated int32 = iota
	returned
	free
)

// markAllocated makes it a lent block that counts as n bytes.
func (b *Block[S]) markAllocated(n int64) {
	b.accounted, b.pending = n, nil
	b.state.Store(allocated)
}

// markReturned makes a lent block a returned one.
func (b *Block[S]) markReturned(pending []S) error {
	if !b.state.CompareAndSwap(allocated, returned) {
		return fmt.Errorf("memory at %#x: %w", b.Address, arrowbuf.ErrReleased)
	}
	b.pending = pending
	return nil
}

// availableTo tells whether s may use a block that is not lent.
func (b *Block[S]) availableTo(s S) bool {
	return len(b.pending) == 0 || len(b.pending) == 1 && b.pending[0] == s
}

// split shortens a block to n bytes and returns the rest, pending alike.
func (b *Block[S]) split(n int64) *Block[S] {
	rest := &Block[S]{Address: b.Address + uintptr(n), Size: b.Size - n, pending: b.pending, prev: b, next: b.next}
	if rest.next != nil {
		rest.next.prev = rest
	}
	b.next, b.Size = rest, n
	return rest
}

// mergeNext takes the next block in.
func (b *Block[S]) mergeNext() {
	gone := b.next
	b.Size += gone.Size
	if b.next = gone.next; b.next != nil {
		b.next.prev = b
	}
	gone.state.Store(returned)
}

// isWholeAllocation tells whether a block is all of a driver's allocation.
func (b *Block[S]) isWholeAllocation() bool { return b.prev == nil && b.next == nil }
