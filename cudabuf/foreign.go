package cudabuf

import (
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// WrapExternal returns a buffer over memory that another library has on this device.
// It is not checked how much there is. When the last reference goes, and the
// streams that use the memory are done with it, release is called, where it is
// not nil: until then the owner must keep the memory. An address that is not of
// the device's memory is arrowbuf.ErrDevice.
func (d *Device) WrapExternal(address uintptr, n int64, release func()) (*Buffer, error) {
	if n < 0 {
		return nil, fmt.Errorf("%v: %d bytes at %#x: %w", d, n, address, arrowbuf.ErrOutOfRange)
	}
	if n > 0 {
		at, err := d.DeviceAddress(address)
		if err != nil {
			return nil, err
		}
		address = at
	} else {
		address = 0
	}
	memory := newAllocation(func(pending []*queue) {
		for _, q := range pending {
			_ = q.synchronize() // on a lost device nothing runs any more
		}
		if release != nil {
			release()
		}
	})
	return newBuffer(d, memory, address, n), nil
}

// DeviceAddress is the address by which kernels of this device reach what lies
// at an address: that of device memory itself, another one for mapped memory of
// the host (cuPointerGetAttribute with CU_POINTER_ATTRIBUTE_DEVICE_POINTER). An
// address that CUDA does not know is arrowbuf.ErrDevice.
func (d *Device) DeviceAddress(address uintptr) (uintptr, error) {
	var at uint64
	err := d.do(func() (err error) {
		at, err = d.api.PointerGetAttribute(driver.PointerDevicePointer, address)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("%#x is not memory of %v: %w: %w", address, d, arrowbuf.ErrDevice, err)
	}
	return uintptr(at), nil
}

// RecordStream lets another library use the buffer's memory on a stream, whose work
// this package does not see. What is given to the stream from now on comes after
// all that this package was given for the memory; what this package is given for
// it later comes after all that the stream has been given by then, as does the
// memory's next use once the buffer is released.
func (b *Buffer) RecordStream(s *Stream) error {
	if err := b.hold(); err != nil {
		return err
	}
	defer b.Release()
	if b.memory == nil {
		return nil
	}
	return b.dev.give(s, []use{{b.memory, writes}}, func(driver.Stream) error { return nil })
}
