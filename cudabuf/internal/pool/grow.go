package pool

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
