package pool

import (
	"fmt"
	"sync/atomic"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Block is memory that a pool lends.
type Block[S comparable] struct {
	Address uintptr // of the first byte
	Size    int64   // usable bytes, at least what was asked for

	charge  int64 // what it counts as while it is lent
	state   atomic.Int32
	pending []S // streams that may still use it, none while it is lent

	// Of a Caching pool: the neighbours in the same allocation of the driver,
	// and whether the block is such an allocation, never to be cut.
	prev, next *Block[S]
	whole      bool
}

// A block is lent, or it has been put and waits in a shard, or it is in a list
// of free blocks. One that was merged into its neighbour stays returned.
const (
	lent int32 = iota
	returned
	free
)

// lend makes it a lent block that counts as n bytes.
func (b *Block[S]) lend(n int64) {
	b.charge, b.pending = n, nil
	b.state.Store(lent)
}

// giveBack makes a lent block a returned one.
func (b *Block[S]) giveBack(pending []S) error {
	if !b.state.CompareAndSwap(lent, returned) {
		return fmt.Errorf("memory at %#x: %w", b.Address, arrowbuf.ErrReleased)
	}
	b.pending = pending
	return nil
}

// readyFor tells whether s may use a block that is not lent.
func (b *Block[S]) readyFor(s S) bool {
	return len(b.pending) == 0 || len(b.pending) == 1 && b.pending[0] == s
}

// cut shortens a block to n bytes and returns the rest, pending alike.
func (b *Block[S]) cut(n int64) *Block[S] {
	rest := &Block[S]{Address: b.Address + uintptr(n), Size: b.Size - n, pending: b.pending, prev: b, next: b.next}
	if rest.next != nil {
		rest.next.prev = rest
	}
	b.next, b.Size = rest, n
	return rest
}

// swallow takes the next block in.
func (b *Block[S]) swallow() {
	gone := b.next
	b.Size += gone.Size
	if b.next = gone.next; b.next != nil {
		b.next.prev = b
	}
	gone.state.Store(returned)
}

// alone tells whether a block is all of a driver's allocation.
func (b *Block[S]) alone() bool { return b.prev == nil && b.next == nil }
