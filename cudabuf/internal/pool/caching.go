package pool

import (
	"cmp"
	"errors"
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
