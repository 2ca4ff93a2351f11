package soft

import "github.com/quiver-gpu/quiver/cudabuf/internal/driver"

// defaultPool makes the pool at its first use. The caller holds mu.
func (a *arena) defaultPool() *pool {
	if a.pool == nil {
		a.pool = &pool{dev: a.dev, access: deviceSet{}}
	}
	return a.pool
}

func (d *Driver) DeviceGetDefaultMemPool(h driver.Device) (driver.MemPool, error) {
	dev, err := d.named("cuDeviceGetDefaultMemPool", h)
	if err != nil {
		return 0, err
	}
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	p := dev.arena.defaultPool()
	for h, other := range d.space.pools {
		if other == p {
			return h, nil
		}
	}
	return d.addPool(p), nil
}

func (d *Driver) addPool(p *pool) driver.MemPool {
	h := driver.MemPool(d.handle())
	d.space.pools[h] = p
	return h
}

func (d *Driver) MemPoolCreate(h driver.Device, shareable bool) (driver.MemPool, error) {
	const call = "cuMemPoolCreate"
	dev, err := d.named(call, h)
	if err != nil {
		return 0, err
	}
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	p := &pool{dev: dev, shareable: shareable, access: deviceSet{}}
	if err := p.open(); err != nil {
		return 0, system(call, err)
	}
	return d.addPool(p), nil
}

// MemPoolDestroy leaves the allocations; their memory goes with the last one. A
// pool of another process is refused while pointers of it are open, as CUDA does.
func (d *Driver) MemPoolDestroy(h driver.MemPool) error {
	const call = "cuMemPoolDestroy"
	p, err := d.lockPool(call, h)
	if err != nil {
		return err
	}
	defer d.space.mu.Unlock()
	if p == p.dev.arena.pool {
		return invalid(call, "it is the default pool of cuda:%d", p.dev.ordinal)
	}
	if p.imported {
		if p.live > 0 {
			return invalid(call, "%d bytes of the pool, which is another process's, are open", p.live)
		}
		p.ending = true
		if p.imports--; p.imports > 0 {
			return nil
		}
	}
	p.destroyed = true
	p.trim(0)
	d.retire(p)
	return nil
}

// MemPoolTrimTo gives back what no stream uses.
func (d *Driver) MemPoolTrimTo(h driver.MemPool, keep int64) error {
	const call = "cuMemPoolTrimTo"
	p, err := d.lockPool(call, h)
	if err != nil {
		return err
	}
	defer d.space.mu.Unlock()
	if keep < 0 {
		return invalid(call, "%d bytes", keep)
	}
	p.trim(uint64(keep))
	return nil
}

// MemPoolSetAttribute sets the high marks to 0 alone, as CUDA does.
func (d *Driver) MemPoolSetAttribute(h driver.MemPool, a driver.MemPoolAttribute, value uint64) error {
	const call = "cuMemPoolSetAttribute"
	p, err := d.lockPool(call, h)
	if err != nil {
		return err
	}
	defer d.space.mu.Unlock()
	switch {
	case p.imported:
		return invalid(call, "the pool is another process's")
	case a == driver.PoolReleaseThreshold:
		p.threshold = value
	case a == driver.PoolReservedHigh && value == 0:
		p.heldHigh = p.held()
	case a == driver.PoolUsedHigh && value == 0:
		p.usedHigh = p.live
	default:
		return invalid(call, "%d for attribute %d", value, a)
	}
	return nil
}

func (d *Driver) MemPoolGetAttribute(h driver.MemPool, a driver.MemPoolAttribute) (uint64, error) {
	const call = "cuMemPoolGetAttribute"
	p, err := d.lockPool(call, h)
	if err != nil {
		return 0, err
	}
	defer d.space.mu.Unlock()
	switch a {
	case driver.PoolReleaseThreshold:
		return p.threshold, nil
	case driver.PoolReservedCurrent:
		return uint64(p.held()), nil
	case driver.PoolReservedHigh:
		return uint64(p.heldHigh), nil
	case driver.PoolUsedCurrent:
		return uint64(p.live), nil
	case driver.PoolUsedHigh:
		return uint64(p.usedHigh), nil
	}
	return 0, invalid(call, "attribute %d", a)
}

// MemPoolSetAccess lets another device use the pool's memory, now and later.
func (d *Driver) MemPoolSetAccess(h driver.MemPool, from driver.Device) error {
	const call = "cuMemPoolSetAccess"
	p, err := d.lockPool(call, h)
	if err != nil {
		return err
	}
	defer d.space.mu.Unlock()
	dev, err := d.device(call, from)
	if err == nil {
		err = d.mayShare(call, dev, p.dev)
	}
	if err != nil {
		return err
	}
	p.access[dev.ordinal] = true
	return nil
}

// lockPool finds a pool by its handle, and leaves the space locked.
func (d *Driver) lockPool(call string, h driver.MemPool) (*pool, error) {
	if _, err := d.current(call); err != nil {
		return nil, err
	}
	d.space.mu.Lock()
	if p, ok := d.space.pools[h]; ok && !p.destroyed {
		return p, nil
	}
	d.space.mu.Unlock()
	return nil, invalid(call, "%#x is no pool", h)
}
