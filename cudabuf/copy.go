package cudabuf

import (
	"fmt"
	"runtime"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// CopyFromHost copies all of src to the bytes that start at pos
// (cuMemcpyHtoDAsync). From pinned memory, such as HostAllocator's, it runs at
// the speed of the link: the driver knows pinned memory by its address.
func (b *Buffer) CopyFromHost(src []byte, pos int64) (int64, error) {
	return b.copyFromHost(src, pos, nil)
}

// CopyFromHostAsync is CopyFromHost in the order of a stream. Pinned memory is
// read when the copy runs: until then nobody may change or free it. Ordinary
// memory has been read when the call returns.
func (b *Buffer) CopyFromHostAsync(src []byte, pos int64, s *Stream) (int64, error) {
	return b.copyFromHost(src, pos, s)
}

func (b *Buffer) copyFromHost(src []byte, pos int64, s *Stream) (int64, error) {
	n := int64(len(src))
	if err := b.enterWriting(pos, n); err != nil {
		return 0, err
	}
	defer b.Release()
	if n == 0 {
		return 0, nil
	}
	err := b.dev.give(s, []use{{b.memory, writes}}, func(h driver.Stream) error {
		return b.dev.api.MemcpyHtoDAsync(b.address+uintptr(pos), src, h)
	})
	runtime.KeepAlive(src)
	return copied(n, err)
}

// CopyToHost fills dst from the bytes that start at pos (cuMemcpyDtoHAsync).
func (b *Buffer) CopyToHost(dst []byte, pos int64) (int64, error) {
	return b.copyToHost(dst, pos, nil)
}

// CopyToHostAsync is CopyToHost in the order of a stream. Pinned memory is
// filled when the copy runs: until then nobody may use or free it. Ordinary
// memory is filled when the call returns.
func (b *Buffer) CopyToHostAsync(dst []byte, pos int64, s *Stream) (int64, error) {
	return b.copyToHost(dst, pos, s)
}

func (b *Buffer) copyToHost(dst []byte, pos int64, s *Stream) (int64, error) {
	n := int64(len(dst))
	if err := b.enter(pos, n); err != nil {
		return 0, err
	}
	defer b.Release()
	if n == 0 {
		return 0, nil
	}
	err := b.dev.give(s, []use{{b.memory, reads}}, func(h driver.Stream) error {
		return b.dev.api.MemcpyDtoHAsync(dst, b.address+uintptr(pos), h)
	})
	runtime.KeepAlive(dst)
	return copied(n, err)
}

// CopyFromDevice copies all of src to the bytes that start at pos. Within a GPU
// the bytes stay there, also where the ranges overlap; from another GPU of the
// same Driver they go the way that the driver knows (cuMemcpyPeerAsync), which
// is the link between the two where there is one; from any other device through
// pinned host memory, piece by piece.
func (b *Buffer) CopyFromDevice(src arrowbuf.Buffer, pos int64) (int64, error) {
	if host, ok := arrowbuf.HostBytes(src); ok {
		return b.CopyFromHost(host, pos)
	}
	from, ok := src.(*Buffer)
	if !ok || from.dev.driver != b.dev.driver {
		return b.copyThroughHost(src, pos)
	}
	n, err := b.copyFromDevice(from, pos, nil)
	if err != nil && from.dev != b.dev && optional(err) == nil {
		return b.copyThroughHost(src, pos)
	}
	return n, err
}

// CopyFromDeviceAsync is CopyFromDevice in the order of a stream, which is one
// of this buffer's device. The source is on a GPU of the same Driver. A driver
// that cannot copy between GPUs answers an error.
func (b *Buffer) CopyFromDeviceAsync(src *Buffer, pos int64, s *Stream) (int64, error) {
	if src.dev.driver != b.dev.driver {
		return 0, fmt.Errorf("from another driver's %v to %v: %w", src.dev, b.dev, arrowbuf.ErrDevice)
	}
	return b.copyFromDevice(src, pos, s)
}

func (b *Buffer) copyFromDevice(src *Buffer, pos int64, s *Stream) (int64, error) {
	if err := b.enterWriting(pos, src.length); err != nil {
		return 0, err
	}
	defer b.Release()
	if err := src.hold(); err != nil {
		return 0, err
	}
	defer src.Release()
	n, to := src.length, b.address+uintptr(pos)
	if n == 0 || to == src.address {
		return n, nil
	}
	uses := []use{{b.memory, writes}, {src.memory, reads}}
	api := b.dev.api
	switch {
	case src.dev.context != b.dev.context:
		return copied(n, b.dev.give(s, uses, func(h driver.Stream) error {
			return api.MemcpyPeerAsync(to, b.dev.context, src.address, src.dev.context, n, h)
		}))
	case to < src.address+uintptr(n) && src.address < to+uintptr(n):
		return copied(n, b.copyOverlapping(to, src.address, n, uses, s))
	}
	return copied(n, b.dev.give(s, uses, func(h driver.Stream) error { return api.MemcpyDtoDAsync(to, src.address, n, h) }))
}

// copyOverlapping goes through a second place on the device, since cuMemcpyDtoD
// leaves overlapping ranges undefined.
func (b *Buffer) copyOverlapping(to, from uintptr, n int64, uses []use, s *Stream) error {
	between, err := b.dev.NewBuffer(n)
	if err != nil {
		return fmt.Errorf("copying between overlapping ranges: %w", err)
	}
	defer between.Release()
	api := b.dev.api
	return b.dev.give(s, append(uses, use{between.memory, writes}), func(h driver.Stream) error {
		if err := api.MemcpyDtoDAsync(between.address, from, n, h); err != nil {
			return err
		}
		return api.MemcpyDtoDAsync(to, between.address, n, h)
	})
}

// Fill sets every byte (cuMemsetD8Async).
func (b *Buffer) Fill(value byte) error { return b.fill(value, nil) }

// FillAsync is Fill in the order of a stream.
func (b *Buffer) FillAsync(value byte, s *Stream) error { return b.fill(value, s) }

func (b *Buffer) fill(value byte, s *Stream) error {
	if err := b.enterWriting(0, b.length); err != nil {
		return err
	}
	defer b.Release()
	if b.length == 0 {
		return nil
	}
	return b.dev.give(s, []use{{b.memory, writes}}, func(h driver.Stream) error {
		return b.dev.api.MemsetD8Async(b.address, value, b.length, h)
	})
}

func copied(n int64, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return n, nil
}
