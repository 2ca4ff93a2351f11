package pool

import (
	"cmp"
	"errors"
	"slices"
	"sync"
)

// Config are the choices of a Caching pool.
type Config struct {
	// Granule is the multiple in which the driver hands out memory, a power of
	// two; 0 is 2 MiB, CUDA's own for device memory.
	Granule int64
	// Slack is how much more than what was ever in use is held: before more
	// is taken from the driver, idle allocations beyond this share go back. 0
	// is 1/12, negative any. 64 granules are kept in any case.
	Slack float64
}

// Caching keeps what it took from the driver.
//
// Requests below a granule are cut from allocations of a few granules: the best
// fit, split, and merged again with free neighbours. A larger request gets an
// allocation of its own, which is never split and serves any later request that
// leaves at most an eighth of it unused. Splitting those too would cost the
// driver fewer calls, but small requests then pin large allocations: a random
// trace held 1.4 times what it used, with this rule 1.09 times.
//
// Memory that a stream may still use is lent again, in this order: to the same
// stream; to anybody once the stream is done; to another stream that is made to
// wait for it. Only then more is taken from the driver.
type Caching[S comparable] struct {
	account *Account
	up      Upstream[S]
	config  Config
	shards  shards[S]

	mu      sync.Mutex // of all below; put never waits for it
	free    map[S]*heap[S]
	shared  heap[S] // pending on several streams
	most    int64   // ever in use when something was taken from the driver
	failure error   // the first of Upstream.Free
}

// NewCaching makes a pool that holds nothing yet.
func NewCaching[S comparable](up Upstream[S], config Config) *Caching[S] {
	config.Granule = cmp.Or(config.Granule, 2<<20)
	config.Slack = cmp.Or(config.Slack, 1./12)
	return &Caching[S]{account: newAccount(), up: up, config: config, shards: newShards[S](), free: map[S]*heap[S]{}}
}

// Account is what the pool lends and holds.
func (c *Caching[S]) Account() *Account { return c.account }

// Get is Pool's.
func (c *Caching[S]) Get(n int64, s S) (*Block[S], error) {
	if n == 0 {
		return &Block[S]{}, nil
	}
	n, err := round(n)
	if err != nil {
		return nil, err
	}
	shard := c.shards.mine()
	b := shard.take(n, s)
	if b == nil {
		if b, err = c.search(n, s, shard); err != nil {
			return nil, c.account.explain(n, err)
		}
	}
	c.shards.leave(shard)
	c.account.lend(b.charge)
	return b, nil
}

// Put is Pool's. Merging waits until a Get needs it.
func (c *Caching[S]) Put(b *Block[S], pending []S) error {
	if b.Address == 0 {
		return nil
	}
	if err := b.giveBack(pending); err != nil {
		return err
	}
	c.account.takeBack(b.charge)
	shard := c.shards.mine()
	shard.put(b)
	c.shards.leave(shard)
	if c.account.excess() > 0 && c.mu.TryLock() {
		defer c.mu.Unlock()
		return c.shrink()
	}
	return nil
}

// search finds or makes a block where the shard at hand has none.
func (c *Caching[S]) search(n int64, s S, shard *shard[S]) (*Block[S], error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.collect(shard)
	b := c.find(n, s)
	if b == nil {
		c.collect(c.shards.all...)
		b = c.find(n, s)
	}
	if b == nil && c.settle() {
		b = c.find(n, s)
	}
	var err error
	if b == nil {
		b, err = c.steal(n, s)
	}
	if b == nil && err == nil {
		b, err = c.grow(n, s)
	}
	if err != nil {
		return nil, err
	}
	if !b.whole && b.Size > n {
		c.insert(b.cut(n))
	}
	b.lend(n)
	return b, nil
}

// Trim is Pool's.
func (c *Caching[S]) Trim() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.collect(c.shards.all...)
	c.settle()
	return c.release(0)
}

// SetIdleLimit bounds what is held and not lent, as far as whole allocations of
// the driver are, and no stream may still use them.
func (c *Caching[S]) SetIdleLimit(n int64) error {
	c.account.idleLimit.Store(max(n, 0))
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shrink()
}

// shrink keeps the idle limit.
func (c *Caching[S]) shrink() error {
	if c.account.excess() <= 0 {
		return nil
	}
	c.collect(c.shards.all...)
	c.settle()
	return c.release(c.account.held.Load() - c.account.excess())
}

// Forget is Pool's.
func (c *Caching[S]) Forget(s S) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.collect(c.shards.all...)
	c.forget(s)
}

// Close is Pool's.
func (c *Caching[S]) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.collect(c.shards.all...)
	if err := c.account.unused(); err != nil {
		return err
	}
	err := c.wait()
	_ = c.release(0) // kept in failure
	return errors.Join(err, c.failure)
}

// collect moves what was put into shards to the lists of free blocks.
func (c *Caching[S]) collect(shards ...*shard[S]) {
	for _, shard := range shards {
		shard.empty(c.insert)
	}
}

// heapOf is where a free block belongs.
func (c *Caching[S]) heapOf(pending []S) *heap[S] {
	var s S
	switch len(pending) {
	case 0:
	case 1:
		s = pending[0]
	default:
		return &c.shared
	}
	h := c.free[s]
	if h == nil {
		h = new(heap[S])
		c.free[s] = h
	}
	return h
}

// insert makes a block a free one, and one with its free neighbours that are
// pending alike.
func (c *Caching[S]) insert(b *Block[S]) {
	h := c.heapOf(b.pending)
	merges := func(x *Block[S]) bool {
		return x != nil && x.state.Load() == free && len(b.pending) < 2 && c.heapOf(x.pending) == h
	}
	if prev := b.prev; merges(prev) {
		h.remove(prev)
		prev.swallow()
		b = prev
	}
	if next := b.next; merges(next) {
		h.remove(next)
		b.swallow()
	}
	b.state.Store(free)
	h.add(b)
}

// remove makes a free block one that belongs to the caller.
func (c *Caching[S]) remove(b *Block[S]) *Block[S] {
	c.heapOf(b.pending).remove(b)
	b.state.Store(returned)
	return b
}

// find takes the best free block that s may use at once, its own rather than
// one that everybody may use.
func (c *Caching[S]) find(n int64, s S) *Block[S] {
	var none S
	best := c.fit(c.free[s], n)
	if s != none {
		best = smaller(best, c.fit(c.free[none], n))
	}
	if best == nil {
		return nil
	}
	return c.remove(best)
}

// fit is the best block of a heap, if it has one that serves.
func (c *Caching[S]) fit(h *heap[S], n int64) *Block[S] {
	if h == nil {
		return nil
	}
	if n < c.config.Granule {
		return h.small.best(n)
	}
	b := h.whole.best(n)
	if b == nil || b.Size-n > b.Size/8 && b.Size > up(n, c.config.Granule) {
		return nil
	}
	return b
}

// smaller prefers a over b where they are alike.
func smaller[S comparable](a, b *Block[S]) *Block[S] {
	if a == nil || b != nil && b.Size < a.Size {
		return b
	}
	return a
}

// Largest is the size of the largest block that anybody could get at once
// without more being taken from the driver.
func (c *Caching[S]) Largest() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.collect(c.shards.all...)
	c.settle()
	var none S
	var largest int64
	if idle := c.free[none]; idle != nil {
		for _, b := range idle.blocks() {
			largest = max(largest, b.Size)
		}
	}
	return largest
}

// grow takes memory from the driver, and gives idle memory back for it where
// what is held would grow beyond measure, or where there is no more. What streams
// may still use is no less in use than what is lent.
func (c *Caching[S]) grow(n int64, s S) (*Block[S], error) {
	c.most = max(c.most, c.account.inUse.Load()+c.pendingBytes()+n)
	room := c.account.limit.Load()
	if c.config.Slack >= 0 {
		slack := max(int64(float64(c.most)*c.config.Slack), 64*c.config.Granule)
		room = min(room, c.most+slack)
	}
	_ = c.release(room - c.sizes(n)[0]) // kept in failure
	b, err := c.take(n)
	if outOfMemory(err) && c.releaseAll() {
		b, err = c.take(n)
	}
	if outOfMemory(err) && c.pendingBytes() > 0 {
		if failure := c.wait(); failure != nil {
			return nil, failure
		}
		if b := c.find(n, s); b != nil {
			return b, nil
		}
		c.releaseAll()
		b, err = c.take(n)
	}
	return b, err
}

// releaseAll gives all whole idle allocations back, and tells whether there were
// any.
func (c *Caching[S]) releaseAll() bool {
	held := c.account.held.Load()
	_ = c.release(0)
	return c.account.held.Load() < held
}

// sizes are what to ask the driver for, the best first.
func (c *Caching[S]) sizes(n int64) []int64 {
	if n < c.config.Granule {
		return []int64{4 * c.config.Granule, c.config.Granule, n}
	}
	return []int64{up(n, c.config.Granule), n}
}

// take gets an allocation for n bytes.
func (c *Caching[S]) take(n int64) (*Block[S], error) {
	var address uintptr
	var err error
	for _, size := range c.sizes(n) {
		if address, err = c.account.hold(size, c.up.Alloc); err == nil {
			return &Block[S]{Address: address, Size: size, whole: n >= c.config.Granule}, nil
		}
		if !outOfMemory(err) {
			break
		}
	}
	return nil, err
}

// release gives whole idle allocations back, large ones first, until no more
// than keep bytes are held.
func (c *Caching[S]) release(keep int64) error {
	var none S
	idle := c.free[none]
	if idle == nil || c.account.held.Load() <= keep {
		return nil
	}
	var failure error
	for _, b := range idle.blocks() {
		if c.account.held.Load() <= keep {
			break
		}
		if !b.alone() {
			continue
		}
		c.remove(b)
		err := c.up.Free(b.Address)
		c.account.drop(b.Size)
		if failure == nil {
			failure = err
		}
	}
	if c.failure == nil {
		c.failure = failure
	}
	return failure
}

// pendingStreams are the streams that some free block is pending on.
func (c *Caching[S]) pendingStreams() []S {
	var none S
	var all []S
	for s := range c.free {
		if s != none {
			all = append(all, s)
		}
	}
	for _, b := range c.shared.blocks() {
		for _, s := range b.pending {
			if !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
	}
	return all
}

// pendingBytes are those of free blocks that some stream may still use.
func (c *Caching[S]) pendingBytes() int64 {
	var none S
	sum := c.shared.bytes
	for s, h := range c.free {
		if s != none {
			sum += h.bytes
		}
	}
	return sum
}

// settle asks which streams are done, and tells whether one was.
func (c *Caching[S]) settle() bool {
	settled := false
	for _, s := range c.pendingStreams() {
		if c.up.Done(s) {
			c.forget(s)
			settled = true
		}
	}
	return settled
}

// wait waits for all streams.
func (c *Caching[S]) wait() error {
	for _, s := range c.pendingStreams() {
		if err := c.up.Wait(s); err != nil {
			return err
		}
		c.forget(s)
	}
	return nil
}

// forget makes what was pending on s no longer so.
func (c *Caching[S]) forget(s S) {
	if h := c.free[s]; h != nil {
		delete(c.free, s)
		blocks := h.blocks()
		for _, b := range blocks {
			b.state.Store(returned)
			b.pending = nil
		}
		for _, b := range blocks {
			c.insert(b)
		}
	}
	for _, b := range c.shared.blocks() {
		if i := slices.Index(b.pending, s); i >= 0 {
			c.remove(b)
			b.pending = slices.Delete(b.pending, i, i+1)
			c.insert(b)
		}
	}
}

// steal takes the best block that other streams may still use, and makes s wait
// for them. Without a stream there is nothing that could wait.
func (c *Caching[S]) steal(n int64, s S) (*Block[S], error) {
	var none S
	if s == none {
		return nil, nil
	}
	best := c.fit(&c.shared, n)
	for _, h := range c.free {
		b := c.fit(h, n)
		if best == nil || b != nil && (b.Size < best.Size || b.Size == best.Size && b.Address < best.Address) {
			best = b
		}
	}
	if best == nil {
		return nil, nil
	}
	for _, before := range best.pending {
		if before == s {
			continue
		}
		if err := c.up.Order(before, s); err != nil {
			return nil, err
		}
	}
	return c.remove(best), nil
}
