package pool

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// recent is how many of the blocks put last a Get looks at.
const recent = 16

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

func (x shards[S]) mine() *shard[S]   { return x.hint.Get().(*shard[S]) }
func (x shards[S]) leave(s *shard[S]) { x.hint.Put(s) }

func (x *shard[S]) put(b *Block[S]) {
	x.mu.Lock()
	x.blocks = append(x.blocks, b)
	x.mu.Unlock()
}

// take lends a block of exactly that size that s may use at once, nil if none
// of the recent ones is.
func (x *shard[S]) take(n int64, s S) *Block[S] {
	x.mu.Lock()
	defer x.mu.Unlock()
	last := len(x.blocks) - 1
	for i := last; i >= 0 && i > last-recent; i-- {
		b := x.blocks[i]
		if b.charge == n && b.readyFor(s) {
			x.blocks[i] = x.blocks[last]
			x.blocks[last] = nil
			x.blocks = x.blocks[:last]
			b.lend(n)
			return b
		}
	}
	return nil
}

// empty takes all blocks out.
func (x *shard[S]) empty(to func(*Block[S])) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, b := range x.blocks {
		to(b)
	}
	clear(x.blocks)
	x.blocks = x.blocks[:0]
}
