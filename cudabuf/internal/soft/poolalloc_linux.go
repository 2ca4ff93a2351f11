package soft

import (
	"errors"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"golang.org/x/sys/unix"
)

func (d *Driver) MemAllocAsync(n int64, h driver.Stream) (uintptr, error) {
	return d.allocAsync("cuMemAllocAsync", n, 0, h)
}

func (d *Driver) MemAllocFromPoolAsync(n int64, pool driver.MemPool, h driver.Stream) (uintptr, error) {
	const call = "cuMemAllocFromPoolAsync"
	if pool == 0 {
		return 0, invalid(call, "no pool")
	}
	return d.allocAsync(call, n, pool, h)
}

// allocAsync takes the default pool for 0.
func (d *Driver) allocAsync(call string, n int64, h driver.MemPool, sh driver.Stream) (uintptr, error) {
	dev, s, err := d.stream(call, sh)
	if err != nil {
		return 0, err
	}
	s.waitForRoom()
	d.order.Lock()
	defer d.order.Unlock()
	if err := s.orders(call); err != nil {
		return 0, err
	}
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	b, p, freed, err := d.allocLocked(call, n, h, dev, s)
	if err != nil {
		return 0, err
	}
	address, memory := p.segment.address(b), p.segment.memory(b)
	_, err = s.add(call, work{after: []place{freed}, run: func() error {
		// Work that comes before, and what another stream does too early,
		// finds the memory unusable.
		if err := unix.Mprotect(memory, usable); err != nil {
			return system(call, err)
		}
		poison(memory)
		return nil
	}})
	if err != nil {
		return 0, errors.Join(err, d.giveBack(p, b))
	}
	return address, nil
}

func (d *Driver) allocLocked(call string, n int64, h driver.MemPool, dev *device, s *stream) (*block, *pool, mark, error) {
	p := d.space.pools[h]
	if h == 0 {
		p = dev.arena.defaultPool()
	}
	switch {
	case n <= 0:
		return nil, nil, mark{}, invalid(call, "%d bytes", n)
	case p == nil || p.destroyed:
		return nil, nil, mark{}, invalid(call, "%#x is no pool", h)
	case p.imported:
		return nil, nil, mark{}, invalid(call, "the pool is another process's")
	}
	if n > p.dev.arena.size {
		return nil, nil, mark{}, p.dev.arena.full(call, n)
	}
	if err := p.open(); err != nil {
		return nil, nil, mark{}, system(call, err)
	}
	b, freed := p.alloc(n, s)
	if b == nil {
		return nil, nil, mark{}, p.dev.arena.full(call, n)
	}
	return b, p, freed, nil
}

// orders fails where the stream captures: memory of a graph's own is what the
// soft driver lacks. The caller holds Driver.order.
func (s *stream) orders(call string) error {
	if s.capture != nil {
		return &driver.Error{Call: call, Code: driver.NotSupported, Detail: "the stream captures, and graphs of the soft driver hold no allocations"}
	}
	return nil
}

// MemFreeAsync takes the memory from everybody at once, since whatever is issued
// from now on cannot come before it. What was issued before finds it still.
func (d *Driver) MemFreeAsync(address uintptr, sh driver.Stream) error {
	const call = "cuMemFreeAsync"
	_, s, err := d.stream(call, sh)
	if err != nil {
		return err
	}
	s.waitForRoom()
	d.order.Lock()
	defer d.order.Unlock()
	if err := s.orders(call); err != nil {
		return err
	}
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	segment, b := d.space.block(address)
	if segment == nil || segment.kind != pooled || segment.address(b) != address {
		return invalid(call, "%#x is no allocation of a pool", address)
	}
	p := segment.pool
	f := &freeing{offset: b.offset, size: b.size, stream: s}
	f.at, err = s.add(call, work{run: func() error {
		d.space.mu.Lock()
		defer d.space.mu.Unlock()
		err := p.settle(b)
		d.retire(p)
		return system(call, err)
	}})
	if err == nil {
		p.free(b, f)
	}
	return err
}
