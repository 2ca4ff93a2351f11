package cudabuf

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// Device is a GPU. It is an arrowbuf.Device and may be used from any goroutine.
type Device struct {
	driver  *Driver
	api     driver.API
	ordinal int
	handle  driver.Device
	context driver.Context
	closed  atomic.Bool

	name            string
	uuid            UUID
	major, minor    int
	multiprocessors int

	streams chan driver.Stream
	memory  *cache
	pinned  *PinnedAllocator
}

var _ arrowbuf.Device = (*Device)(nil)

// UUID tells a GPU apart from every other one.
type UUID = driver.UUID

func openDevice(d *Driver, ordinal int) (*Device, error) {
	dev := &Device{driver: d, api: d.api, ordinal: ordinal, streams: newStreams()}
	var total int64
	var err error
	for _, step := range []func() error{
		func() error { dev.handle, err = d.api.DeviceGet(ordinal); return err },
		func() error { dev.name, err = d.api.DeviceGetName(dev.handle); return err },
		func() error { dev.uuid, err = d.api.DeviceGetUUID(dev.handle); return optional(err) },
		func() error { total, err = d.api.DeviceTotalMem(dev.handle); return err },
		dev.attribute(&dev.major, driver.ComputeCapabilityMajor),
		dev.attribute(&dev.minor, driver.ComputeCapabilityMinor),
		dev.attribute(&dev.multiprocessors, driver.MultiprocessorCount),
		func() error { dev.context, err = d.api.DevicePrimaryCtxRetain(dev.handle); return err },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	dev.memory = newCache(512, total/4, dev.memAlloc, dev.memFree)
	dev.pinned = newPinned(dev)
	return dev, nil
}

func (d *Device) attribute(v *int, a driver.Attribute) func() error {
	return func() (err error) { *v, err = d.api.DeviceGetAttribute(a, d.handle); return err }
}

// Type is arrowbuf.DeviceCUDA.
func (d *Device) Type() arrowbuf.DeviceType { return arrowbuf.DeviceCUDA }

// ID is the device's ordinal.
func (d *Device) ID() int64 { return int64(d.ordinal) }

// String is "cuda:" and the ordinal.
func (d *Device) String() string { return fmt.Sprintf("cuda:%d", d.ordinal) }

// Name is the product's name, "NVIDIA H200" for instance.
func (d *Device) Name() string { return d.name }

// UUID is the GPU's own, whatever ordinal it has here.
func (d *Device) UUID() UUID { return d.uuid }

// ComputeCapability is the architecture's version, 9.0 for instance.
func (d *Device) ComputeCapability() (major, minor int) { return d.major, d.minor }

// Multiprocessors is the number of streaming multiprocessors.
func (d *Device) Multiprocessors() int { return d.multiprocessors }

// HostAllocator returns the allocator of pinned memory, a *PinnedAllocator.
func (d *Device) HostAllocator() memory.Allocator { return d.pinned }

// Synchronize returns when all work given to the device is done
// (cuCtxSynchronize).
func (d *Device) Synchronize() error { return d.do(d.api.CtxSynchronize) }

// do runs driver calls in the device's context.
//
// CUDA keeps the current context in the thread, and a goroutine has no thread
// of its own: between two calls it may move to one with no context, or another
// device's. So each group of calls locks its thread and sets the context. What
// was set stays on the thread and is never relied upon.
func (d *Device) do(calls func() error) error {
	if d.closed.Load() {
		return fmt.Errorf("%v: %w", d, ErrClosed)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := d.api.CtxSetCurrent(d.context)
	if err == nil {
		err = calls()
	}
	if err != nil {
		return fmt.Errorf("%v: %w", d, err)
	}
	return nil
}

// idle returns an error that says what is in use.
func (d *Device) idle() error {
	device, host := d.MemoryStats().InUse, d.pinned.Stats().InUse
	if device == 0 && host == 0 {
		return nil
	}
	return fmt.Errorf("%v: still in use: %d bytes of device memory, %d bytes of pinned memory", d, device, host)
}

// close gives everything back. On a lost device there is nothing left to give.
func (d *Device) close() error {
	failure := errors.Join(d.memory.close(), d.pinned.close(), d.do(d.destroyStreams))
	d.closed.Store(true)
	failure = errors.Join(failure, d.api.DevicePrimaryCtxRelease(d.handle))
	if errors.Is(failure, ErrDeviceLost) {
		return nil
	}
	return failure
}

// optional forgives a call that this driver does not have.
func optional(err error) error {
	var e *Error
	if errors.As(err, &e) && e.Code == driver.NotSupported {
		return nil
	}
	return err
}
