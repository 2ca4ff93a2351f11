package soft

import (
	"fmt"
	"unsafe"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"golang.org/x/sys/unix"
)

func (d *Driver) MemGetInfo() (free, total int64, err error) {
	dev, err := d.current("cuMemGetInfo")
	if err != nil {
		return 0, 0, err
	}
	used, _ := dev.arena.info()
	return dev.arena.size - used, dev.arena.size, nil
}

func (d *Driver) MemAlloc(n int64) (uintptr, error) {
	const call = "cuMemAlloc"
	dev, err := d.current(call)
	if err != nil {
		return 0, err
	}
	if n <= 0 {
		return 0, driver.Check(call, driver.InvalidValue)
	}
	address, ok := dev.arena.alloc(n)
	if !ok {
		used, _ := dev.arena.info()
		return 0, &driver.Error{Call: call, Code: driver.OutOfMemory, Detail: fmt.Sprintf("%d bytes wanted, %d of %d in use", n, used, dev.arena.size)}
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
	if !dev.arena.free(address) {
		return &driver.Error{Call: call, Code: driver.InvalidValue, Detail: fmt.Sprintf("%#x is no allocation of cuda:%d", address, dev.ordinal)}
	}
	return nil
}

func (d *Driver) MemHostAlloc(n int64, flags uint32) (uintptr, error) {
	const call = "cuMemHostAlloc"
	if _, err := d.current(call); err != nil {
		return 0, err
	}
	if n <= 0 || flags != driver.HostAllocPortable {
		return 0, driver.Check(call, driver.InvalidValue)
	}
	memory, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return 0, &driver.Error{Call: call, Code: driver.OutOfMemory, Detail: err.Error()}
	}
	address := uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
	d.mu.Lock()
	d.host[address] = memory
	d.mu.Unlock()
	return address, nil
}

// MemFreeHost waits for every device, since portable memory is pinned for all.
func (d *Driver) MemFreeHost(address uintptr) error {
	const call = "cuMemFreeHost"
	if _, err := d.current(call); err != nil {
		return err
	}
	d.mu.Lock()
	memory, ok := d.host[address]
	delete(d.host, address)
	devices := make([]*device, 0, len(d.devices))
	for _, dev := range d.devices {
		if dev.retained > 0 {
			devices = append(devices, dev)
		}
	}
	d.mu.Unlock()
	if !ok {
		return &driver.Error{Call: call, Code: driver.InvalidValue, Detail: fmt.Sprintf("%#x is no pinned allocation", address)}
	}
	for _, dev := range devices {
		d.synchronize(dev)
	}
	if err := unix.Munmap(memory); err != nil {
		return &driver.Error{Call: call, Code: driver.OperatingSystem, Detail: err.Error()}
	}
	return nil
}

// pinned tells whether host memory is of MemHostAlloc.
func (d *Driver) pinned(b []byte) bool {
	start := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	d.mu.Lock()
	defer d.mu.Unlock()
	for base, memory := range d.host {
		if start >= base && start+uintptr(len(b)) <= base+uintptr(len(memory)) {
			return true
		}
	}
	return false
}
