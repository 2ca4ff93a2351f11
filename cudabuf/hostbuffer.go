package cudabuf

import (
	"bytes"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/quiver-gpu/quiver/arrowbuf"
)

// HostBuffer is a run of page-locked memory of the host, from and to which every
// GPU copies at the speed of its link. It is an arrowbuf.Buffer on the device
// that [Device.Host] returns, and its bytes are ordinary memory to the program.
//
// Copies between a HostBuffer and a Buffer are ordered like those between
// Buffers, see [Stream]; also when the HostBuffer's bytes are passed to
// [Buffer.CopyFromHostAsync] or [Buffer.CopyToHostAsync], since they are known
// by their address. So it may be released right after an Async operation. Only
// the program's own reads and writes of [HostBuffer.HostBytes] are not ordered:
// call Wait before them. The other methods do so by themselves.
type HostBuffer struct {
	span
	bytes []byte
}

var _ arrowbuf.Buffer = (*HostBuffer)(nil)

// Device is the one that Device.Host returns.
func (h *HostBuffer) Device() arrowbuf.Device { return h.dev.Host() }

// HostBytes are the bytes themselves, nil after the last Release.
func (h *HostBuffer) HostBytes() []byte {
	if h.refs.Load() <= 0 {
		return nil
	}
	return h.bytes
}

// DeviceAddress is the address by which kernels of the HostBuffer's device
// reach the memory (cuMemHostGetDevicePointer). That takes HostOptions.Mapped or
// RegisterOptions.Mapped, or a GPU with unified addressing, as all are today;
// memory that kernels do not reach is arrowbuf.ErrDevice.
func (h *HostBuffer) DeviceAddress() (uintptr, error) { return h.addressOn(h.dev) }

// addressOn is DeviceAddress for another GPU of the same driver.
func (h *HostBuffer) addressOn(d *Device) (address uintptr, err error) {
	if err := h.hold(); err != nil {
		return 0, err
	}
	defer h.Release()
	if h.length == 0 {
		return 0, nil
	}
	owner := &h.span
	for owner.whole != nil {
		owner = owner.whole
	}
	err = d.do(func() (err error) { address, err = d.api.MemHostGetDevicePointer(owner.address); return err })
	if err != nil {
		return 0, fmt.Errorf("pinned memory that kernels of %v do not reach: %w: %w", d, arrowbuf.ErrDevice, err)
	}
	return address + (h.address - owner.address), nil
}

// Slice returns a part of the same memory, which stays until the part is
// released too. The result is a *HostBuffer.
func (h *HostBuffer) Slice(offset, length int64) (arrowbuf.Buffer, error) {
	s := &HostBuffer{}
	if err := h.cut(&s.span, offset, length); err != nil {
		return nil, err
	}
	s.bytes = h.bytes[offset : offset+length : offset+length]
	return s, nil
}

// CopyFromHost copies all of src to the bytes that start at pos.
func (h *HostBuffer) CopyFromHost(src []byte, pos int64) (int64, error) {
	dst, err := h.take(pos, int64(len(src)), writes)
	if err != nil {
		return 0, err
	}
	defer h.Release()
	return int64(copy(dst, src)), nil
}

// CopyToHost fills dst from the bytes that start at pos.
func (h *HostBuffer) CopyToHost(dst []byte, pos int64) (int64, error) {
	src, err := h.take(pos, int64(len(dst)), reads)
	if err != nil {
		return 0, err
	}
	defer h.Release()
	return int64(copy(dst, src)), nil
}

// CopyFromDevice copies all of src, which may live on any device, to the bytes
// that start at pos.
func (h *HostBuffer) CopyFromDevice(src arrowbuf.Buffer, pos int64) (int64, error) {
	if src == nil {
		return 0, errNoBuffer
	}
	dst, err := h.take(pos, src.Len(), writes)
	if err != nil {
		return 0, err
	}
	defer h.Release()
	return src.CopyToHost(dst, 0)
}

// CopyFromDeviceAsync is CopyFromDevice in the order of a stream, which is one
// of the source's device; that is a GPU of the same Driver.
func (h *HostBuffer) CopyFromDeviceAsync(src *Buffer, pos int64, s *Stream) (int64, error) {
	if src.dev.driver != h.dev.driver {
		return 0, fmt.Errorf("from another driver's %v to %v: %w", src.dev, h.Device(), arrowbuf.ErrDevice)
	}
	if err := h.enterWriting(pos, src.length); err != nil {
		return 0, err
	}
	defer h.Release()
	return src.CopyToHostAsync(h.bytes[pos:pos+src.length], 0, s)
}

// take holds the buffer and returns a range of its bytes when no stream uses
// them any more. The caller releases it.
func (h *HostBuffer) take(pos, n int64, how access) ([]byte, error) {
	enter := h.enter
	if how == writes {
		enter = h.enterWriting
	}
	if err := enter(pos, n); err != nil {
		return nil, err
	}
	if err := h.Wait(); err != nil {
		h.Release()
		return nil, err
	}
	return h.bytes[pos : pos+n], nil
}

// Equal tells whether the other buffer, on any device, holds the same bytes.
func (h *HostBuffer) Equal(other arrowbuf.Buffer) (bool, error) {
	if other == nil {
		return false, errNoBuffer
	}
	ours, err := h.take(0, h.length, reads)
	if err != nil {
		return false, err
	}
	defer h.Release()
	if o, ok := other.(*HostBuffer); ok {
		if err := o.Wait(); err != nil {
			return false, err
		}
	}
	if theirs, ok := arrowbuf.HostBytes(other); ok {
		return bytes.Equal(ours, theirs), nil
	}
	return other.Equal(h)
}

// ReadAt reads as io.ReaderAt says.
func (h *HostBuffer) ReadAt(p []byte, off int64) (int, error) { return h.readAt(p, off, h.CopyToHost) }

// WriteAt writes as io.WriterAt says. What does not fit whole is not written at
// all.
func (h *HostBuffer) WriteAt(p []byte, off int64) (int, error) {
	n, err := h.CopyFromHost(p, off)
	return int(n), err
}

// Arrow returns the memory as arrow-go sees it, which may read and write its
// bytes; arrowbuf.FromArrow finds the way back.
func (h *HostBuffer) Arrow() *memory.Buffer { return arrowbuf.WrapArrow(h) }
