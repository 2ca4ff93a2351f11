//go:build linux

package libcuda

import (
	"unsafe"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

func (d *Driver) MemcpyHtoDAsync(dst uintptr, src []byte, s driver.Stream) error {
	return d.copying(cuMemcpyHtoDAsync, dst, uintptr(unsafe.Pointer(unsafe.SliceData(src))), uintptr(len(src)), uintptr(s))
}

func (d *Driver) MemcpyDtoHAsync(dst []byte, src uintptr, s driver.Stream) error {
	return d.copying(cuMemcpyDtoHAsync, uintptr(unsafe.Pointer(unsafe.SliceData(dst))), src, uintptr(len(dst)), uintptr(s))
}

func (d *Driver) MemcpyDtoDAsync(dst, src uintptr, n int64, s driver.Stream) error {
	return d.plain(cuMemcpyDtoDAsync, dst, src, uintptr(n), uintptr(s))
}

func (d *Driver) MemcpyPeerAsync(dst uintptr, dstContext driver.Context, src uintptr, srcContext driver.Context, n int64, s driver.Stream) error {
	return d.plain(cuMemcpyPeerAsync, dst, uintptr(dstContext), src, uintptr(srcContext), uintptr(n), uintptr(s))
}

func (d *Driver) MemsetD8Async(dst uintptr, value byte, n int64, s driver.Stream) error {
	return d.plain(cuMemsetD8Async, dst, uintptr(value), uintptr(n), uintptr(s))
}
