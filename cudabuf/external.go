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
	memory := newAllocation(func(pending []*cudaStream) {
		synchronizeAll(pending)
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
	err := d.withContext(func() (err error) {
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
	if err := b.retain(); err != nil {
		return err
	}
	defer b.Release()
	if b.memory == nil {
		return nil
	}
	return b.dev.submit(s, []access{{b.memory, writes}}, func(driver.Stream) error { return nil })
}

// What arrowbuf/cdevice asks of a device: memory that crosses to or from other
// libraries comes with an event, after which it may be used.

// EventAfter returns a new event that comes after all that was given for buffers
// to write them, on any stream; the device's default stream then comes after it
// too. They are buffers of this device, or of its Host, else the error is
// arrowbuf.ErrDevice. The CUevent lives until done is called.
func (d *Device) EventAfter(buffers ...arrowbuf.Buffer) (handle uintptr, done func(), err error) {
	var accesses []access
	for _, b := range buffers {
		s, err := d.viewOf(b)
		if err != nil {
			return 0, nil, err
		}
		if err := s.retain(); err != nil {
			return 0, nil, err
		}
		defer s.Release()
		if s.memory != nil {
			accesses = append(accesses, access{s.memory, reads})
		}
	}
	s, err := d.DefaultStream()
	if err != nil {
		return 0, nil, err
	}
	e, err := d.NewEvent(EventOptions{})
	if err != nil {
		return 0, nil, err
	}
	err = d.submit(s, accesses, func(h driver.Stream) error { return d.api.EventRecord(e.handle, h) })
	if err != nil {
		_ = e.Close() // which nobody waits for
		return 0, nil, err
	}
	return e.Handle(), func() { _ = e.Close() }, nil // on a lost device it is gone anyway
}

// viewOf is the part of an allocation that a buffer of this device or of its
// Host shows.
func (d *Device) viewOf(b arrowbuf.Buffer) (*memoryView, error) {
	switch b := b.(type) {
	case *Buffer:
		if b.dev == d {
			return &b.memoryView, nil
		}
	case *HostBuffer:
		if b.dev == d {
			return &b.memoryView, nil
		}
	}
	return nil, fmt.Errorf("a buffer on %v for an event of %v: %w", b.Device(), d, arrowbuf.ErrDevice)
}

// WrapExternalAfter is Foreign for memory that may be used after an event of the
// other library: a CUevent, or 0 where it may be used now. The device's default
// stream waits for it, and with it whatever uses the buffer; the host does not.
func (d *Device) WrapExternalAfter(event, address uintptr, n int64, release func()) (arrowbuf.Buffer, error) {
	if event == 0 {
		b, err := d.WrapExternal(address, n, release)
		if err != nil {
			return nil, err
		}
		return b, nil
	}
	e, err := d.WrapEvent(event)
	if err != nil {
		return nil, err
	}
	s, err := d.DefaultStream()
	if err != nil {
		return nil, err
	}
	// Before there is a buffer, whose release an error would call.
	if err := s.WaitEvent(e); err != nil {
		return nil, err
	}
	owned := func() {}
	b, err := d.WrapExternal(address, n, func() { owned() })
	if err != nil {
		return nil, err
	}
	if err := b.RecordStream(s); err != nil {
		b.Release()
		return nil, err
	}
	if release != nil {
		owned = release
	}
	return b, nil
}

// EventAfter is that of the device: pinned memory is written by its streams.
func (h hostDevice) EventAfter(buffers ...arrowbuf.Buffer) (handle uintptr, done func(), err error) {
	return h.dev.EventAfter(buffers...)
}

// WrapExternalAfter returns a HostBuffer over pinned memory of another library, as
// the device's does. Since the host may read it in place, it waits for the event.
func (h hostDevice) WrapExternalAfter(event, address uintptr, n int64, release func()) (arrowbuf.Buffer, error) {
	if n < 0 {
		return nil, fmt.Errorf("%v: %d bytes at %#x: %w", h, n, address, arrowbuf.ErrOutOfRange)
	}
	if event != 0 {
		e, err := h.dev.WrapEvent(event)
		if err != nil {
			return nil, err
		}
		if err := e.Synchronize(); err != nil {
			return nil, err
		}
	}
	if n == 0 {
		address = 0
	} else if _, err := h.dev.DeviceAddress(address); err != nil {
		return nil, err
	}
	b := &HostBuffer{}
	if n > 0 {
		b.bytes = hostSlice(address, n)
	}
	b.init(h.dev, newAllocation(func(pending []*cudaStream) {
		synchronizeAll(pending)
		if release != nil {
			release()
		}
	}), address, n)
	return b, nil
}
