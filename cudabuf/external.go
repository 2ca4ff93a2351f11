package cudabuf

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"sync"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// WrapExternal returns a buffer over n bytes of device memory of another library.
// The size is not checked. The owner must keep the memory until release is called.
// That happens after the last Release, when the streams that use the memory are
// done. release may be nil. The error is arrowbuf.ErrDevice if the address is not
// memory of the device.
func (d *Device) WrapExternal(address uintptr, n int64, release func()) (*Buffer, error) {
	if n < 0 {
		return nil, fmt.Errorf("cudabuf.WrapExternal: %v: negative size: got %d bytes at %#x: %w", d, n, address, arrowbuf.ErrOutOfRange)
	}
	if n > 0 {
		at, err := d.DeviceAddress(address)
		if err == nil {
			err = d.checkExternalManaged(address)
		}
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

// DeviceAddress returns the address by which kernels of this device access memory
// (cuPointerGetAttribute with CU_POINTER_ATTRIBUTE_DEVICE_POINTER). It is the address
// itself for device memory, and may differ for mapped host memory. The error is
// arrowbuf.ErrDevice if CUDA does not know the address.
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

// RecordStream declares that another library uses the buffer's memory on a stream.
// Later work on the stream waits for all earlier work of this package on the memory.
// Later work of this package on the memory waits for all earlier work on the stream.
// So does the reuse of the memory after its release.
func (b *Buffer) RecordStream(s *Stream) error {
	if err := checkStream("Buffer.RecordStream", s); err != nil {
		return err
	}
	if err := b.retain(); err != nil {
		return err
	}
	defer b.Release()
	if b.memory == nil {
		return nil
	}
	return b.dev.submit(s, []access{{b.memory, writes}}, func(driver.Stream) error { return nil })
}

// Enqueue lets another library enqueue work in the order of the stream, such as cuBLAS or
// NCCL. call enqueues on Stream.Handle. It runs once, before Enqueue returns, on a thread
// whose current context is the device's. memory lists what the work reads ([In]) and
// writes ([InOut]). Work on other streams is ordered against it as for a launch, the
// memory stays until the work is done, and a graph that the stream captures keeps it.
//
// call must not use buffers or streams of the device otherwise, since the memory is
// locked meanwhile. An error of call is returned with the name of the device.
func (s *Stream) Enqueue(call func() error, memory ...Pointer) error {
	if err := checkStream("Stream.Enqueue", s); err != nil {
		return err
	}
	if call == nil {
		return fmt.Errorf("cudabuf.Stream.Enqueue: nil function: %w", ErrNil)
	}
	l := launchStates.Get().(*launchState)
	defer l.recycle()
	for i, p := range memory {
		if err := l.addPointer(s.dev, p); err != nil {
			return fmt.Errorf("cudabuf.Stream.Enqueue: memory %d: %w", i, err)
		}
	}
	enqueue := func(driver.Stream) error { return call() }
	switch {
	case s.closed.Load():
		return fmt.Errorf("%v: stream: %w", s.dev, ErrClosed)
	case s.capture != nil:
		return s.capture.record(s, l.accesses, enqueue)
	}
	if err := s.dev.bindContext(); err != nil {
		return err
	}
	return s.dev.unbindContext(s.cudaStream.submit(l.accesses, enqueue))
}

// libraries holds what other packages keep per device.
type libraries struct {
	mu     sync.Mutex
	values map[any]io.Closer
	keys   []any // in the order of opening
}

// Library returns what open has returned for a key, such as the handles of another
// library for the device. The first call with a key runs open, in the device's context;
// a failed one is repeated by the next call. The value is closed in the device's
// context when the device is closed. The key must be comparable.
func (d *Device) Library(key any, open func() (io.Closer, error)) (io.Closer, error) {
	if key == nil || open == nil {
		return nil, fmt.Errorf("cudabuf.Device.Library: nil argument: %w", ErrNil)
	}
	if !reflect.TypeOf(key).Comparable() {
		return nil, fmt.Errorf("cudabuf.Device.Library: key of type %T: want a comparable one: %w", key, ErrArguments)
	}
	l := &d.libraries
	l.mu.Lock()
	defer l.mu.Unlock()
	if v, ok := l.values[key]; ok {
		return v, nil
	}
	var v io.Closer
	err := d.withContext(func() (err error) { v, err = open(); return err })
	if err != nil {
		return nil, err
	}
	if l.values == nil {
		l.values = map[any]io.Closer{}
	}
	l.values[key], l.keys = v, append(l.keys, key)
	return v, nil
}

// close closes the values, the last one first.
func (l *libraries) close(d *Device) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var failure error
	for _, key := range slices.Backward(l.keys) {
		failure = errors.Join(failure, d.withContext(l.values[key].Close))
	}
	l.values, l.keys = nil, nil
	return failure
}

// EventAfter implements an interface of arrowbuf/cdevice. It returns a new event
// (CUevent) that follows all earlier writes to the buffers, on any stream. The device's
// default stream waits for these writes too. The error is arrowbuf.ErrDevice unless
// the buffers belong to this device or to its Host. The event lives until done is
// called.
func (d *Device) EventAfter(buffers ...arrowbuf.Buffer) (handle uintptr, done func(), err error) {
	var accesses []access
	for _, b := range buffers {
		v, err := d.viewOf(b)
		if err != nil {
			return 0, nil, err
		}
		if err := v.retain(); err != nil {
			return 0, nil, err
		}
		defer v.Release()
		if v.memory != nil {
			accesses = append(accesses, access{v.memory, reads})
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
		_ = e.Close() // no stream waits for it
		return 0, nil, err
	}
	return e.Handle(), func() { _ = e.Close() }, nil // fails only on a lost device
}

// viewOf returns the memoryView of a buffer of this device or of its Host, which may be
// wrapped.
func (d *Device) viewOf(b arrowbuf.Buffer) (*memoryView, error) {
	if b == nil {
		return nil, errNilBuffer
	}
	if found, ok := arrowbuf.As[*Buffer](b); ok && found.dev == d {
		return &found.memoryView, nil
	}
	if found, ok := arrowbuf.As[*HostBuffer](b); ok && found.dev == d {
		return &found.memoryView, nil
	}
	return nil, fmt.Errorf("buffer on the wrong device: got %v, want %v: %w", b.Device(), d, arrowbuf.ErrDevice)
}

// WrapExternalAfter implements an interface of arrowbuf/cdevice. It is WrapExternal
// for memory that is valid only after an event (CUevent) of the other library, or now
// if event is 0. The device's default stream waits for the event, and work that uses
// the buffer waits for that stream. The host does not wait.
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
	// Wait before the buffer exists: an error must not call release.
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

// EventAfter is Device.EventAfter, since streams of the device write pinned memory.
func (h hostDevice) EventAfter(buffers ...arrowbuf.Buffer) (handle uintptr, done func(), err error) {
	return h.dev.EventAfter(buffers...)
}

// WrapExternalAfter returns a HostBuffer over pinned memory of another library. It
// waits for the event, since the host may read the memory directly.
func (h hostDevice) WrapExternalAfter(event, address uintptr, n int64, release func()) (arrowbuf.Buffer, error) {
	if n < 0 {
		return nil, fmt.Errorf("cudabuf.WrapExternalAfter: %v: negative size: got %d bytes at %#x: %w", h, n, address, arrowbuf.ErrOutOfRange)
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
