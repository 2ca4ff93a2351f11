package pool

import (
	"cmp"
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// sizeBins holds blocks ordered by size, then by address. Bin i holds sizes of
// [2^(i-1), 2^i) times Align, so that an insertion moves only pointers to
// blocks of a similar size.
type sizeBins[S comparable] [64][]*Block[S]

// find returns the position of the first block that is not less than size and
// address.
func (b *sizeBins[S]) find(size int64, address uintptr) (bin, i int) {
	bin = bits.Len64(uint64(size / Align))
	i, _ = slices.BinarySearchFunc(b[bin], size, func(x *Block[S], size int64) int {
		return cmp.Or(cmp.Compare(x.Size, size), cmp.Compare(x.Address, address))
	})
	return bin, i
}

func (b *sizeBins[S]) add(x *Block[S]) {
	bin, i := b.find(x.Size, x.Address)
	b[bin] = slices.Insert(b[bin], i, x)
}

func (b *sizeBins[S]) remove(x *Block[S]) {
	bin, i := b.find(x.Size, x.Address)
	b[bin] = slices.Delete(b[bin], i, i+1)
}

// best returns the smallest block of at least n bytes, or nil.
func (b *sizeBins[S]) best(n int64) *Block[S] {
	bin, i := b.find(n, 0)
	if i < len(b[bin]) {
		return b[bin][i]
	}
	for _, list := range b[bin+1:] {
		if len(list) > 0 {
			return list[0]
		}
	}
	return nil
}

// freeList holds free blocks that are pending on the same streams.
type freeList[S comparable] struct {
	small, dedicated sizeBins[S]
	bytes            int64 // of all blocks blocks
}

func (h *freeList[S]) binsOf(b *Block[S]) *sizeBins[S] {
	if b.dedicated {
		return &h.dedicated
	}
	return &h.small
}

func (h *freeList[S]) add(b *Block[S]) {
	h.bytes += b.Size
	h.binsOf(b).add(b)
}

func (h *freeList[S]) remove(b *Block[S]) {
	h.bytes -= b.Size
	h.binsOf(b).remove(b)
}

// blocks returns a copy of all blocks, largest first. The list may change while
// the caller uses it.
func (h *freeList[S]) blocks() []*Block[S] {
	var all []*Block[S]
	for _, bins := range []*sizeBins[S]{&h.dedicated, &h.small} {
		for _, bin := range slices.Backward(bins[:]) {
			for _, b := range slices.Backward(bin) {
				all = append(all, b)
			}
		}
	}
	return all
}

// maxScanned is the number of recently put blocks that Get looks at.
const maxScanned = 16

// shard holds blocks that were put and not yet merged. A goroutine often gets
// the blocks that it put, so neither call contends with other goroutines.
type shard[S comparable] struct {
	mu     sync.Mutex
	blocks []*Block[S] // in the order of Put
	_      [64]byte    // keeps shards on separate cache lines
}

// maxShards bounds the shards that Get searches before it allocates from the
// driver.
const maxShards = 16

// shards has one shard per goroutine that can run at once. The sync.Pool
// remembers the shard that the processor used last. This is only a hint: a
// shard may be dropped or be used twice, and it has a lock.
type shards[S comparable] struct {
	all  []*shard[S]
	hint *sync.Pool
}

func newShards[S comparable]() shards[S] {
	all := make([]*shard[S], min(runtime.GOMAXPROCS(0), maxShards))
	for i := range all {
		all[i] = new(shard[S])
	}
	var next atomic.Uint32
	return shards[S]{all, &sync.Pool{New: func() any { return all[int(next.Add(1))%len(all)] }}}
}

func (x shards[S]) acquire() *shard[S]  { return x.hint.Get().(*shard[S]) }
func (x shards[S]) release(s *shard[S]) { x.hint.Put(s) }

func (x *shard[S]) put(b *Block[S]) {
	x.mu.Lock()
	x.blocks = append(x.blocks, b)
	x.mu.Unlock()
}

// get allocates a block of exactly n bytes that s may use at once. It returns
// nil if no recent block matches.
func (x *shard[S]) get(n int64, s S) *Block[S] {
	x.mu.Lock()
	defer x.mu.Unlock()
	last := len(x.blocks) - 1
	for i := last; i >= 0 && i > last-maxScanned; i-- {
		b := x.blocks[i]
		if b.accounted == n && b.availableTo(s) {
			x.blocks[i] = x.blocks[last]
			x.blocks[last] = nil
			x.blocks = x.blocks[:last]
			b.markAllocated(n)
			return b
		}
	}
	return nil
}

// drain removes all blocks and passes them to a function.
func (x *shard[S]) drain(to func(*Block[S])) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, b := range x.blocks {
		to(b)
	}
	clear(x.blocks)
	x.blocks = x.blocks[:0]
}
