package cdevice

import (
	"fmt"
	"strings"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Sharer is what a device has that exchanges memory with other libraries. The
// devices of cudabuf are Sharers, and their Hosts; the CPU needs nothing of it.
type Sharer interface {
	arrowbuf.Device
	// EventAfter returns a CUevent that comes after all that was given for
	// buffers of the device to write them, until done is called.
	EventAfter(buffers ...arrowbuf.Buffer) (handle uintptr, done func(), err error)
	// WrapExternalAfter returns a buffer over memory of another library, which may be
	// used after the CUevent, or now where that is 0. Its last reference calls
	// release, unless an error is returned. Memory that the device does not know
	// is arrowbuf.ErrDevice.
	WrapExternalAfter(event, address uintptr, n int64, release func()) (arrowbuf.Buffer, error)
}

// sharerOf is the device to export from, nil for the CPU.
func sharerOf(dev arrowbuf.Device) (Sharer, error) {
	if dev == arrowbuf.CPU() {
		return nil, nil
	}
	s, ok := dev.(Sharer)
	if !ok {
		return nil, fmt.Errorf("a device that shares no memory, %v: %w", dev, arrowbuf.ErrDevice)
	}
	return s, nil
}

// findDevice returns the device that memory of a type and number is imported to: one
// of those given, or the CPU. The memory that a GPU has page-locked, its Host,
// need not be named beside it, and managed memory is the GPU's.
func findDevice(kind arrowbuf.DeviceType, id int64, devices []arrowbuf.Device) (arrowbuf.Device, error) {
	if kind == arrowbuf.DeviceCPU {
		return arrowbuf.CPU(), nil
	}
	wanted := kind
	if kind == arrowbuf.DeviceCUDAManaged {
		wanted = arrowbuf.DeviceCUDA
	}
	var names []string
	for _, dev := range devices {
		if dev.Type() == wanted && dev.ID() == id {
			return dev, nil
		}
		if h, ok := dev.(interface{ Host() arrowbuf.Device }); ok && h.Host().Type() == wanted && h.Host().ID() == id {
			return h.Host(), nil
		}
		names = append(names, dev.String())
	}
	return nil, fmt.Errorf("its memory is on %v:%d, and the devices given are [%s]: %w", kind, id, strings.Join(names, ", "), arrowbuf.ErrDevice)
}

// hostReadable tells whether the host may read what is on a device.
func hostReadable(dev arrowbuf.Device) bool {
	return dev.Type() == arrowbuf.DeviceCPU || dev.Type() == arrowbuf.DeviceCUDAHost
}
