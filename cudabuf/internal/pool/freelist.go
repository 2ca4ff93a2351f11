package pool

import (
	"cmp"
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// sizeBins are blocks in the order of their sizes, and of their addresses among
// equal ones. Bin i has those of [2^(i-1), 2^i) times Align, so that putting one
// in moves only pointers of blocks of about its size.
type sizeBins[S comparable] [64][]*Block[S]

// find is the place of the first block that is not less.
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

// best is the smallest block of at least n bytes, nil if there is none.
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

// freeList are free blocks that are pending on the same streams.
type freeList[S comparable] struct {
	small, dedicated sizeBins[S]
	bytes            int64 // of all
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

// blocks is a copy of all, largest first, that may be used while blocks come and
// go.
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

// maxScanned is how many of the blocks put last a Get looks at.
const maxScanned = 16

// shard holds blocks that were put and not yet merged. What a goroutine puts it
// often gets again, so that neither call meets another goroutine's.
type shard[S comparable] struct {
	mu     sync.Mutex
	blocks []*Block[S] // in the order in which they were put
	_      [64]byte    // not the next one's cache line
}

// maxShards bounds the shards that a Get looks through before more memory is
// taken from the driver.
const maxShards = 16

// shards are as many as goroutines run at once. A sync.Pool knows which one the
// processor at hand used last. It is a hint only, which may be lost or be held
// twice: a shard has its lock.
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

// get lends a block of exactly that size that s may use at once, nil if none
// of the recent ones is.
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

// drain takes all blocks out.
func (x *shard[S]) drain(to func(*Block[S])) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, b := range x.blocks {
		to(b)
	}
	clear(x.blocks)
	x.blocks = x.blocks[:0]
}
