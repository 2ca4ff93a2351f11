//go:build linux

package simulated

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// allocAlign is the alignment of allocations and the multiple that their sizes
// are rounded up to. granularity is the unit of virtual memory, which
// MemGetAllocationGranularity returns.
const (
	allocAlign  = 512
	granularity = 2 << 20
)

// deviceMemory is the part of a device that describes memory.
type deviceMemory struct {
	arena *arena
	peers deviceSet // devices whose memory it can access; guarded by space.mu
}

// arena is the memory of one device. Its methods lock space.mu if their comment
// says so; otherwise the caller holds it.
type arena struct {
	*addressSpace
	dev      *device
	size     int64
	used     int64    // guarded by space.mu; includes pools and virtual memory
	leaked   []string // allocations that were freed with their context
	ordinary *segment
	managed  *segment // nil before the first MemAllocManaged
	pool     *pool    // the default pool
}

func newArena(sp *addressSpace, dev *device, size int64) (*arena, error) {
	f, err := newFile(deviceFile, dev.ordinal, pages(size))
	if err != nil {
		return nil, fmt.Errorf("memory of a simulated device: %w", err)
	}
	s, err := newSegment(dev, ordinary, f.size, f, 0)
	if err != nil {
		_ = f.close()
		return nil, fmt.Errorf("mapping %d bytes of a simulated device: %w", size, err)
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.add(s)
	return &arena{addressSpace: sp, dev: dev, size: size, ordinary: s}, nil
}

// charge counts n bytes of the device as used. It reports false if the device
// has less than that free.
func (a *arena) charge(n int64) bool {
	if n > a.size-a.used {
		return false
	}
	a.used += n
	return true
}

// outOfMemory returns the error for n bytes that the device does not have.
func (a *arena) outOfMemory(call string, n int64) error {
	return &driver.Error{Call: call, Code: driver.OutOfMemory, Detail: fmt.Sprintf("%d bytes wanted, %d of %d in use", n, a.used, a.size)}
}

// alloc returns n bytes that are freed with owner. It reports false if the
// device does not have them. It locks mu.
func (a *arena) alloc(n int64, owner *context) (uintptr, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.allocIn(a.ordinary, n, allocAlign, owner)
}

// allocIn is alloc in one of the segments of the device.
func (a *arena) allocIn(s *segment, n, align int64, owner *context) (uintptr, bool) {
	if n > a.size {
		return 0, false
	}
	alloc := s.allocate(n, align)
	if alloc == nil {
		return 0, false
	}
	if alloc.offset+alloc.length > a.size || !a.charge(alloc.length) {
		s.remove(alloc)
		return 0, false
	}
	alloc.owner = owner
	poison(s.memory(alloc))
	return s.address(alloc), true
}

// allocManaged is alloc for managed memory. It locks mu.
func (a *arena) allocManaged(n int64, owner *context) (uintptr, bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.managed == nil {
		f, err := newFile(deviceFile, a.dev.ordinal, pages(a.size))
		if err != nil {
			return 0, false, err
		}
		if a.managed, err = newSegment(a.dev, managed, f.size, f, 0); err != nil {
			return 0, false, errors.Join(err, f.close())
		}
		a.add(a.managed)
	}
	// Whole pages, since advice and moves concern pages.
	address, ok := a.allocIn(a.managed, n, pages(1), owner)
	return address, ok, nil
}

// release frees an allocation of cuMemAlloc or cuMemAllocManaged and returns its
// pages to the system.
func (a *arena) release(s *segment, alloc *allocation) {
	s.remove(alloc)
	s.discard(alloc.offset, alloc.length)
	a.used -= alloc.length
	alloc.revokeHandles()
}

// ownedBy returns the memory that is freed with a context. It locks mu.
func (a *arena) ownedBy(c *context) (owned []*allocation) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.ownSegments() {
		for _, alloc := range s.allocations {
			if alloc.owner == c {
				owned = append(owned, alloc)
			}
		}
	}
	return owned
}

// ownSegments returns the segments whose allocations are freed with a context.
func (a *arena) ownSegments() []*segment {
	if a.managed == nil {
		return []*segment{a.ordinary}
	}
	return []*segment{a.ordinary, a.managed}
}

// freeLeaked frees allocations that the program did not free, and records their
// names. It locks mu.
func (a *arena) freeLeaked(leaked []*allocation) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.ownSegments() {
		for _, alloc := range leaked {
			if slices.Contains(s.allocations, alloc) {
				a.leaked = append(a.leaked, s.name(alloc))
				a.release(s, alloc)
			}
		}
	}
}

// bytes returns n bytes at an address for an operation that is submitted now.
// They must lie in one allocation that the device can access. It locks mu.
func (a *arena) bytes(address uintptr, n int64) ([]byte, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lookup(address, n)
}

// bytesAtRun is like bytes for an operation that runs now. Memory may have been
// freed by a later operation since its submission. It locks mu.
func (a *arena) bytesAtRun(address uintptr, n int64) ([]byte, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b, ok := a.lookup(address, n)
	if !ok && n >= 0 {
		if s := a.segmentAt(address); s != nil && s.pool != nil {
			return s.pool.bytesBeforeFree(a.dev, int64(address-s.base()), n)
		}
	}
	return b, ok
}

func (a *arena) lookup(address uintptr, n int64) ([]byte, bool) {
	if s := a.segmentAt(address); s != nil {
		return s.bytes(a.dev, address, n)
	}
	if h := a.hostRangeAt(address); h != nil {
		return h.bytes(address, n)
	}
	return nil, false
}

// inUse returns the number of used bytes. It locks mu.
func (a *arena) inUse() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used
}

// close releases all memory of the device. It locks mu.
func (a *arena) close() error {
	a.retiring.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	var err error
	for _, s := range slices.Clone(a.segments) {
		if s.dev == a.dev {
			for _, alloc := range s.allocations {
				alloc.revokeHandles()
				if alloc.physical != nil {
					err = errors.Join(err, alloc.physical.release())
				}
			}
			f := s.file
			err = errors.Join(err, a.unmapSegment(s))
			if f != nil {
				err = errors.Join(err, f.close())
			}
		}
	}
	for h, p := range a.physical {
		if p.dev == a.dev {
			delete(a.physical, h)
			err = errors.Join(err, p.release())
		}
	}
	if len(a.segments) == 0 {
		a.unregister()
	}
	return err
}

// leaks returns an error that names the memory of the device that was never
// freed.
func (dev *device) leaks() error {
	if names := dev.arena.leakNames(); len(names) > 0 {
		return fmt.Errorf("cuda:%d: %d allocations never freed: %s", dev.ordinal, len(names), strings.Join(names, ", "))
	}
	return nil
}

// leakNames names all memory of the device that was never freed. It locks mu.
func (a *arena) leakNames() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	names := slices.Clone(a.leaked)
	for _, s := range a.segments {
		if s.dev != a.dev {
			continue
		}
		switch s.kind {
		case ordinary, managed, pooled:
			for _, alloc := range s.allocations {
				if alloc.pendingFree == nil {
					names = append(names, s.name(alloc))
				}
			}
		case virtual:
			names = append(names, fmt.Sprintf("%d reserved addresses from %#x on", len(s.addresses), s.base()))
		case imported:
			names = append(names, fmt.Sprintf("memory of another process at %#x", s.base()))
		}
	}
	for _, p := range a.pools {
		if p.dev == a.dev && p != a.pool && !p.destroyed {
			names = append(names, "a memory pool")
		}
	}
	for _, p := range a.physical {
		if p.dev == a.dev {
			names = append(names, fmt.Sprintf("%d bytes of MemCreate", p.file.size))
		}
	}
	return names
}

func (s *segment) name(alloc *allocation) string {
	return fmt.Sprintf("%d bytes at %#x", alloc.size, s.address(alloc))
}

func (d *Driver) MemGetInfo() (free, total int64, err error) {
	dev, err := d.enterCurrentDevice("cuMemGetInfo")
	if err != nil {
		return 0, 0, err
	}
	return dev.arena.size - dev.arena.inUse(), dev.arena.size, nil
}

func (d *Driver) MemAlloc(n int64) (uintptr, error) {
	const call = "cuMemAlloc"
	c, err := d.enterContext(call)
	if err != nil {
		return 0, err
	}
	if n <= 0 {
		return 0, invalid(call, "size: got %d bytes, want at least 1", n)
	}
	address, ok := c.dev.arena.alloc(n, c)
	if !ok {
		d.space.mu.Lock()
		defer d.space.mu.Unlock()
		return 0, c.dev.arena.outOfMemory(call, n)
	}
	return address, nil
}

func (d *Driver) MemAllocManaged(n int64) (uintptr, error) {
	const call = "cuMemAllocManaged"
	c, err := d.enterContext(call)
	if err != nil {
		return 0, err
	}
	if n <= 0 {
		return 0, invalid(call, "size: got %d bytes, want at least 1", n)
	}
	address, ok, err := c.dev.arena.allocManaged(n, c)
	if err != nil {
		return 0, system(call, err)
	}
	if !ok {
		d.space.mu.Lock()
		defer d.space.mu.Unlock()
		return 0, c.dev.arena.outOfMemory(call, n)
	}
	return address, nil
}

// MemAdvise checks its arguments. Advice never changes a result.
func (d *Driver) MemAdvise(address uintptr, n int64, a driver.MemAdvice, location driver.Device) error {
	const call = "cuMemAdvise"
	if _, err := d.enterCurrentDevice(call); err != nil {
		return err
	}
	switch a {
	case driver.AdviseSetReadMostly, driver.AdviseUnsetReadMostly, driver.AdviseSetPreferredLocation:
	default:
		return invalid(call, "unknown advice %d", a)
	}
	return d.checkManaged(call, address, n, location)
}

// MemPrefetchAsync checks its arguments. All pages are in host memory always.
func (d *Driver) MemPrefetchAsync(address uintptr, n int64, to driver.Device, stream driver.Stream) error {
	const call = "cuMemPrefetchAsync"
	_, s, err := d.enterStream(call, stream)
	if err != nil {
		return err
	}
	if err := d.checkManaged(call, address, n, to); err != nil {
		return err
	}
	return s.submit(call, func() error { return nil })
}

// checkManaged returns an error unless the bytes are managed memory, and location is
// the host or a device.
func (d *Driver) checkManaged(call string, address uintptr, n int64, location driver.Device) error {
	if location != driver.CPUDevice {
		if _, err := d.lookupDevice(call, location); err != nil {
			return err
		}
	}
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	s, alloc := d.space.allocationAt(address)
	if s == nil || s.kind != managed || n <= 0 || n > alloc.size-int64(address-s.address(alloc)) {
		return invalid(call, "%d bytes at %#x are not managed memory", n, address)
	}
	return nil
}

// MemFree synchronizes the device first, as CUDA does.
func (d *Driver) MemFree(address uintptr) error {
	const call = "cuMemFree"
	dev, err := d.enterCurrentDevice(call)
	if err != nil {
		return err
	}
	d.synchronizeDevice(dev)
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	s, alloc := d.space.allocationAt(address)
	switch {
	case s == nil || s.address(alloc) != address || s.dev != dev:
	case s.kind == ordinary, s.kind == managed:
		dev.arena.release(s, alloc)
		return nil
	case s.kind == pooled:
		return system(call, d.freeNow(s.pool, alloc))
	}
	return invalid(call, "%#x is not an allocation of cuda:%d", address, dev.ordinal)
}

// MemGetAddressRange returns the range of the mapping if the address is virtual
// memory.
func (d *Driver) MemGetAddressRange(address uintptr) (uintptr, int64, error) {
	const call = "cuMemGetAddressRange"
	if _, err := d.enterCurrentDevice(call); err != nil {
		return 0, 0, err
	}
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	if s, alloc := d.space.allocationAt(address); s != nil {
		return s.address(alloc), alloc.size, nil
	}
	if h := d.space.hostRangeAt(address); h != nil {
		return h.base(), int64(len(h.memory)), nil
	}
	return 0, 0, &driver.Error{Call: call, Code: driver.NotFound, Detail: fmt.Sprintf("%#x lies in no allocation", address)}
}

func (d *Driver) PointerGetAttribute(a driver.PointerAttribute, address uintptr) (uint64, error) {
	const call = "cuPointerGetAttribute"
	dev, err := d.enterCurrentDevice(call)
	if err != nil {
		return 0, err
	}
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	if h := d.space.hostRangeAt(address); h != nil {
		return h.attribute(call, a, address)
	}
	s := d.space.segmentAt(address)
	if s != nil {
		if alloc := s.allocationAt(address); alloc != nil && alloc.pendingFree == nil {
			return s.attribute(call, a, address, alloc, dev)
		}
		if s.kind == virtual && a == driver.PointerIsMapped {
			return 0, nil
		}
	}
	return 0, invalid(call, "%#x is not in memory that CUDA knows", address)
}

func (s *segment) attribute(call string, a driver.PointerAttribute, address uintptr, alloc *allocation, from *device) (uint64, error) {
	switch a {
	case driver.PointerContext:
		if alloc.owner == nil {
			return 0, nil
		}
		return uint64(alloc.owner.handle), nil
	case driver.PointerMemoryType:
		return driver.MemoryTypeDevice, nil
	case driver.PointerDevicePointer:
		if !s.accessibleFrom(alloc, from) {
			return 0, invalid(call, "cuda:%d does not reach %#x", from.ordinal, address)
		}
		return uint64(address), nil
	case driver.PointerIsManaged:
		if s.kind == managed {
			return 1, nil
		}
		return 0, nil
	case driver.PointerDeviceOrdinal:
		return uint64(s.ownerDevice(alloc).ordinal), nil
	case driver.PointerIsLegacyIPC:
		if s.kind == ordinary {
			return 1, nil
		}
		return 0, nil
	case driver.PointerIsMapped:
		return 1, nil
	}
	return 0, invalid(call, "unknown attribute %d of device memory", a)
}
