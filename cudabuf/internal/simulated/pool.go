//go:build linux

package simulated

import (
	"errors"
	"math"
	"slices"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"golang.org/x/sys/unix"
)

// pool is memory that streams allocate and free in their order. The books
// change when a call is made, not when its stream comes to it: a block is free
// for its own stream at once, for the others when the free has run. The memory
// itself is usable from where the allocation runs to where the free runs.
type pool struct {
	dev             *device
	segment         *segment // nil until there is a first allocation
	shareable       bool
	imported        bool
	imports         int  // of an imported one, that were not destroyed
	importDestroyed bool // an import of it was destroyed
	destroyed       bool
	access          deviceSet
	pendingFrees    []*pendingFree // that have not run

	threshold    uint64 // bytes to keep when nobody uses them
	used         int64  // of allocations
	pending      int64  // of frees that have not run
	cached       int64  // kept
	usedHigh     int64
	reservedHigh int64
}

// pendingFree is a block that a stream frees: the bytes that it had, which work
// that comes before still uses.
type pendingFree struct {
	offset, size int64
	stream       *stream
	position     streamPosition // behind the free
}

func (p *pool) reserved() int64 { return p.used + p.pending + p.cached }

// ensureSegment makes the pool's memory: addresses of it do not run out before the
// device's memory does.
func (p *pool) ensureSegment() error {
	if p.segment != nil {
		return nil
	}
	size := pages(p.dev.arena.size)
	size = max(size, min(size*4, 1<<40))
	f, err := newFile(poolFile, p.dev.ordinal, size)
	if err != nil {
		return err
	}
	return p.mapFile(f)
}

func (p *pool) mapFile(f *file) error {
	s, err := newSegment(p.dev, pooled, f.size, f, 0)
	if err != nil {
		_ = f.close()
		return err
	}
	s.pool, s.access, p.segment = p, p.access, s
	p.dev.arena.add(s)
	return nil
}

// allocate returns a block for a stream, and what the stream has to wait for
// first. It is nil where memory ends.
func (p *pool) allocate(n int64, s *stream) (*allocation, streamPosition) {
	length := pages(n)
	if alloc := p.reuse(n, length, func(f *pendingFree) bool { return f.stream == s }); alloc != nil {
		return alloc, streamPosition{}
	}
	if alloc := p.segment.allocate(n, pages(1)); alloc != nil {
		growth := max(0, length-p.cached)
		if p.dev.arena.charge(growth) {
			p.cached -= length - growth
			p.countUse(alloc)
			return alloc, streamPosition{}
		}
		p.segment.remove(alloc)
	}
	var freed streamPosition
	alloc := p.reuse(n, length, func(f *pendingFree) bool { freed = f.position; return true })
	return alloc, freed
}

// reuse takes a part of a block whose free has not run yet.
func (p *pool) reuse(n, length int64, eligible func(*pendingFree) bool) *allocation {
	for _, alloc := range p.segment.allocations {
		if alloc.pendingFree == nil || alloc.length < length || !eligible(alloc.pendingFree) {
			continue
		}
		reused := &allocation{offset: alloc.offset, length: length, size: n}
		p.segment.remove(alloc)
		alloc.offset, alloc.length, alloc.size = alloc.offset+length, alloc.length-length, alloc.length-length
		if alloc.length > 0 {
			p.segment.insert(alloc)
		}
		p.segment.insert(reused)
		p.pending -= length
		p.countUse(reused)
		return reused
	}
	return nil
}

func (p *pool) countUse(alloc *allocation) {
	p.used += alloc.length
	p.usedHigh = max(p.usedHigh, p.used)
	p.reservedHigh = max(p.reservedHigh, p.reserved())
}

// free lets a stream free a block when it comes to the mark.
func (p *pool) free(alloc *allocation, f *pendingFree) {
	alloc.pendingFree = f
	p.pendingFrees = append(p.pendingFrees, f)
	p.used -= alloc.length
	p.pending += alloc.length
}

// bytesBeforeFree returns what a device sees at bytes that are free only for work that is
// issued from now on.
func (p *pool) bytesBeforeFree(dev *device, offset, n int64) ([]byte, bool) {
	if p.dev != dev && !p.access[dev.ordinal] {
		return nil, false
	}
	for _, f := range p.pendingFrees {
		if offset >= f.offset && n <= f.size-(offset-f.offset) {
			return p.segment.backing[offset : offset+n : offset+n], true
		}
	}
	return nil, false
}

// completeFree is what a free does when it runs, to what nobody took of the block in
// the meantime. It gives back what the pool does not keep.
func (p *pool) completeFree(alloc *allocation) error {
	p.pendingFrees = slices.DeleteFunc(p.pendingFrees, func(f *pendingFree) bool { return f == alloc.pendingFree })
	p.pending -= alloc.length
	if alloc.length == 0 {
		return nil
	}
	err := unix.Mprotect(p.segment.memory(alloc), protNone)
	p.segment.remove(alloc)
	if p.imported {
		return err // the exporter counts it
	}
	p.segment.discard(alloc.offset, alloc.length)
	p.cached += alloc.length
	keep := p.threshold
	if p.destroyed {
		keep = 0
	}
	p.trim(keep)
	return err
}

// trim gives kept memory back until the pool holds no more than keep bytes.
func (p *pool) trim(keep uint64) {
	over := p.reserved() - int64(min(keep, math.MaxInt64))
	if excess := min(max(over, 0), p.cached); excess > 0 {
		p.cached -= excess
		p.dev.arena.used -= excess
	}
}

// unmapIfEmpty gives a destroyed pool's addresses back when nothing of it is left,
// after the work that other streams, by mistake, still have on it.
func (d *Driver) unmapIfEmpty(p *pool) {
	s := p.segment
	if !p.destroyed || s == nil || len(s.allocations) > 0 {
		return
	}
	p.segment = nil
	for h, other := range d.space.pools {
		if other == p {
			delete(d.space.pools, h)
		}
	}
	d.space.remove(s)
	d.space.retiring.Go(func() {
		d.synchronizeAll()
		_ = errors.Join(s.unmap(), s.file.close()) // at worst it keeps the addresses
	})
}

// freeNow is a free that has run.
func (d *Driver) freeNow(p *pool, alloc *allocation) error {
	p.used -= alloc.length
	p.pending += alloc.length
	err := p.completeFree(alloc)
	d.unmapIfEmpty(p)
	return err
}

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
	dev, s, err := d.enterStream(call, sh)
	if err != nil {
		return 0, err
	}
	s.waitForCapacity()
	d.order.Lock()
	defer d.order.Unlock()
	if err := s.rejectCapture(call); err != nil {
		return 0, err
	}
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	alloc, p, freed, err := d.allocFromPool(call, n, h, dev, s)
	if err != nil {
		return 0, err
	}
	address, memory := p.segment.address(alloc), p.segment.memory(alloc)
	_, err = s.submitLocked(call, operation{dependencies: []dependency{freed}, run: func() error {
		// Work that comes before, and what another stream does too early,
		// finds the memory unusable.
		if err := unix.Mprotect(memory, protReadWrite); err != nil {
			return system(call, err)
		}
		poison(memory)
		return nil
	}})
	if err != nil {
		return 0, errors.Join(err, d.freeNow(p, alloc))
	}
	return address, nil
}

func (d *Driver) allocFromPool(call string, n int64, h driver.MemPool, dev *device, s *stream) (*allocation, *pool, streamPosition, error) {
	p := d.space.pools[h]
	if h == 0 {
		p = dev.arena.defaultPool()
	}
	switch {
	case n <= 0:
		return nil, nil, streamPosition{}, invalid(call, "%d bytes", n)
	case p == nil || p.destroyed:
		return nil, nil, streamPosition{}, invalid(call, "%#x is no pool", h)
	case p.imported:
		return nil, nil, streamPosition{}, invalid(call, "the pool is another process's")
	}
	if n > p.dev.arena.size {
		return nil, nil, streamPosition{}, p.dev.arena.outOfMemory(call, n)
	}
	if err := p.ensureSegment(); err != nil {
		return nil, nil, streamPosition{}, system(call, err)
	}
	alloc, freed := p.allocate(n, s)
	if alloc == nil {
		return nil, nil, streamPosition{}, p.dev.arena.outOfMemory(call, n)
	}
	return alloc, p, freed, nil
}

// rejectCapture fails where the stream captures: memory of a graph's own is what the
// soft driver lacks. The caller holds Driver.order.
func (s *stream) rejectCapture(call string) error {
	if s.capture != nil {
		return &driver.Error{Call: call, Code: driver.NotSupported, Detail: "the stream captures, and graphs of the soft driver hold no allocations"}
	}
	return nil
}

// MemFreeAsync takes the memory from everybody at once, since whatever is issued
// from now on cannot come before it. What was issued before finds it still.
func (d *Driver) MemFreeAsync(address uintptr, sh driver.Stream) error {
	const call = "cuMemFreeAsync"
	_, s, err := d.enterStream(call, sh)
	if err != nil {
		return err
	}
	s.waitForCapacity()
	d.order.Lock()
	defer d.order.Unlock()
	if err := s.rejectCapture(call); err != nil {
		return err
	}
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	segment, alloc := d.space.allocationAt(address)
	if segment == nil || segment.kind != pooled || segment.address(alloc) != address {
		return invalid(call, "%#x is no allocation of a pool", address)
	}
	p := segment.pool
	f := &pendingFree{offset: alloc.offset, size: alloc.size, stream: s}
	f.position, err = s.submitLocked(call, operation{run: func() error {
		d.space.mu.Lock()
		defer d.space.mu.Unlock()
		err := p.completeFree(alloc)
		d.unmapIfEmpty(p)
		return system(call, err)
	}})
	if err == nil {
		p.free(alloc, f)
	}
	return err
}

// defaultPool makes the pool at its first use. The caller holds mu.
func (a *arena) defaultPool() *pool {
	if a.pool == nil {
		a.pool = &pool{dev: a.dev, access: deviceSet{}}
	}
	return a.pool
}

func (d *Driver) DeviceGetDefaultMemPool(h driver.Device) (driver.MemPool, error) {
	dev, err := d.enterNamedDevice("cuDeviceGetDefaultMemPool", h)
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
	h := driver.MemPool(d.newHandle())
	d.space.pools[h] = p
	return h
}

func (d *Driver) MemPoolCreate(h driver.Device, shareable bool) (driver.MemPool, error) {
	const call = "cuMemPoolCreate"
	dev, err := d.enterNamedDevice(call, h)
	if err != nil {
		return 0, err
	}
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	p := &pool{dev: dev, shareable: shareable, access: deviceSet{}}
	if err := p.ensureSegment(); err != nil {
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
		if p.used > 0 {
			return invalid(call, "%d bytes of the pool, which is another process's, are open", p.used)
		}
		p.importDestroyed = true
		if p.imports--; p.imports > 0 {
			return nil
		}
	}
	p.destroyed = true
	p.trim(0)
	d.unmapIfEmpty(p)
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
		p.reservedHigh = p.reserved()
	case a == driver.PoolUsedHigh && value == 0:
		p.usedHigh = p.used
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
		return uint64(p.reserved()), nil
	case driver.PoolReservedHigh:
		return uint64(p.reservedHigh), nil
	case driver.PoolUsedCurrent:
		return uint64(p.used), nil
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
	dev, err := d.lookupDevice(call, from)
	if err == nil {
		err = d.requireReach(call, dev, p.dev)
	}
	if err != nil {
		return err
	}
	p.access[dev.ordinal] = true
	return nil
}

// lockPool finds a pool by its handle, and leaves the space locked.
func (d *Driver) lockPool(call string, h driver.MemPool) (*pool, error) {
	if _, err := d.enterCurrentDevice(call); err != nil {
		return nil, err
	}
	d.space.mu.Lock()
	if p, ok := d.space.pools[h]; ok && !p.destroyed {
		return p, nil
	}
	d.space.mu.Unlock()
	return nil, invalid(call, "%#x is no pool", h)
}
