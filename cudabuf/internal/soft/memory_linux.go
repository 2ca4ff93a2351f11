package soft

import (
	"fmt"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

func (d *Driver) MemGetInfo() (free, total int64, err error) {
	dev, err := d.current("cuMemGetInfo")
	if err != nil {
		return 0, 0, err
	}
	return dev.arena.size - dev.arena.inUse(), dev.arena.size, nil
}

func (d *Driver) MemAlloc(n int64) (uintptr, error) {
	const call = "cuMemAlloc"
	c, err := d.context(call)
	if err != nil {
		return 0, err
	}
	if n <= 0 {
		return 0, invalid(call, "%d bytes", n)
	}
	address, ok := c.dev.arena.alloc(n, c)
	if !ok {
		d.space.mu.Lock()
		defer d.space.mu.Unlock()
		return 0, c.dev.arena.full(call, n)
	}
	return address, nil
}

// MemFree waits for the device, as CUDA's does.
func (d *Driver) MemFree(address uintptr) error {
	const call = "cuMemFree"
	dev, err := d.current(call)
	if err != nil {
		return err
	}
	d.synchronize(dev)
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	s, b := d.space.block(address)
	switch {
	case s == nil || s.address(b) != address || s.dev != dev:
	case s.kind == ordinary:
		dev.arena.release(b)
		return nil
	case s.kind == pooled:
		return system(call, d.giveBack(s.pool, b))
	}
	return invalid(call, "%#x is no allocation of cuda:%d", address, dev.ordinal)
}

// MemGetAddressRange answers the mapping, of virtual memory.
func (d *Driver) MemGetAddressRange(address uintptr) (uintptr, int64, error) {
	const call = "cuMemGetAddressRange"
	if _, err := d.current(call); err != nil {
		return 0, 0, err
	}
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	if s, b := d.space.block(address); s != nil {
		return s.address(b), b.size, nil
	}
	if h := d.space.hostRange(address); h != nil {
		return h.base(), int64(len(h.memory)), nil
	}
	return 0, 0, &driver.Error{Call: call, Code: driver.NotFound, Detail: fmt.Sprintf("%#x lies in no allocation", address)}
}

func (d *Driver) PointerGetAttribute(a driver.PointerAttribute, address uintptr) (uint64, error) {
	const call = "cuPointerGetAttribute"
	dev, err := d.current(call)
	if err != nil {
		return 0, err
	}
	d.space.mu.Lock()
	defer d.space.mu.Unlock()
	if h := d.space.hostRange(address); h != nil {
		return h.attribute(call, a, address)
	}
	s := d.space.segment(address)
	if s != nil {
		if b := s.find(address); b != nil && b.freeing == nil {
			return s.attribute(call, a, address, b, dev)
		}
		if s.kind == virtual && a == driver.PointerIsMapped {
			return 0, nil
		}
	}
	return 0, invalid(call, "%#x is no memory that CUDA knows", address)
}

func (s *segment) attribute(call string, a driver.PointerAttribute, address uintptr, b *block, from *device) (uint64, error) {
	switch a {
	case driver.PointerContext:
		if b.owner == nil {
			return 0, nil
		}
		return uint64(b.owner.handle), nil
	case driver.PointerMemoryType:
		return driver.MemoryTypeDevice, nil
	case driver.PointerDevicePointer:
		if !s.reachable(b, from) {
			return 0, invalid(call, "cuda:%d does not reach %#x", from.ordinal, address)
		}
		return uint64(address), nil
	case driver.PointerDeviceOrdinal:
		return uint64(s.home(b).ordinal), nil
	case driver.PointerIsLegacyIPC:
		if s.kind == ordinary {
			return 1, nil
		}
		return 0, nil
	case driver.PointerIsMapped:
		return 1, nil
	}
	return 0, invalid(call, "attribute %d of device memory", a)
}

// full is the error of a device whose memory is used up.
func (a *arena) full(call string, n int64) error {
	return &driver.Error{Call: call, Code: driver.OutOfMemory, Detail: fmt.Sprintf("%d bytes wanted, %d of %d in use", n, a.used, a.size)}
}

func invalid(call, format string, args ...any) error {
	return &driver.Error{Call: call, Code: driver.InvalidValue, Detail: fmt.Sprintf(format, args...)}
}

// system is what a failure of the machine below is in CUDA, nil for nil.
func system(call string, err error) error {
	if err == nil {
		return nil
	}
	return &driver.Error{Call: call, Code: driver.OperatingSystem, Detail: err.Error()}
}

// named begins a call that names a device, and wants a current context too.
func (d *Driver) named(call string, h driver.Device) (*device, error) {
	if _, err := d.current(call); err != nil {
		return nil, err
	}
	return d.device(call, h)
}

// quiet waits for all devices.
func (d *Driver) quiet() { d.wait(func(*stream) bool { return true }) }
