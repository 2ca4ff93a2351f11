//go:build linux

package libcuda

import (
	"unsafe"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

func prop(dev driver.Device, shareable bool) allocationProp {
	return allocationProp{kind: allocationPinned, handleTypes: handleType(shareable), location: on(int32(dev))}
}

func (d *Driver) MemGetAllocationGranularity(dev driver.Device, shareable bool) (int64, error) {
	var n int64
	p := prop(dev, shareable)
	err := d.call(cuMemGetAllocationGranularity, uintptr(unsafe.Pointer(&n)), uintptr(unsafe.Pointer(&p)), granularityMinimum)
	return n, err
}

func (d *Driver) MemCreate(n int64, dev driver.Device, shareable bool) (driver.Physical, error) {
	var h driver.Physical
	p := prop(dev, shareable)
	err := d.call(cuMemCreate, uintptr(unsafe.Pointer(&h)), uintptr(n), uintptr(unsafe.Pointer(&p)), 0)
	return h, err
}

func (d *Driver) MemRelease(h driver.Physical) error { return d.call(cuMemRelease, uintptr(h)) }

func (d *Driver) MemAddressReserve(n int64) (uintptr, error) {
	var p uintptr
	err := d.call(cuMemAddressReserve, uintptr(unsafe.Pointer(&p)), uintptr(n), 0, 0, 0)
	return p, err
}

func (d *Driver) MemAddressFree(address uintptr, n int64) error {
	return d.call(cuMemAddressFree, address, uintptr(n))
}

func (d *Driver) MemMap(address uintptr, n int64, h driver.Physical) error {
	return d.call(cuMemMap, address, uintptr(n), 0, uintptr(h), 0)
}

func (d *Driver) MemUnmap(address uintptr, n int64) error {
	return d.call(cuMemUnmap, address, uintptr(n))
}

func (d *Driver) MemSetAccess(address uintptr, n int64, from driver.Device) error {
	access := accessDesc{on(int32(from)), accessReadWrite}
	return d.call(cuMemSetAccess, address, uintptr(n), uintptr(unsafe.Pointer(&access)), 1)
}

func (d *Driver) MemExportToShareableHandle(h driver.Physical) (int, error) {
	var fd int32
	err := d.call(cuMemExportToShareableHandle, uintptr(unsafe.Pointer(&fd)), uintptr(h), handlePosixFD, 0)
	return int(fd), err
}

// MemImportFromShareableHandle passes the descriptor itself where the call takes
// a pointer.
func (d *Driver) MemImportFromShareableHandle(fd int) (driver.Physical, error) {
	var h driver.Physical
	err := d.call(cuMemImportFromShareableHandle, uintptr(unsafe.Pointer(&h)), uintptr(fd), handlePosixFD)
	return h, err
}
