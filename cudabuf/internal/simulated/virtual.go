//go:build linux

package simulated

import "github.com/quiver-gpu/quiver/cudabuf/internal/driver"

// physical is a physical allocation (CUmemGenericAllocationHandle). It has its
// own file, which other processes can open by a descriptor.
type physical struct {
	dev        *device
	file       *file
	references int // one of the handle and one of each mapping
	shareable  bool
	counted    bool // its bytes count as used; false if imported, because the exporter counts them
}

// release releases one reference. The last one frees the memory.
func (p *physical) release() error {
	if p.references--; p.references > 0 {
		return nil
	}
	if p.counted {
		p.dev.arena.used -= p.file.size
	}
	return p.file.close()
}

func (d *Driver) MemGetAllocationGranularity(h driver.Device, _ bool) (int64, error) {
	_, err := d.enterNamedDevice("cuMemGetAllocationGranularity", h)
	return granularity, err
}

func (d *Driver) MemCreate(n int64, h driver.Device, shareable bool) (driver.Physical, error) {
	const call = "cuMemCreate"
	dev, err := d.enterNamedDevice(call, h)
	if err != nil {
		return 0, err
	}
	if err := requireGranular(call, n); err != nil {
		return 0, err
	}
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	if !dev.arena.charge(n) {
		return 0, dev.arena.outOfMemory(call, n)
	}
	f, err := newFile(physicalFile, dev.ordinal, n)
	if err != nil {
		dev.arena.used -= n
		return 0, system(call, err)
	}
	return d.addPhysical(&physical{dev: dev, file: f, references: 1, shareable: shareable, counted: true}), nil
}

func (d *Driver) addPhysical(p *physical) driver.Physical {
	h := driver.Physical(d.newHandle())
	d.space.physical[h] = p
	return h
}

// MemRelease releases the handle. Mapped memory stays until it is unmapped.
func (d *Driver) MemRelease(h driver.Physical) error {
	const call = "cuMemRelease"
	p, err := d.lockPhysical(call, h)
	if err != nil {
		return err
	}
	defer d.space.mu.Unlock()
	delete(d.space.physical, h)
	return system(call, p.release())
}

func (d *Driver) MemExportToShareableHandle(h driver.Physical) (int, error) {
	const call = "cuMemExportToShareableHandle"
	p, err := d.lockPhysical(call, h)
	if err != nil {
		return 0, err
	}
	defer d.space.mu.Unlock()
	if !p.shareable {
		return 0, invalid(call, "the memory was not created shareable")
	}
	fd, err := p.file.dup()
	return fd, system(call, err)
}

func (d *Driver) MemImportFromShareableHandle(fd int) (driver.Physical, error) {
	const call = "cuMemImportFromShareableHandle"
	f, dev, err := d.importFile(call, fd, physicalFile)
	if err != nil {
		return 0, err
	}
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	return d.addPhysical(&physical{dev: dev, file: f, references: 1, shareable: true}), nil
}

// lockPhysical returns the physical memory of a handle and leaves space.mu
// locked.
func (d *Driver) lockPhysical(call string, h driver.Physical) (*physical, error) {
	if _, err := d.enterCurrentDevice(call); err != nil {
		return nil, err
	}
	d.space.mu.Lock()
	if p, ok := d.space.physical[h]; ok {
		return p, nil
	}
	d.space.mu.Unlock()
	return nil, invalid(call, "%#x is not a handle of physical memory", h)
}

// requireGranular returns an error unless n is a positive multiple of the
// granularity.
func requireGranular(call string, n int64) error {
	if n <= 0 || n%granularity != 0 {
		return invalid(call, "%d bytes are not a multiple of %d", n, granularity)
	}
	return nil
}

// MemAddressReserve also reserves adjacent addresses for the backing memory, so
// that adjacent mappings can be copied as one range.
func (d *Driver) MemAddressReserve(n int64) (uintptr, error) {
	const call = "cuMemAddressReserve"
	dev, err := d.enterCurrentDevice(call)
	if err != nil {
		return 0, err
	}
	if err := requireGranular(call, n); err != nil {
		return 0, err
	}
	s, err := newSegment(dev, virtual, n, nil, 0)
	if err != nil {
		return 0, &driver.Error{Call: call, Code: driver.OutOfMemory, Detail: err.Error()}
	}
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	d.space.add(s)
	return s.base(), nil
}

// MemAddressFree frees a whole reservation without mappings.
func (d *Driver) MemAddressFree(address uintptr, n int64) error {
	const call = "cuMemAddressFree"
	if _, err := d.enterCurrentDevice(call); err != nil {
		return err
	}
	d.synchronizeAll()
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	s := d.space.segmentAt(address)
	if s == nil || s.kind != virtual || s.base() != address || int64(len(s.addresses)) != n {
		return invalid(call, "%d bytes at %#x are not a reservation", n, address)
	}
	if len(s.allocations) > 0 {
		return invalid(call, "memory is mapped in the reservation at %#x", address)
	}
	return system(call, d.space.unmapSegment(s))
}

// MemMap requires n to be the size of the physical memory.
func (d *Driver) MemMap(address uintptr, n int64, h driver.Physical) error {
	const call = "cuMemMap"
	p, err := d.lockPhysical(call, h)
	if err != nil {
		return err
	}
	defer d.space.mu.Unlock()
	if n != p.file.size {
		return invalid(call, "%d bytes: want the whole physical memory of %d", n, p.file.size)
	}
	s, offset, err := d.reserved(call, address, n)
	if err != nil {
		return err
	}
	if i := s.indexEndingAfter(offset); i < len(s.allocations) && s.allocations[i].offset < offset+n {
		return invalid(call, "memory is mapped at %#x", s.address(s.allocations[i]))
	}
	if err := p.file.mmapOver(s.backing[offset : offset+n]); err != nil {
		return system(call, err)
	}
	p.references++
	s.insert(&allocation{offset: offset, length: n, size: n, physical: p, access: deviceSet{}})
	return nil
}

// MemUnmap requires whole mappings. It synchronizes all devices.
func (d *Driver) MemUnmap(address uintptr, n int64) error {
	const call = "cuMemUnmap"
	if _, err := d.enterCurrentDevice(call); err != nil {
		return err
	}
	d.synchronizeAll()
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	s, offset, err := d.reserved(call, address, n)
	if err != nil {
		return err
	}
	mappings, err := s.mappingsIn(call, offset, n)
	if err != nil {
		return err
	}
	if err := unmapToReserved(s.backing[offset : offset+n]); err != nil {
		return system(call, err)
	}
	for _, alloc := range mappings {
		s.remove(alloc)
		if e := alloc.physical.release(); e != nil {
			err = system(call, e)
		}
	}
	return err
}

// MemSetAccess requires whole mappings of memory that the device can reach.
func (d *Driver) MemSetAccess(address uintptr, n int64, from driver.Device) error {
	const call = "cuMemSetAccess"
	dev, err := d.enterNamedDevice(call, from)
	if err != nil {
		return err
	}
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	s, offset, err := d.reserved(call, address, n)
	if err != nil {
		return err
	}
	mappings, err := s.mappingsIn(call, offset, n)
	if err != nil {
		return err
	}
	for _, alloc := range mappings {
		if err := d.requireReach(call, dev, s.ownerDevice(alloc)); err != nil {
			return err
		}
	}
	for _, alloc := range mappings {
		alloc.access[dev.ordinal] = true
	}
	return nil
}

// reserved returns the segment of a reservation that contains n bytes at an
// address, and their offset.
func (d *Driver) reserved(call string, address uintptr, n int64) (*segment, int64, error) {
	if err := requireGranular(call, n); err != nil {
		return nil, 0, err
	}
	s := d.space.segmentAt(address)
	if s == nil || s.kind != virtual || n > int64(len(s.addresses))-int64(address-s.base()) {
		return nil, 0, invalid(call, "%d bytes at %#x do not lie in one reservation", n, address)
	}
	if address%granularity != 0 {
		return nil, 0, invalid(call, "%#x is not a multiple of %d", address, granularity)
	}
	return s, int64(address - s.base()), nil
}

// mappingsIn returns the mappings that fill exactly n bytes from offset on.
func (s *segment) mappingsIn(call string, offset, n int64) ([]*allocation, error) {
	first := s.indexEndingAfter(offset)
	i, end := first, offset
	for i < len(s.allocations) && s.allocations[i].offset == end && end < offset+n {
		end += s.allocations[i].length
		i++
	}
	if end != offset+n {
		return nil, invalid(call, "%d bytes at %#x are not filled by whole mappings", n, s.base()+uintptr(offset))
	}
	return append([]*allocation(nil), s.allocations[first:i]...), nil
}
