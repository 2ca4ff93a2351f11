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
	account  *Account
	upstream Upstream[S]
	config   Config
	shards   shards[S]

	mu        sync.Mutex // of all below; put never waits for it
	freeLists map[S]*freeList[S]
	shared    freeList[S] // pending on several streams
	peakUse   int64       // ever in use when something was taken from the driver
	failure   error       // the first of Upstream.Free
}

// NewCaching makes a pool that holds nothing yet.
func NewCaching[S comparable](up Upstream[S], config Config) *Caching[S] {
	config.Granule = cmp.Or(config.Granule, 2<<20)
	config.Slack = cmp.Or(config.Slack, 1./12)
	return &Caching[S]{account: newAccount(), upstream: up, config: config, shards: newShards[S](), freeLists: map[S]*freeList[S]{}}
}

// Account is what the pool lends and holds.
func (c *Caching[S]) Account() *Account { return c.account }

// Get is Pool's.
func (c *Caching[S]) Get(n int64, s S) (*Block[S], error) {
	if n == 0 {
		return &Block[S]{}, nil
	}
	n, err := roundSize(n)
	if err != nil {
		return nil, err
	}
	shard := c.shards.acquire()
	b := shard.get(n, s)
	if b == nil {
		if b, err = c.allocate(n, s, shard); err != nil {
			return nil, c.account.describeFailure(n, err)
		}
	}
	c.shards.release(shard)
	c.account.countAlloc(b.accounted)
	return b, nil
}

// Put is Pool's. Merging waits until a Get needs it.
func (c *Caching[S]) Put(b *Block[S], pending []S) error {
	if b.Address == 0 {
		return nil
	}
	if err := b.markReturned(pending); err != nil {
		return err
	}
	c.account.countFree(b.accounted)
	shard := c.shards.acquire()
	shard.put(b)
	c.shards.release(shard)
	if c.account.excessIdle() > 0 && c.mu.TryLock() {
		defer c.mu.Unlock()
		return c.shrink()
	}
	return nil
}

// allocate finds or makes a block where the shard at hand has none.
func (c *Caching[S]) allocate(n int64, s S, shard *shard[S]) (*Block[S], error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drainShards(shard)
	b := c.takeBestFit(n, s)
	if b == nil {
		c.drainShards(c.shards.all...)
		b = c.takeBestFit(n, s)
	}
	if b == nil && c.pollStreams() {
		b = c.takeBestFit(n, s)
	}
	var err error
	if b == nil {
		b, err = c.reusePending(n, s)
	}
	if b == nil && err == nil {
		b, err = c.grow(n, s)
	}
	if err != nil {
		return nil, err
	}
	if !b.dedicated && b.Size > n {
		c.insert(b.split(n))
	}
	b.markAllocated(n)
	return b, nil
}

// Trim is Pool's.
func (c *Caching[S]) Trim() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drainShards(c.shards.all...)
	c.pollStreams()
	return c.releaseIdle(0)
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
	if c.account.excessIdle() <= 0 {
		return nil
	}
	c.drainShards(c.shards.all...)
	c.pollStreams()
	return c.releaseIdle(c.account.held.Load() - c.account.excessIdle())
}

// Forget is Pool's.
func (c *Caching[S]) Forget(s S) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drainShards(c.shards.all...)
	c.streamDone(s)
}

// Close is Pool's.
func (c *Caching[S]) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drainShards(c.shards.all...)
	if err := c.account.requireUnused(); err != nil {
		return err
	}
	err := c.waitStreams()
	_ = c.releaseIdle(0) // kept in failure
	return errors.Join(err, c.failure)
}

// drainShards moves what was put into shards to the lists of free blocks.
func (c *Caching[S]) drainShards(shards ...*shard[S]) {
	for _, shard := range shards {
		shard.drain(c.insert)
	}
}

// freeListOf is where a free block belongs.
func (c *Caching[S]) freeListOf(pending []S) *freeList[S] {
	var s S
	switch len(pending) {
	case 0:
	case 1:
		s = pending[0]
	default:
		return &c.shared
	}
	h := c.freeLists[s]
	if h == nil {
		h = new(freeList[S])
		c.freeLists[s] = h
	}
	return h
}

// insert makes a block a free one, and one with its free neighbours that are
// pending alike.
func (c *Caching[S]) insert(b *Block[S]) {
	h := c.freeListOf(b.pending)
	merges := func(x *Block[S]) bool {
		return x != nil && x.state.Load() == free && len(b.pending) < 2 && c.freeListOf(x.pending) == h
	}
	if prev := b.prev; merges(prev) {
		h.remove(prev)
		prev.mergeNext()
		b = prev
	}
	if next := b.next; merges(next) {
		h.remove(next)
		b.mergeNext()
	}
	b.state.Store(free)
	h.add(b)
}

// remove makes a free block one that belongs to the caller.
func (c *Caching[S]) remove(b *Block[S]) *Block[S] {
	c.freeListOf(b.pending).remove(b)
	b.state.Store(returned)
	return b
}

// takeBestFit takes the best free block that s may use at once, its own rather than
// one that everybody may use.
func (c *Caching[S]) takeBestFit(n int64, s S) *Block[S] {
	var none S
	best := c.bestFit(c.freeLists[s], n)
	if s != none {
		best = smaller(best, c.bestFit(c.freeLists[none], n))
	}
	if best == nil {
		return nil
	}
	return c.remove(best)
}

// bestFit is the best block of a heap, if it has one that serves.
func (c *Caching[S]) bestFit(h *freeList[S], n int64) *Block[S] {
	if h == nil {
		return nil
	}
	if n < c.config.Granule {
		return h.small.best(n)
	}
	b := h.dedicated.best(n)
	if b == nil || b.Size-n > b.Size/8 && b.Size > roundUp(n, c.config.Granule) {
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
	c.drainShards(c.shards.all...)
	c.pollStreams()
	var none S
	var largest int64
	if idle := c.freeLists[none]; idle != nil {
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
	c.peakUse = max(c.peakUse, c.account.inUse.Load()+c.pendingBytes()+n)
	room := c.account.limit.Load()
	if c.config.Slack >= 0 {
		slack := max(int64(float64(c.peakUse)*c.config.Slack), 64*c.config.Granule)
		room = min(room, c.peakUse+slack)
	}
	_ = c.releaseIdle(room - c.upstreamSizes(n)[0]) // kept in failure
	b, err := c.allocUpstream(n)
	if outOfMemory(err) && c.releaseAllIdle() {
		b, err = c.allocUpstream(n)
	}
	if outOfMemory(err) && c.pendingBytes() > 0 {
		if failure := c.waitStreams(); failure != nil {
			return nil, failure
		}
		if b := c.takeBestFit(n, s); b != nil {
			return b, nil
		}
		c.releaseAllIdle()
		b, err = c.allocUpstream(n)
	}
	return b, err
}

// releaseAllIdle gives all whole idle allocations back, and tells whether there were
// any.
func (c *Caching[S]) releaseAllIdle() bool {
	held := c.account.held.Load()
	_ = c.releaseIdle(0)
	return c.account.held.Load() < held
}

// upstreamSizes are what to ask the driver for, the best first.
func (c *Caching[S]) upstreamSizes(n int64) []int64 {
	if n < c.config.Granule {
		return []int64{4 * c.config.Granule, c.config.Granule, n}
	}
	return []int64{roundUp(n, c.config.Granule), n}
}

// allocUpstream gets an allocation for n bytes.
func (c *Caching[S]) allocUpstream(n int64) (*Block[S], error) {
	var address uintptr
	var err error
	for _, size := range c.upstreamSizes(n) {
		if address, err = c.account.reserve(size, c.upstream.Alloc); err == nil {
			return &Block[S]{Address: address, Size: size, dedicated: n >= c.config.Granule}, nil
		}
		if !outOfMemory(err) {
			break
		}
	}
	return nil, err
}

// releaseIdle gives whole idle allocations back, large ones first, until no more
// than keep bytes are held.
func (c *Caching[S]) releaseIdle(keep int64) error {
	var none S
	idle := c.freeLists[none]
	if idle == nil || c.account.held.Load() <= keep {
		return nil
	}
	var failure error
	for _, b := range idle.blocks() {
		if c.account.held.Load() <= keep {
			break
		}
		if !b.isWholeAllocation() {
			continue
		}
		c.remove(b)
		err := c.upstream.Free(b.Address)
		c.account.unreserve(b.Size)
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
	for s := range c.freeLists {
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
	for s, h := range c.freeLists {
		if s != none {
			sum += h.bytes
		}
	}
	return sum
}

// pollStreams asks which streams are done, and tells whether one was.
func (c *Caching[S]) pollStreams() bool {
	settled := false
	for _, s := range c.pendingStreams() {
		if c.upstream.Done(s) {
			c.streamDone(s)
			settled = true
		}
	}
	return settled
}

// waitStreams waits for all streams.
func (c *Caching[S]) waitStreams() error {
	for _, s := range c.pendingStreams() {
		if err := c.upstream.Wait(s); err != nil {
			return err
		}
		c.streamDone(s)
	}
	return nil
}

// streamDone makes what was pending on s no longer so.
func (c *Caching[S]) streamDone(s S) {
	if h := c.freeLists[s]; h != nil {
		delete(c.freeLists, s)
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

// reusePending takes the best block that other streams may still use, and makes s wait
// for them. Without a stream there is nothing that could wait.
func (c *Caching[S]) reusePending(n int64, s S) (*Block[S], error) {
	var none S
	if s == none {
		return nil, nil
	}
	best := c.bestFit(&c.shared, n)
	for _, h := range c.freeLists {
		b := c.bestFit(h, n)
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
		if err := c.upstream.Order(before, s); err != nil {
			return nil, err
		}
	}
	return c.remove(best), nil
}
