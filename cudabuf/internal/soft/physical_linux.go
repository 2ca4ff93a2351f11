package soft

import (
	"fmt"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// physical is memory without an address: a file of its own, which other
// processes open by a descriptor.
type physical struct {
	dev       *device
	file      *file
	uses      int // the handle, and each mapping
	shareable bool
	counted   bool // in what the device has in use; the maker of imported memory counts it
}

// drop ends a use. The last one gives the memory back.
func (p *physical) drop() error {
	if p.uses--; p.uses > 0 {
		return nil
	}
	if p.counted {
		p.dev.arena.used -= p.file.size
	}
	return p.file.close()
}

func (d *Driver) MemGetAllocationGranularity(h driver.Device, _ bool) (int64, error) {
	_, err := d.named("cuMemGetAllocationGranularity", h)
	return granularity, err
}

func (d *Driver) MemCreate(n int64, h driver.Device, shareable bool) (driver.Physical, error) {
	const call = "cuMemCreate"
	dev, err := d.named(call, h)
	if err != nil {
		return 0, err
	}
	if err := granular(call, n); err != nil {
		return 0, err
	}
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	if !dev.arena.take(n) {
		return 0, dev.arena.full(call, n)
	}
	f, err := newFile(physicalFile, dev.ordinal, n)
	if err != nil {
		dev.arena.used -= n
		return 0, system(call, err)
	}
	return d.addPhysical(&physical{dev: dev, file: f, uses: 1, shareable: shareable, counted: true}), nil
}

func (d *Driver) addPhysical(p *physical) driver.Physical {
	h := driver.Physical(d.handle())
	d.space.physical[h] = p
	return h
}

// MemRelease ends the handle. Where the memory is mapped, it stays.
func (d *Driver) MemRelease(h driver.Physical) error {
	const call = "cuMemRelease"
	p, err := d.lockPhysical(call, h)
	if err != nil {
		return err
	}
	defer d.space.mu.Unlock()
	delete(d.space.physical, h)
	return system(call, p.drop())
}

func (d *Driver) MemExportToShareableHandle(h driver.Physical) (int, error) {
	const call = "cuMemExportToShareableHandle"
	p, err := d.lockPhysical(call, h)
	if err != nil {
		return 0, err
	}
	defer d.space.mu.Unlock()
	if !p.shareable {
		return 0, invalid(call, "the memory was not made to be shared")
	}
	fd, err := p.file.export()
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
	return d.addPhysical(&physical{dev: dev, file: f, uses: 1, shareable: true}), nil
}

// importFile opens the file of a descriptor that a soft driver exported.
func (d *Driver) importFile(call string, fd int, use string) (*file, *device, error) {
	if _, err := d.current(call); err != nil {
		return nil, nil, err
	}
	f, ordinal, err := openFile(fmt.Sprintf("/proc/self/fd/%d", fd), use)
	if err != nil {
		return nil, nil, invalid(call, "descriptor %d: %v", fd, err)
	}
	if ordinal >= len(d.devices) {
		_ = f.close()
		return nil, nil, invalid(call, "memory of cuda:%d, and there are %d devices", ordinal, len(d.devices))
	}
	return f, d.devices[ordinal], nil
}

// lockPhysical finds memory by its handle, and leaves the space locked.
func (d *Driver) lockPhysical(call string, h driver.Physical) (*physical, error) {
	if _, err := d.current(call); err != nil {
		return nil, err
	}
	d.space.mu.Lock()
	if p, ok := d.space.physical[h]; ok {
		return p, nil
	}
	d.space.mu.Unlock()
	return nil, invalid(call, "%#x is no memory", h)
}

func granular(call string, n int64) error {
	if n <= 0 || n%granularity != 0 {
		return invalid(call, "%d bytes are no multiple of %d", n, granularity)
	}
	return nil
}
