//go:build linux

package libcuda

import (
	"unsafe"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

func (d *Driver) MemGetInfo() (free, total int64, err error) {
	var f, t uint64
	err = d.call(cuMemGetInfo, uintptr(unsafe.Pointer(&f)), uintptr(unsafe.Pointer(&t)))
	return int64(f), int64(t), err
}

func (d *Driver) MemAlloc(n int64) (uintptr, error) {
	var p uintptr
	err := d.call(cuMemAlloc, uintptr(unsafe.Pointer(&p)), uintptr(n))
	return p, err
}

func (d *Driver) MemFree(p uintptr) error { return d.call(cuMemFree, p) }

func (d *Driver) MemHostAlloc(n int64, flags uint32) (uintptr, error) {
	var p uintptr
	err := d.call(cuMemHostAlloc, uintptr(unsafe.Pointer(&p)), uintptr(n), uintptr(flags))
	return p, err
}

func (d *Driver) MemFreeHost(p uintptr) error { return d.call(cuMemFreeHost, p) }

func (d *Driver) MemGetAddressRange(address uintptr) (base uintptr, size int64, err error) {
	err = d.call(cuMemGetAddressRange, uintptr(unsafe.Pointer(&base)), uintptr(unsafe.Pointer(&size)), address)
	return base, size, err
}

// PointerGetAttribute makes room for the widest value; the driver writes as many
// bytes of it as the attribute has.
func (d *Driver) PointerGetAttribute(a driver.PointerAttribute, address uintptr) (uint64, error) {
	var v uint64
	err := d.call(cuPointerGetAttribute, uintptr(unsafe.Pointer(&v)), uintptr(a), address)
	return v, err
}

func (d *Driver) MemHostRegister(memory []byte, flags uint32) error {
	return d.call(cuMemHostRegister, uintptr(unsafe.Pointer(unsafe.SliceData(memory))), uintptr(len(memory)), uintptr(flags))
}

func (d *Driver) MemHostUnregister(address uintptr) error {
	return d.call(cuMemHostUnregister, address)
}

func (d *Driver) MemHostGetDevicePointer(address uintptr) (uintptr, error) {
	var p uintptr
	err := d.call(cuMemHostGetDevicePointer, uintptr(unsafe.Pointer(&p)), address, 0)
	return p, err
}
