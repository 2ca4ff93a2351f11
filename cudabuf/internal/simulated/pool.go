//go:build linux

package simulated

import (
	"errors"
	"math"
	"slices"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"golang.org/x/sys/unix"
)

// pool is a memory pool (CUmemoryPool). The accounting changes when a call is
// made, not when its operation runs. A freed allocation is available to its own
// stream at once, and to other streams when the free has run. The memory itself
// is accessible from the run of the allocation to the run of the free.
type pool struct {
	dev             *device
	segment         *segment // nil before the first allocation
	shareable       bool
	imported        bool
	imports         int  // if imported, the imports that were not destroyed
	importDestroyed bool // set by the first MemPoolDestroy of an import
	destroyed       bool
	access          deviceSet
	pendingFrees    []*pendingFree

	threshold    uint64 // unused bytes that the pool may keep
	used         int64  // bytes of allocations
	pending      int64  // bytes of frees that have not run
	cached       int64  // unused bytes that the pool keeps
	usedHigh     int64
	reservedHigh int64
}

// pendingFree is a free that has not run. Operations submitted earlier may
// still use its bytes.
type pendingFree struct {
	offset, size int64
	stream       *stream
	position     streamPosition // of the free
}

func (p *pool) reserved() int64 { return p.used + p.pending + p.cached }

// ensureSegment reserves the addresses of the pool, which do not run out before
// the device memory does.
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

// allocate returns an allocation for a stream, and the position that the stream
// must wait for first. The allocation is nil if the device has no memory left.
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

// reuse allocates from memory whose free is pending, if the free is eligible.
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

// free marks an allocation as freed when the stream reaches the position of f.
func (p *pool) free(alloc *allocation, f *pendingFree) {
	alloc.pendingFree = f
	p.pendingFrees = append(p.pendingFrees, f)
	p.used -= alloc.length
	p.pending += alloc.length
}

// bytesBeforeFree returns bytes whose free is pending, for an operation that
// was submitted before the free.
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

// completeFree runs a free for the part of the allocation that was not reused.
// It trims the pool to its threshold.
func (p *pool) completeFree(alloc *allocation) error {
	p.pendingFrees = slices.DeleteFunc(p.pendingFrees, func(f *pendingFree) bool { return f == alloc.pendingFree })
	p.pending -= alloc.length
	if alloc.length == 0 {
		return nil
	}
	err := unix.Mprotect(p.segment.memory(alloc), protNone)
	p.segment.remove(alloc)
	if p.imported {
		return err // the exporter counts the memory
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

// trim releases cached memory until at most keep bytes are reserved.
func (p *pool) trim(keep uint64) {
	over := p.reserved() - int64(min(keep, math.MaxInt64))
	if excess := min(max(over, 0), p.cached); excess > 0 {
		p.cached -= excess
		p.dev.arena.used -= excess
	}
}

// unmapIfEmpty unmaps a destroyed pool without allocations. It first waits for
// operations that other streams incorrectly run on it.
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
		_ = errors.Join(s.unmap(), s.file.close()) // a failure only keeps the addresses
	})
}

// freeNow frees an allocation whose device is synchronized.
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
		return 0, invalid(call, "the pool handle is 0")
	}
	return d.allocAsync(call, n, pool, h)
}

// allocAsync allocates from the default pool if h is 0.
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
		// Earlier operations of this stream, and unordered operations of other
		// streams, fault until now.
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

// allocFromPool reserves the memory of an allocation. The caller holds order
// and space.mu.
func (d *Driver) allocFromPool(call string, n int64, h driver.MemPool, dev *device, s *stream) (*allocation, *pool, streamPosition, error) {
	p := d.space.pools[h]
	if h == 0 {
		p = dev.arena.defaultPool()
	}
	switch {
	case n <= 0:
		return nil, nil, streamPosition{}, invalid(call, "size: got %d bytes, want at least 1", n)
	case p == nil || p.destroyed:
		return nil, nil, streamPosition{}, invalid(call, "%#x is not a pool", h)
	case p.imported:
		return nil, nil, streamPosition{}, invalid(call, "the pool belongs to another process")
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

// rejectCapture returns an error if the stream captures, because simulated
// graphs cannot hold allocations. The caller holds Driver.order.
func (s *stream) rejectCapture(call string) error {
	if s.capture != nil {
		return &driver.Error{Call: call, Code: driver.NotSupported, Detail: "the stream captures, and simulated graphs cannot hold allocations"}
	}
	return nil
}

// MemFreeAsync makes the memory invalid for all operations that are submitted
// later. Operations that were submitted before can still use it.
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
		return invalid(call, "%#x is not an allocation of a pool", address)
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

// defaultPool creates the default pool when it is first used. The caller holds
// mu.
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

// MemPoolDestroy keeps the allocations of the pool valid; the last free
// releases the pool's memory. As in CUDA, a pool of another process cannot be
// destroyed while its pointers are imported.
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
			return invalid(call, "%d bytes of the pool, which belongs to another process, are imported", p.used)
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

// MemPoolTrimTo releases memory that no stream uses.
func (d *Driver) MemPoolTrimTo(h driver.MemPool, keep int64) error {
	const call = "cuMemPoolTrimTo"
	p, err := d.lockPool(call, h)
	if err != nil {
		return err
	}
	defer d.space.mu.Unlock()
	if keep < 0 {
		return invalid(call, "keep: got %d bytes, want at least 0", keep)
	}
	p.trim(uint64(keep))
	return nil
}

// MemPoolSetAttribute accepts only 0 for the high watermarks, as CUDA does.
func (d *Driver) MemPoolSetAttribute(h driver.MemPool, a driver.MemPoolAttribute, value uint64) error {
	const call = "cuMemPoolSetAttribute"
	p, err := d.lockPool(call, h)
	if err != nil {
		return err
	}
	defer d.space.mu.Unlock()
	switch {
	case p.imported:
		return invalid(call, "the pool belongs to another process")
	case a == driver.PoolReleaseThreshold:
		p.threshold = value
	case a == driver.PoolReservedHigh && value == 0:
		p.reservedHigh = p.reserved()
	case a == driver.PoolUsedHigh && value == 0:
		p.usedHigh = p.used
	default:
		return invalid(call, "attribute %d cannot be set to %d", a, value)
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
	return 0, invalid(call, "unknown attribute %d", a)
}

// MemPoolSetAccess gives another device access to the present and future memory
// of the pool.
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

// lockPool returns the pool of a handle and leaves space.mu locked.
func (d *Driver) lockPool(call string, h driver.MemPool) (*pool, error) {
	if _, err := d.enterCurrentDevice(call); err != nil {
		return nil, err
	}
	d.space.mu.Lock()
	if p, ok := d.space.pools[h]; ok && !p.destroyed {
		return p, nil
	}
	d.space.mu.Unlock()
	return nil, invalid(call, "%#x is not a pool", h)
}
