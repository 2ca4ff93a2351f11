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
	n := int64(len(src))
	if err := b.enter(pos, n); err != nil {
		return 0, err
	}
	defer b.Release()
	if n == 0 {
		return 0, nil
	}
	err := b.dev.onStream(func(s driver.Stream) error {
		return b.dev.api.MemcpyHtoDAsync(b.address+uintptr(pos), src, s)
	})
	runtime.KeepAlive(src)
	return copied(n, err)
}

// CopyToHost fills dst from the bytes that start at pos (cuMemcpyDtoHAsync).
func (b *Buffer) CopyToHost(dst []byte, pos int64) (int64, error) {
	n := int64(len(dst))
	if err := b.enter(pos, n); err != nil {
		return 0, err
	}
	defer b.Release()
	if n == 0 {
		return 0, nil
	}
	err := b.dev.onStream(func(s driver.Stream) error {
		return b.dev.api.MemcpyDtoHAsync(dst, b.address+uintptr(pos), s)
	})
	runtime.KeepAlive(dst)
	return copied(n, err)
}

// CopyFromDevice copies all of src to the bytes that start at pos. Within a GPU
// the bytes stay there, also where the ranges overlap; from another GPU of the
// same Driver they go the way that the driver knows (cuMemcpyPeerAsync); from
// any other device through pinned host memory, piece by piece.
func (b *Buffer) CopyFromDevice(src arrowbuf.Buffer, pos int64) (int64, error) {
	if host, ok := arrowbuf.HostBytes(src); ok {
		return b.CopyFromHost(host, pos)
	}
	n := src.Len()
	if err := b.enter(pos, n); err != nil {
		return 0, err
	}
	defer b.Release()
	from, ok := src.(*Buffer)
	if !ok {
		return b.copyThroughHost(src, pos)
	}
	if err := from.hold(); err != nil {
		return 0, err
	}
	defer from.Release()
	switch {
	case n == 0:
		return 0, nil
	case from.dev == b.dev:
		return copied(n, b.copyWithin(b.address+uintptr(pos), from.address, n))
	case from.dev.driver != b.dev.driver:
		return b.copyThroughHost(src, pos)
	}
	err := b.dev.onStream(func(s driver.Stream) error {
		return b.dev.api.MemcpyPeerAsync(b.address+uintptr(pos), b.dev.context, from.address, from.dev.context, n, s)
	})
	if err != nil && optional(err) == nil {
		return b.copyThroughHost(src, pos)
	}
	return copied(n, err)
}

// copyWithin copies inside the device's memory. Overlapping ranges, which
// cuMemcpyDtoD leaves undefined, go through a second place on the device.
func (b *Buffer) copyWithin(dst, src uintptr, n int64) error {
	api := b.dev.api
	if dst == src {
		return nil
	}
	if dst >= src+uintptr(n) || src >= dst+uintptr(n) {
		return b.dev.onStream(func(s driver.Stream) error { return api.MemcpyDtoDAsync(dst, src, n, s) })
	}
	between, err := b.dev.memory.get(n)
	if err != nil {
		return fmt.Errorf("copying between overlapping ranges: %w", err)
	}
	defer b.dev.memory.put(between)
	return b.dev.onStream(func(s driver.Stream) error {
		if err := api.MemcpyDtoDAsync(between, src, n, s); err != nil {
			return err
		}
		return api.MemcpyDtoDAsync(dst, between, n, s)
	})
}

// Fill sets every byte (cuMemsetD8Async).
func (b *Buffer) Fill(value byte) error {
	if err := b.enter(0, b.length); err != nil {
		return err
	}
	defer b.Release()
	if b.length == 0 {
		return nil
	}
	return b.dev.onStream(func(s driver.Stream) error {
		return b.dev.api.MemsetD8Async(b.address, value, b.length, s)
	})
}

// enter checks a range and holds the buffer; the caller releases it.
func (b *Buffer) enter(pos, n int64) error {
	if err := b.hold(); err != nil {
		return err
	}
	if err := arrowbuf.CheckRange(pos, n, b.length); err != nil {
		b.Release()
		return err
	}
	return nil
}

func copied(n int64, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return n, nil
}
