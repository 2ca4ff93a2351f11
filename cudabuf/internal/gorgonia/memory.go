//go:build linux && gorgonia

package gorgonia

import (
	"unsafe"

	"gorgonia.org/cu"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

func (d *Driver) MemGetInfo() (int64, int64, error) {
	free, total, err := cu.MemInfo()
	return free, total, check("cuMemGetInfo", err)
}

func (d *Driver) MemAlloc(n int64) (uintptr, error) {
	p, err := cu.MemAlloc(n)
	return p.Uintptr(), check("cuMemAlloc", err)
}

func (d *Driver) MemFree(address uintptr) error {
	return check("cuMemFree", cu.MemFree(cu.DevicePtr(address)))
}

func (d *Driver) MemGetAddressRange(address uintptr) (uintptr, int64, error) {
	size, base, err := cu.DevicePtr(address).AddressRange()
	return base.Uintptr(), size, check("cuMemGetAddressRange", err)
}

func (d *Driver) MemcpyHtoDAsync(dst uintptr, src []byte, s driver.Stream) error {
	return check("cuMemcpyHtoDAsync", cu.MemcpyHtoDAsync(cu.DevicePtr(dst), unsafe.Pointer(unsafe.SliceData(src)), int64(len(src)), stream(s)))
}

func (d *Driver) MemcpyDtoHAsync(dst []byte, src uintptr, s driver.Stream) error {
	return check("cuMemcpyDtoHAsync", cu.MemcpyDtoHAsync(unsafe.Pointer(unsafe.SliceData(dst)), cu.DevicePtr(src), int64(len(dst)), stream(s)))
}

func (d *Driver) MemcpyDtoDAsync(dst, src uintptr, n int64, s driver.Stream) error {
	return check("cuMemcpyDtoDAsync", cu.MemcpyDtoDAsync(cu.DevicePtr(dst), cu.DevicePtr(src), n, stream(s)))
}

func (d *Driver) MemcpyPeerAsync(dst uintptr, dstContext driver.Context, src uintptr, srcContext driver.Context, n int64, s driver.Stream) error {
	return check("cuMemcpyPeerAsync", cu.MemcpyPeerAsync(cu.DevicePtr(dst), context(dstContext), cu.DevicePtr(src), context(srcContext), n, stream(s)))
}

func (d *Driver) MemsetD8Async(dst uintptr, value byte, n int64, s driver.Stream) error {
	return check("cuMemsetD8Async", cu.MemsetD8Async(cu.DevicePtr(dst), value, n, stream(s)))
}
