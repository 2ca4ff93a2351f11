package cudabuf

import (
	"fmt"
	"runtime"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// CopyFromHost copies all of src to the bytes that start at pos
// (cuMemcpyHtoDAsync). From pinned memory, such as HostAllocator's, it runs at
// the speed of the link: pinned memory is known by its address. Much ordinary
// memory goes nearly as fast, through pinned memory that several goroutines
// fill.
func (b *Buffer) CopyFromHost(src []byte, pos int64) (int64, error) {
	return b.copyFromHost(src, pos, nil)
}

// CopyFromHostAsync is CopyFromHost in the order of a stream. Pinned memory is
// read when the copy runs: until then nobody may change or free it, but a
// HostBuffer may be released. Ordinary memory has been read when the call
// returns; for much of it the call waits for the stream's earlier work first.
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
	if err := b.dev.capturable(src, s); err != nil {
		return 0, err
	}
	to := b.address + uintptr(pos)
	if b.dev.stages(src, s) {
		return copied(n, b.dev.stage([]segment{{to, src}}, use{b.memory, writes}, s))
	}
	err := b.dev.give(s, b.with(writes, src), func(h driver.Stream) error { return b.dev.api.MemcpyHtoDAsync(to, src, h) })
	runtime.KeepAlive(src)
	return copied(n, err)
}

// CopyToHost fills dst from the bytes that start at pos (cuMemcpyDtoHAsync), as
// fast as CopyFromHost reads.
func (b *Buffer) CopyToHost(dst []byte, pos int64) (int64, error) {
	return b.copyToHost(dst, pos, nil)
}

// CopyToHostAsync is CopyToHost in the order of a stream. Pinned memory is
// filled when the copy runs: until then nobody may use or free it, but a
// HostBuffer may be released. Ordinary memory is filled when the call returns.
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
	if err := b.dev.capturable(dst, s); err != nil {
		return 0, err
	}
	from := b.address + uintptr(pos)
	if b.dev.stages(dst, s) {
		return copied(n, b.dev.stage([]segment{{from, dst}}, use{b.memory, reads}, s))
	}
	err := b.dev.give(s, b.with(reads, dst), func(h driver.Stream) error { return b.dev.api.MemcpyDtoHAsync(dst, from, h) })
	runtime.KeepAlive(dst)
	return copied(n, err)
}

// with is what a copy between the buffer and the host uses: the buffer, and the
// HostBuffer that the bytes of the host belong to, if they do.
func (b *Buffer) with(how access, host []byte) []use {
	uses := []use{{b.memory, how}}
	if found, ok := b.dev.driver.hosted.find(host); ok {
		uses = append(uses, use{found.memory, !how})
	}
	return uses
}

// CopyFromDevice copies all of src to the bytes that start at pos. Within a GPU
// the bytes stay there, also where the ranges overlap; from another GPU of the
// same Driver they go the way that the driver knows (cuMemcpyPeerAsync), which
// is the link between the two where there is one; from any other device through
// pinned host memory, piece by piece.
func (b *Buffer) CopyFromDevice(src arrowbuf.Buffer, pos int64) (int64, error) {
	if src == nil {
		return 0, errNoBuffer
	}
	if h, ok := src.(*HostBuffer); ok {
		return b.copyFromHostBuffer(h, pos, nil)
	}
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
// of this buffer's device. The source is a *Buffer or a *HostBuffer of the same
// Driver. A driver that cannot copy between GPUs answers an error.
func (b *Buffer) CopyFromDeviceAsync(src arrowbuf.Buffer, pos int64, s *Stream) (int64, error) {
	switch from := src.(type) {
	case *Buffer:
		if from.dev.driver == b.dev.driver {
			return b.copyFromDevice(from, pos, s)
		}
	case *HostBuffer:
		if from.dev.driver == b.dev.driver {
			return b.copyFromHostBuffer(from, pos, s)
		}
	}
	return 0, fmt.Errorf("from %v of another driver to %v, in the order of a stream: %w", src.Device(), b.dev, arrowbuf.ErrDevice)
}

func (b *Buffer) copyFromHostBuffer(src *HostBuffer, pos int64, s *Stream) (int64, error) {
	if err := src.hold(); err != nil {
		return 0, err
	}
	defer src.Release()
	if src.dev.driver != b.dev.driver { // whose streams are not known here
		if err := src.Wait(); err != nil {
			return 0, err
		}
	}
	return b.copyFromHost(src.bytes, pos, s)
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
