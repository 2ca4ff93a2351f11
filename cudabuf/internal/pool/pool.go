package pool

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Pool allocates memory. Its methods may be called from any goroutine.
type Pool[S comparable] interface {
	// Get allocates at least n bytes, n >= 0. They may be used on s at once,
	// and on another stream after the operations that s has been given so far.
	// If s is the zero value, any stream may use them at once. A block of zero
	// bytes has address 0.
	Get(n int64, s S) (*Block[S], error)
	// Put frees a block. pending lists each stream that may still use it once.
	// It includes the stream of Get unless that has finished the operations it
	// had at the time. The pool keeps the slice. Put returns
	// arrowbuf.ErrReleased if the block is not allocated.
	Put(b *Block[S], pending []S) error
	// Trim returns idle memory to the driver. It waits for no stream.
	Trim() error
	// Close waits for pending streams and returns all memory to the driver. It
	// fails while a block is allocated. Otherwise it returns the first error of
	// Upstream.Free during the life of the pool. Get must not be called
	// afterwards.
	Close() error
}

// Upstream is the source of memory: a driver, and the streams of a device. If
// Alloc returns an error wrapping arrowbuf.ErrOutOfMemory, the pool frees idle
// memory and calls it again.
type Upstream[S comparable] struct {
	Alloc func(n int64) (address uintptr, err error)
	Free  func(address uintptr) error

	// Done reports, without waiting, whether s has finished all its operations.
	Done func(s S) bool
	// Order makes later operations of after wait for the operations that before
	// has been given so far.
	Order func(before, after S) error
	// Wait returns when s has finished all its operations.
	Wait func(s S) error
}

// Align is the multiple to which sizes are rounded up. Addresses are multiples
// of it if the driver's are.
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

// Block is memory that a pool allocated.
type Block[S comparable] struct {
	Address uintptr // of the first byte
	Size    int64   // usable bytes, at least the requested size

	accounted int64 // bytes that it counts as while allocated
	state     atomic.Int32
	pending   []S // streams that may still use it; nil while allocated

	// For a Caching pool: the neighbours in the same allocation of the driver.
	// dedicated marks a block that is a whole allocation and never split.
	prev, next *Block[S]
	dedicated  bool
}

// States of a block. A returned block has been put into a shard, or was merged
// into its neighbour. A free block is in a free list.
const (
	allocated int32 = iota
	returned
	free
)

// markAllocated makes a block allocated. It counts as n bytes.
func (b *Block[S]) markAllocated(n int64) {
	b.accounted, b.pending = n, nil
	b.state.Store(allocated)
}

// markReturned makes an allocated block a returned one.
func (b *Block[S]) markReturned(pending []S) error {
	if !b.state.CompareAndSwap(allocated, returned) {
		return fmt.Errorf("memory at %#x: %w", b.Address, arrowbuf.ErrReleased)
	}
	b.pending = pending
	return nil
}

// availableTo reports whether s may use a block that is not allocated.
func (b *Block[S]) availableTo(s S) bool {
	return len(b.pending) == 0 || len(b.pending) == 1 && b.pending[0] == s
}

// split shortens a block to n bytes. It returns the rest, which is pending on
// the same streams.
func (b *Block[S]) split(n int64) *Block[S] {
	rest := &Block[S]{Address: b.Address + uintptr(n), Size: b.Size - n, pending: b.pending, prev: b, next: b.next}
	if rest.next != nil {
		rest.next.prev = rest
	}
	b.next, b.Size = rest, n
	return rest
}

// mergeNext merges the next block into b.
func (b *Block[S]) mergeNext() {
	gone := b.next
	b.Size += gone.Size
	if b.next = gone.next; b.next != nil {
		b.next.prev = b
	}
	gone.state.Store(returned)
}

// isWholeAllocation reports whether a block is an entire allocation of the
// driver.
func (b *Block[S]) isWholeAllocation() bool { return b.prev == nil && b.next == nil }
