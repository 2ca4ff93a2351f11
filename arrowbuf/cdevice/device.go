package cdevice

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Sharer is a device that exchanges memory with other libraries. The devices of
// cudabuf implement it, and so do their hosts (pinned memory). The CPU does not need
// it.
type Sharer interface {
	arrowbuf.Device
	// EventAfter returns a CUevent that is recorded after all work submitted so far
	// that writes the buffers. The event is valid until done is called.
	EventAfter(buffers ...arrowbuf.Buffer) (handle uintptr, done func(), err error)
	// WrapExternalAfter returns a buffer over memory of another library. Work that
	// uses the buffer waits for the CUevent event, unless it is 0. release is called
	// after the last release of the buffer, unless an error is returned.
	// WrapExternalAfter returns an error wrapping arrowbuf.ErrDevice if the device
	// does not know the memory.
	WrapExternalAfter(event, address uintptr, n int64, release func()) (arrowbuf.Buffer, error)
}

// sharerOf returns dev, or what it wraps, as a Sharer, or nil for the CPU.
func sharerOf(dev arrowbuf.Device) (Sharer, error) {
	if dev == nil {
		return nil, fmt.Errorf("nil device: %w", arrowbuf.ErrDevice)
	}
	if unwrapped(dev) == arrowbuf.CPU() {
		return nil, nil
	}
	s, ok := arrowbuf.As[Sharer](dev)
	if !ok {
		return nil, fmt.Errorf("device %v does not implement Sharer: %w", dev, arrowbuf.ErrDevice)
	}
	return s, nil
}

// unwrapped returns the device that a device wraps, see arrowbuf.As, or the device
// itself. The memory of both is one device's for other libraries.
func unwrapped(dev arrowbuf.Device) arrowbuf.Device {
	for {
		wrapper, ok := dev.(interface{ Unwrap() arrowbuf.Device })
		if !ok {
			return dev
		}
		dev = wrapper.Unwrap()
	}
}

// findDevice returns the device for memory of a device type and id: the CPU, or one
// of devices. Pinned memory belongs to the host of a GPU in devices, and managed
// memory to the GPU unless one of devices has managed memory.
func findDevice(kind arrowbuf.DeviceType, id int64, devices []arrowbuf.Device) (arrowbuf.Device, error) {
	if kind == arrowbuf.DeviceCPU {
		return arrowbuf.CPU(), nil
	}
	if kind == arrowbuf.DeviceCUDAManaged && !slices.ContainsFunc(devices, func(dev arrowbuf.Device) bool {
		return dev != nil && dev.Type() == kind && dev.ID() == id
	}) {
		kind = arrowbuf.DeviceCUDA
	}
	var names []string
	for _, dev := range devices {
		if dev == nil {
			continue
		}
		if dev.Type() == kind && dev.ID() == id {
			return dev, nil
		}
		if h, ok := arrowbuf.As[interface{ Host() arrowbuf.Device }](dev); ok && h.Host().Type() == kind && h.Host().ID() == id {
			return h.Host(), nil
		}
		names = append(names, dev.String())
	}
	return nil, fmt.Errorf("the memory is on %v:%d, want the CPU or one of [%s]: %w", kind, id, strings.Join(names, ", "), arrowbuf.ErrDevice)
}

// hostReadable reports whether the host can read memory of a device.
func hostReadable(dev arrowbuf.Device) bool {
	return dev.Type() == arrowbuf.DeviceCPU || dev.Type() == arrowbuf.DeviceCUDAHost
}
