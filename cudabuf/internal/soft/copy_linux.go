package soft

import (
	"bytes"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// MemcpyHtoDAsync reads pinned memory when the copy runs, other memory now.
func (d *Driver) MemcpyHtoDAsync(dst uintptr, src []byte, h driver.Stream) error {
	const call = "cuMemcpyHtoDAsync"
	dev, s, err := d.stream(call, h)
	if err != nil || len(src) == 0 {
		return err
	}
	to, err := dev.writable(call, dst, int64(len(src)))
	if err != nil {
		return err
	}
	if d.pinned(src) == nil {
		if !touch(func() { src = bytes.Clone(src) }) {
			return &driver.Error{Call: call, Code: driver.InvalidValue, Detail: "the source is not memory of the host"}
		}
	}
	return s.issue(call, d.copy(to, src))
}

// MemcpyDtoHAsync to memory that is not pinned returns when the copy is done.
func (d *Driver) MemcpyDtoHAsync(dst []byte, src uintptr, h driver.Stream) error {
	const call = "cuMemcpyDtoHAsync"
	dev, s, err := d.stream(call, h)
	if err != nil || len(dst) == 0 {
		return err
	}
	from, err := dev.bytes(call, src, int64(len(dst)))
	if err != nil {
		return err
	}
	switch h := d.pinned(dst); {
	case h != nil && h.readOnly:
		return invalid(call, "the destination is registered for reading alone")
	case h != nil:
		return s.issue(call, d.copy(dst, from))
	}
	staged := make([]byte, len(dst))
	if err := s.issue(call, d.copy(staged, from)); err != nil {
		return err
	}
	if err := s.synchronize(call); err != nil {
		return err
	}
	if !touch(func() { copy(dst, staged) }) {
		return &driver.Error{Call: call, Code: driver.InvalidValue, Detail: "the destination is not memory of the host"}
	}
	return nil
}

// MemcpyDtoDAsync refuses overlapping ranges, whose result CUDA leaves
// undefined.
func (d *Driver) MemcpyDtoDAsync(dst, src uintptr, n int64, h driver.Stream) error {
	const call = "cuMemcpyDtoDAsync"
	dev, s, err := d.stream(call, h)
	if err != nil || n == 0 {
		return err
	}
	to, err := dev.writable(call, dst, n)
	if err != nil {
		return err
	}
	from, err := dev.bytes(call, src, n)
	if err != nil {
		return err
	}
	if dst < src+uintptr(n) && src < dst+uintptr(n) {
		return &driver.Error{Call: call, Code: driver.InvalidValue, Detail: "source and destination overlap"}
	}
	return s.issue(call, d.copy(to, from))
}

func (d *Driver) MemcpyPeerAsync(dst uintptr, dstContext driver.Context, src uintptr, srcContext driver.Context, n int64, h driver.Stream) error {
	const call = "cuMemcpyPeerAsync"
	_, s, err := d.stream(call, h)
	if err != nil || n == 0 {
		return err
	}
	var ends [2][]byte
	for i, end := range [2]struct {
		context driver.Context
		address uintptr
	}{{dstContext, dst}, {srcContext, src}} {
		dev, err := d.byContext(call, end.context)
		if err != nil {
			return err
		}
		if i == 0 {
			ends[i], err = dev.writable(call, end.address, n)
		} else {
			ends[i], err = dev.bytes(call, end.address, n)
		}
		if err != nil {
			return err
		}
	}
	return s.issue(call, d.copy(ends[0], ends[1]))
}

func (d *Driver) MemsetD8Async(dst uintptr, value byte, n int64, h driver.Stream) error {
	const call = "cuMemsetD8Async"
	dev, s, err := d.stream(call, h)
	if err != nil || n == 0 {
		return err
	}
	to, err := dev.writable(call, dst, n)
	if err != nil {
		return err
	}
	return s.issue(call, func() error {
		for i := range to {
			to[i] = value
		}
		return nil
	})
}

// copy is the work of every copy.
func (d *Driver) copy(dst, src []byte) func() error {
	return func() error {
		time.Sleep(d.config.CopyLatency)
		copy(dst, src)
		return nil
	}
}

func (dev *device) bytes(call string, address uintptr, n int64) ([]byte, error) {
	b, ok := dev.arena.bytes(address, n)
	if !ok {
		return nil, &driver.Error{Call: call, Code: driver.InvalidValue, Detail: fmt.Sprintf("%d bytes at %#x are not one allocation of cuda:%d", n, address, dev.ordinal)}
	}
	return b, nil
}

// writable is bytes without memory that devices may only read.
func (dev *device) writable(call string, address uintptr, n int64) ([]byte, error) {
	b, err := dev.bytes(call, address, n)
	if err == nil && dev.arena.readOnly(address) {
		return nil, invalid(call, "%#x is registered for reading alone", address)
	}
	return b, err
}

func (d *Driver) byContext(call string, c driver.Context) (*device, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	found, err := d.find(call, c)
	if err != nil {
		return nil, err
	}
	return found.dev, nil
}

// touch tells whether f ran without a fault.
func touch(f func()) (ok bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	f()
	return true
}
