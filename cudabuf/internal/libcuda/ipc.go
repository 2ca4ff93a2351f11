//go:build linux

package libcuda

import (
	"runtime"
	"unsafe"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

func (d *Driver) IpcGetMemHandle(address uintptr) (driver.IPCMemHandle, error) {
	var h driver.IPCMemHandle
	err := d.call(cuIpcGetMemHandle, uintptr(unsafe.Pointer(&h)), address)
	return h, err
}

// IpcOpenMemHandle passes 64 bytes by value, which C passes on x86-64 in memory,
// behind all that goes in its six integer registers, and on arm64 by address.
func (d *Driver) IpcOpenMemHandle(h driver.IPCMemHandle) (uintptr, error) {
	var p uintptr
	if runtime.GOARCH == "arm64" {
		err := d.call(cuIpcOpenMemHandle, uintptr(unsafe.Pointer(&p)), uintptr(unsafe.Pointer(&h)), lazyPeerAccess)
		return p, err
	}
	w := words((*[64]byte)(&h))
	err := d.call(cuIpcOpenMemHandle, uintptr(unsafe.Pointer(&p)), lazyPeerAccess, 0, 0, 0, 0,
		w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7])
	return p, err
}

func (d *Driver) IpcCloseMemHandle(address uintptr) error {
	return d.call(cuIpcCloseMemHandle, address)
}

func (d *Driver) IpcGetEventHandle(e driver.Event) (driver.IPCEventHandle, error) {
	var h driver.IPCEventHandle
	err := d.call(cuIpcGetEventHandle, uintptr(unsafe.Pointer(&h)), uintptr(e))
	return h, err
}

// IpcOpenEventHandle passes the handle as IpcOpenMemHandle does.
func (d *Driver) IpcOpenEventHandle(h driver.IPCEventHandle) (driver.Event, error) {
	var e driver.Event
	if runtime.GOARCH == "arm64" {
		err := d.call(cuIpcOpenEventHandle, uintptr(unsafe.Pointer(&e)), uintptr(unsafe.Pointer(&h)))
		return e, err
	}
	w := words((*[64]byte)(&h))
	err := d.call(cuIpcOpenEventHandle, uintptr(unsafe.Pointer(&e)), 0, 0, 0, 0, 0,
		w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7])
	return e, err
}
