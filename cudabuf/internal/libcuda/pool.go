//go:build linux

package libcuda

import (
	"unsafe"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

func (d *Driver) MemAllocAsync(n int64, s driver.Stream) (uintptr, error) {
	var p uintptr
	err := d.call(cuMemAllocAsync, uintptr(unsafe.Pointer(&p)), uintptr(n), uintptr(s))
	return p, err
}

func (d *Driver) MemFreeAsync(address uintptr, s driver.Stream) error {
	return d.plain(cuMemFreeAsync, address, uintptr(s))
}

func (d *Driver) DeviceGetDefaultMemPool(dev driver.Device) (driver.MemPool, error) {
	var p driver.MemPool
	err := d.call(cuDeviceGetDefaultMemPool, uintptr(unsafe.Pointer(&p)), uintptr(dev))
	return p, err
}

func (d *Driver) MemPoolCreate(dev driver.Device, shareable bool) (driver.MemPool, error) {
	var p driver.MemPool
	props := poolProps{kind: allocationPinned, handleTypes: handleType(shareable), location: on(int32(dev))}
	err := d.call(cuMemPoolCreate, uintptr(unsafe.Pointer(&p)), uintptr(unsafe.Pointer(&props)))
	return p, err
}

func (d *Driver) MemPoolDestroy(p driver.MemPool) error { return d.call(cuMemPoolDestroy, uintptr(p)) }

func (d *Driver) MemPoolTrimTo(p driver.MemPool, keep int64) error {
	return d.call(cuMemPoolTrimTo, uintptr(p), uintptr(keep))
}

func (d *Driver) MemPoolSetAttribute(p driver.MemPool, a driver.MemPoolAttribute, value uint64) error {
	return d.call(cuMemPoolSetAttribute, uintptr(p), uintptr(a), uintptr(unsafe.Pointer(&value)))
}

func (d *Driver) MemPoolGetAttribute(p driver.MemPool, a driver.MemPoolAttribute) (uint64, error) {
	var v uint64
	err := d.call(cuMemPoolGetAttribute, uintptr(p), uintptr(a), uintptr(unsafe.Pointer(&v)))
	return v, err
}

func (d *Driver) MemPoolSetAccess(p driver.MemPool, from driver.Device) error {
	access := accessDesc{on(int32(from)), accessReadWrite}
	return d.call(cuMemPoolSetAccess, uintptr(p), uintptr(unsafe.Pointer(&access)), 1)
}

func (d *Driver) MemAllocFromPoolAsync(n int64, pool driver.MemPool, s driver.Stream) (uintptr, error) {
	var p uintptr
	err := d.call(cuMemAllocFromPoolAsync, uintptr(unsafe.Pointer(&p)), uintptr(n), uintptr(pool), uintptr(s))
	return p, err
}

func (d *Driver) MemPoolExportToShareableHandle(p driver.MemPool) (int, error) {
	var fd int32
	err := d.call(cuMemPoolExportToShareableHandle, uintptr(unsafe.Pointer(&fd)), uintptr(p), handlePosixFD, 0)
	return int(fd), err
}

// MemPoolImportFromShareableHandle passes the descriptor itself where the call
// takes a pointer.
func (d *Driver) MemPoolImportFromShareableHandle(fd int) (driver.MemPool, error) {
	var p driver.MemPool
	err := d.call(cuMemPoolImportFromShareableHandle, uintptr(unsafe.Pointer(&p)), uintptr(fd), handlePosixFD, 0)
	return p, err
}

func (d *Driver) MemPoolExportPointer(address uintptr) (driver.PoolPointer, error) {
	var p driver.PoolPointer
	err := d.call(cuMemPoolExportPointer, uintptr(unsafe.Pointer(&p)), address)
	return p, err
}

func (d *Driver) MemPoolImportPointer(pool driver.MemPool, p driver.PoolPointer) (uintptr, error) {
	var address uintptr
	err := d.call(cuMemPoolImportPointer, uintptr(unsafe.Pointer(&address)), uintptr(pool), uintptr(unsafe.Pointer(&p)))
	return address, err
}
