package pool

import "slices"

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
