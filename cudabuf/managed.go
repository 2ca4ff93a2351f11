package cudabuf

import (
	"errors"
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// ManagedDevice returns the GPU of an ordinal with managed memory (cuMemAllocManaged),
// the same device on every call. Kernels use its buffers as those of Device. The host
// may read and write them too, so arrow-go's code works on record batches there. The
// driver moves pages to the side that touches them, which is slower than memory that
// stays in one place; see [Buffer.Prefetch].
//
// Before the host touches memory that kernels or copies have used, they must be done:
// Buffer.Arrow waits for them, and so does Buffer.Wait.
//
// Its device type is arrowbuf.DeviceCUDAManaged. Memory of Device and ManagedDevice is
// copied from one to the other. An allocation beyond the free memory of the GPU is
// arrowbuf.ErrOutOfMemory, though the driver could move pages to the host. Memory that
// is shared with other processes and stream-ordered pools are errors.ErrUnsupported.
//
// ManagedDevice returns errors.ErrUnsupported if the host and the GPU cannot use managed
// memory at the same time (CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS).
func (d *Driver) ManagedDevice(ordinal int) (*Device, error) {
	return d.device(ordinal, true)
}

// errManaged returns the error of what managed memory cannot do, or nil on a device of
// ordinary memory.
func (d *Device) errManaged(what string) error {
	if d.managed {
		return fmt.Errorf("%v: %s: not with managed memory: %w", d, what, errors.ErrUnsupported)
	}
	return nil
}

// checkManagedAccess returns an error if the host must not touch managed memory while
// the GPU is working.
func (d *Device) checkManagedAccess() error {
	concurrent, err := d.api.DeviceGetAttribute(driver.ConcurrentManagedAccess, d.handle)
	if err == nil && concurrent == 0 {
		err = fmt.Errorf("managed memory: the host and the GPU cannot use it at the same time: %w", errors.ErrUnsupported)
	}
	return err
}

// managedAlloc allocates managed memory and moves its pages to the GPU, so that they
// count as used there. The advice keeps them there until the host touches them.
func (d *Device) managedAlloc(n int64) (address uintptr, err error) {
	err = d.withContext(func() error {
		free, _, err := d.api.MemGetInfo()
		if err != nil {
			return err
		}
		if n > free {
			return &driver.Error{Call: "cuMemAllocManaged", Code: driver.OutOfMemory, Detail: fmt.Sprintf("%d bytes wanted, %d free", n, free)}
		}
		if address, err = d.api.MemAllocManaged(n); err != nil {
			return err
		}
		for _, step := range []func() error{
			func() error {
				return d.api.MemAdvise(address, n, driver.AdviseSetPreferredLocation, d.handle)
			},
			func() error { return d.api.MemPrefetchAsync(address, n, d.handle, 0) },
			func() error { return d.api.StreamSynchronize(0) },
		} {
			if err := step(); err != nil {
				return errors.Join(err, d.api.MemFree(address))
			}
		}
		return nil
	})
	return address, err
}

// Prefetch moves the pages of managed memory to where they are used next, in the order
// of the streams that use them (cuMemPrefetchAsync): to the GPU, or to the host for
// arrowbuf.CPU. It returns before they have moved. The first use then finds them,
// instead of moving them page by page. The error is errors.ErrUnsupported for other
// memory, and arrowbuf.ErrDevice for another device.
func (b *Buffer) Prefetch(to arrowbuf.Device) error {
	if err := b.retain(); err != nil {
		return err
	}
	defer b.Release()
	if !b.dev.managed {
		return fmt.Errorf("cudabuf.Buffer.Prefetch: %v: the memory is not managed: %w", b.dev, errors.ErrUnsupported)
	}
	location := b.dev.handle
	switch to {
	case arrowbuf.Device(b.dev):
	case arrowbuf.CPU():
		location = driver.CPUDevice
	default:
		return fmt.Errorf("cudabuf.Buffer.Prefetch: got device %v, want %v or cpu: %w", to, b.dev, arrowbuf.ErrDevice)
	}
	if b.memory == nil {
		return nil
	}
	return b.dev.submit(nil, []access{{b.memory, reads}}, func(h driver.Stream) error {
		return b.dev.api.MemPrefetchAsync(b.address, b.length, location, h)
	})
}

// HostAccessible reports whether the host may read and write the memory in place, which
// is so for managed memory. The bytes are those of Arrow, which waits for streams that
// use them.
func (b *Buffer) HostAccessible() bool { return b.dev.managed }

// checkExternalManaged returns an error if memory of another library is not managed,
// on a device whose memory is.
func (d *Device) checkExternalManaged(address uintptr) error {
	if !d.managed {
		return nil
	}
	var managed uint64
	err := d.withContext(func() (err error) {
		managed, err = d.api.PointerGetAttribute(driver.PointerIsManaged, address)
		return err
	})
	if err == nil && managed == 0 {
		err = fmt.Errorf("%v: memory at %#x: got ordinary memory, want managed: %w", d, address, arrowbuf.ErrDevice)
	}
	return err
}
