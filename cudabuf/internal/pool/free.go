package pool

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
