//go:build linux

package simulated

import (
	"bytes"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// MemcpyHtoDAsync reads pinned memory when the copy runs, and pageable memory
// before it returns.
func (d *Driver) MemcpyHtoDAsync(dst uintptr, src []byte, h driver.Stream) error {
	const call = "cuMemcpyHtoDAsync"
	dev, s, err := d.enterStream(call, h)
	if err != nil || len(src) == 0 {
		return err
	}
	destination, err := dev.destinationOperand(call, dst, int64(len(src)))
	if err != nil {
		return err
	}
	if d.pinned(src) != nil {
		return s.submit(call, d.copy(destination, dev.hostOperand(call, src)))
	}
	if err := s.pageable(call); err != nil {
		return err
	}
	if !tryAccess(func() { src = bytes.Clone(src) }) {
		return invalid(call, "the source is not host memory")
	}
	return s.submit(call, d.copy(destination, fixedOperand(src)))
}

// MemcpyDtoHAsync to pageable memory returns when the copy is done.
func (d *Driver) MemcpyDtoHAsync(dst []byte, src uintptr, h driver.Stream) error {
	const call = "cuMemcpyDtoHAsync"
	dev, s, err := d.enterStream(call, h)
	if err != nil || len(dst) == 0 {
		return err
	}
	source, err := dev.sourceOperand(call, src, int64(len(dst)))
	if err != nil {
		return err
	}
	switch h := d.pinned(dst); {
	case h != nil && h.readOnly:
		return invalid(call, "the destination is registered read-only")
	case h != nil:
		return s.submit(call, d.copy(dev.hostOperand(call, dst), source))
	}
	if err := s.pageable(call); err != nil {
		return err
	}
	staged := make([]byte, len(dst))
	if err := s.submit(call, d.copy(fixedOperand(staged), source)); err != nil {
		return err
	}
	if err := s.synchronize(call); err != nil {
		return err
	}
	if !tryAccess(func() { copy(dst, staged) }) {
		return invalid(call, "the destination is not host memory")
	}
	return nil
}

// pageable returns an error if the stream captures, because pageable memory may
// not exist when the graph runs.
func (s *stream) pageable(call string) error {
	d := s.context.driver
	d.order.Lock()
	defer d.order.Unlock()
	if s.capture != nil {
		return s.capture.invalidate(call)
	}
	return nil
}

// MemcpyDtoDAsync returns an error if the ranges overlap. CUDA leaves that
// result undefined.
func (d *Driver) MemcpyDtoDAsync(dst, src uintptr, n int64, h driver.Stream) error {
	const call = "cuMemcpyDtoDAsync"
	dev, s, err := d.enterStream(call, h)
	if err != nil || n == 0 {
		return err
	}
	destination, err := dev.destinationOperand(call, dst, n)
	if err != nil {
		return err
	}
	source, err := dev.sourceOperand(call, src, n)
	if err != nil {
		return err
	}
	if dst < src+uintptr(n) && src < dst+uintptr(n) {
		return invalid(call, "source and destination overlap")
	}
	return s.submit(call, d.copy(destination, source))
}

func (d *Driver) MemcpyPeerAsync(dst uintptr, dstContext driver.Context, src uintptr, srcContext driver.Context, n int64, h driver.Stream) error {
	const call = "cuMemcpyPeerAsync"
	_, s, err := d.enterStream(call, h)
	if err != nil || n == 0 {
		return err
	}
	destinationDevice, err := d.contextDevice(call, dstContext)
	if err != nil {
		return err
	}
	sourceDevice, err := d.contextDevice(call, srcContext)
	if err != nil {
		return err
	}
	destination, err := destinationDevice.destinationOperand(call, dst, n)
	if err != nil {
		return err
	}
	source, err := sourceDevice.sourceOperand(call, src, n)
	if err != nil {
		return err
	}
	return s.submit(call, d.copy(destination, source))
}

func (d *Driver) MemsetD8Async(dst uintptr, value byte, n int64, h driver.Stream) error {
	const call = "cuMemsetD8Async"
	dev, s, err := d.enterStream(call, h)
	if err != nil || n == 0 {
		return err
	}
	destination, err := dev.destinationOperand(call, dst, n)
	if err != nil {
		return err
	}
	return s.submit(call, func() error {
		b, err := destination()
		for i := range b {
			b[i] = value
		}
		return err
	})
}

// copy returns the operation of a copy.
func (d *Driver) copy(dst, src operand) func() error {
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

func (d *Driver) contextDevice(call string, c driver.Context) (*device, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	found, err := d.lookupContext(call, c)
	if err != nil {
		return nil, err
	}
	return found.dev, nil
}

// tryAccess reports whether f ran without a memory fault.
func tryAccess(f func()) (ok bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	f()
	return true
}

// operand returns the bytes of a source or destination of a copy. It is looked
// up when the copy is submitted, to report errors of the call, and again when
// the copy runs. A graph may run after its memory has been freed.
type operand func() ([]byte, error)

// fixedOperand returns an operand for memory that the copy itself owns.
func fixedOperand(b []byte) operand { return func() ([]byte, error) { return b, nil } }

// sourceOperand returns an operand for device memory that the copy reads.
func (dev *device) sourceOperand(call string, address uintptr, n int64) (operand, error) {
	if _, ok := dev.arena.bytes(address, n); !ok {
		return nil, invalid(call, "%d bytes at %#x are not in one allocation of cuda:%d", n, address, dev.ordinal)
	}
	return dev.operandAt(call, address, n), nil
}

// destinationOperand is sourceOperand for memory that the copy writes. It
// returns an error for read-only registered memory.
func (dev *device) destinationOperand(call string, address uintptr, n int64) (operand, error) {
	destination, err := dev.sourceOperand(call, address, n)
	if err == nil && dev.arena.readOnly(address) {
		return nil, invalid(call, "%#x is registered read-only", address)
	}
	return destination, err
}

// hostOperand returns an operand for pinned host memory.
func (dev *device) hostOperand(call string, host []byte) operand {
	return dev.operandAt(call, addressOf(host), int64(len(host)))
}

// operandAt returns an operand for n bytes at an address. It is looked up when
// the copy runs.
func (dev *device) operandAt(call string, address uintptr, n int64) operand {
	return func() ([]byte, error) {
		b, ok := dev.arena.bytesAtRun(address, n)
		if !ok {
			return nil, &driver.Error{Call: call, Code: driver.IllegalAddress, Detail: fmt.Sprintf("the memory was freed before the operation ran: %d bytes at %s", n, describeAny(address))}
		}
		return b, nil
	}
}
