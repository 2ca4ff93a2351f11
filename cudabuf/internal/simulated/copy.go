//go:build linux

package simulated

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
	if d.pinned(src) != nil {
		return s.issue(call, d.copy(to, dev.at(call, src)))
	}
	if err := s.pageable(call); err != nil {
		return err
	}
	if !touch(func() { src = bytes.Clone(src) }) {
		return invalid(call, "the source is not memory of the host")
	}
	return s.issue(call, d.copy(to, kept(src)))
}

// MemcpyDtoHAsync to memory that is not pinned returns when the copy is done.
func (d *Driver) MemcpyDtoHAsync(dst []byte, src uintptr, h driver.Stream) error {
	const call = "cuMemcpyDtoHAsync"
	dev, s, err := d.stream(call, h)
	if err != nil || len(dst) == 0 {
		return err
	}
	from, err := dev.readable(call, src, int64(len(dst)))
	if err != nil {
		return err
	}
	switch h := d.pinned(dst); {
	case h != nil && h.readOnly:
		return invalid(call, "the destination is registered for reading alone")
	case h != nil:
		return s.issue(call, d.copy(dev.at(call, dst), from))
	}
	if err := s.pageable(call); err != nil {
		return err
	}
	staged := make([]byte, len(dst))
	if err := s.issue(call, d.copy(kept(staged), from)); err != nil {
		return err
	}
	if err := s.synchronize(call); err != nil {
		return err
	}
	if !touch(func() { copy(dst, staged) }) {
		return invalid(call, "the destination is not memory of the host")
	}
	return nil
}

// pageable fails where the stream captures: each launch of the graph would use
// the memory, and nothing keeps it until then.
func (s *stream) pageable(call string) error {
	d := s.context.driver
	d.order.Lock()
	defer d.order.Unlock()
	if s.capture != nil {
		return s.capture.forbid(call)
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
	from, err := dev.readable(call, src, n)
	if err != nil {
		return err
	}
	if dst < src+uintptr(n) && src < dst+uintptr(n) {
		return invalid(call, "source and destination overlap")
	}
	return s.issue(call, d.copy(to, from))
}

func (d *Driver) MemcpyPeerAsync(dst uintptr, dstContext driver.Context, src uintptr, srcContext driver.Context, n int64, h driver.Stream) error {
	const call = "cuMemcpyPeerAsync"
	_, s, err := d.stream(call, h)
	if err != nil || n == 0 {
		return err
	}
	target, err := d.byContext(call, dstContext)
	if err != nil {
		return err
	}
	source, err := d.byContext(call, srcContext)
	if err != nil {
		return err
	}
	to, err := target.writable(call, dst, n)
	if err != nil {
		return err
	}
	from, err := source.readable(call, src, n)
	if err != nil {
		return err
	}
	return s.issue(call, d.copy(to, from))
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
		b, err := to()
		for i := range b {
			b[i] = value
		}
		return err
	})
}

// copy is the work of every copy.
func (d *Driver) copy(dst, src end) func() error {
	return func() error {
		time.Sleep(d.config.CopyLatency)
		to, err := dst()
		if err != nil {
			return err
		}
		from, err := src()
		copy(to, from)
		return err
	}
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

// end is one end of a copy. It is looked up when the copy is issued, where a
// mistake is an error of the call, and again when the copy runs: a graph runs
// long after, and memory may be gone.
type end func() ([]byte, error)

// kept is memory that the copy itself keeps.
func kept(b []byte) end { return func() ([]byte, error) { return b, nil } }

// readable is an end of device memory.
func (dev *device) readable(call string, address uintptr, n int64) (end, error) {
	if _, ok := dev.arena.bytes(address, n); !ok {
		return nil, invalid(call, "%d bytes at %#x are not one allocation of cuda:%d", n, address, dev.ordinal)
	}
	return dev.reach(call, address, n), nil
}

// writable is readable without memory that devices may only read.
func (dev *device) writable(call string, address uintptr, n int64) (end, error) {
	to, err := dev.readable(call, address, n)
	if err == nil && dev.arena.readOnly(address) {
		return nil, invalid(call, "%#x is registered for reading alone", address)
	}
	return to, err
}

// at is an end of pinned memory of the host.
func (dev *device) at(call string, host []byte) end {
	return dev.reach(call, addressOf(host), int64(len(host)))
}

func (dev *device) reach(call string, address uintptr, n int64) end {
	return func() ([]byte, error) {
		b, ok := dev.arena.running(address, n)
		if !ok {
			return nil, &driver.Error{Call: call, Code: driver.IllegalAddress, Detail: fmt.Sprintf("%d bytes from %s on, gone when the copy runs", n, where(address))}
		}
		return b, nil
	}
}
