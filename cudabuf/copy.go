package cudabuf

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// CopyFromHost copies src to the bytes from pos on (cuMemcpyHtoDAsync). From pinned
// memory, which is known by its address, it runs at the speed of the link. Large
// copies of ordinary memory are nearly as fast: several goroutines copy it through
// staging buffers.
func (b *Buffer) CopyFromHost(src []byte, pos int64) (int64, error) {
	return b.copyFromHost(src, pos, nil)
}

// CopyFromHostAsync is CopyFromHost in the order of a stream. Pinned memory is read
// when the copy runs: until then the caller must not change or free it. (A
// HostBuffer may be released.) Ordinary memory has been read when the call returns.
// A large copy of it first waits for the earlier work of the stream.
func (b *Buffer) CopyFromHostAsync(src []byte, pos int64, s *Stream) (int64, error) {
	if err := checkStream("Buffer.CopyFromHostAsync", s); err != nil {
		return 0, err
	}
	return b.copyFromHost(src, pos, s)
}

func (b *Buffer) copyFromHost(src []byte, pos int64, s *Stream) (int64, error) {
	n := int64(len(src))
	if err := b.retainRangeToWrite(pos, n); err != nil {
		return 0, err
	}
	defer b.Release()
	if n == 0 {
		return 0, nil
	}
	if err := b.dev.checkCapturable(src, s); err != nil {
		return 0, err
	}
	to := b.address + uintptr(pos)
	if b.dev.usesStaging(src, s) {
		return countUnlessError(n, b.dev.copyStaged([]segment{hostSegment(to, src)}, access{b.memory, writes}, s))
	}
	err := b.dev.submit(s, b.copyAccesses(writes, src), func(h driver.Stream) error { return b.dev.api.MemcpyHtoDAsync(to, src, h) })
	runtime.KeepAlive(src)
	return countUnlessError(n, err)
}

// CopyToHost fills dst from the bytes from pos on (cuMemcpyDtoHAsync). It is as fast
// as CopyFromHost.
func (b *Buffer) CopyToHost(dst []byte, pos int64) (int64, error) {
	return b.copyToHost(dst, pos, nil)
}

// CopyToHostAsync is CopyToHost in the order of a stream. Pinned memory is filled
// when the copy runs: until then the caller must not use or free it. (A HostBuffer
// may be released.) Ordinary memory is filled when the call returns.
func (b *Buffer) CopyToHostAsync(dst []byte, pos int64, s *Stream) (int64, error) {
	if err := checkStream("Buffer.CopyToHostAsync", s); err != nil {
		return 0, err
	}
	return b.copyToHost(dst, pos, s)
}

func (b *Buffer) copyToHost(dst []byte, pos int64, s *Stream) (int64, error) {
	n := int64(len(dst))
	if err := b.retainRange(pos, n); err != nil {
		return 0, err
	}
	defer b.Release()
	if n == 0 {
		return 0, nil
	}
	if err := b.dev.checkCapturable(dst, s); err != nil {
		return 0, err
	}
	from := b.address + uintptr(pos)
	if b.dev.usesStaging(dst, s) {
		return countUnlessError(n, b.dev.copyStaged([]segment{hostSegment(from, dst)}, access{b.memory, reads}, s))
	}
	err := b.dev.submit(s, b.copyAccesses(reads, dst), func(h driver.Stream) error { return b.dev.api.MemcpyDtoHAsync(dst, from, h) })
	runtime.KeepAlive(dst)
	return countUnlessError(n, err)
}

// copyAccesses returns what a copy between the buffer and the host accesses: the
// buffer, and the HostBuffer that contains the host's bytes, if any.
func (b *Buffer) copyAccesses(mode accessMode, host []byte) []access {
	accesses := []access{{b.memory, mode}}
	if found, ok := b.dev.driver.hostBuffers.find(host); ok {
		accesses = append(accesses, access{found.memory, !mode})
	}
	return accesses
}

// CopyFromDevice copies src to the bytes from pos on. Within a GPU the ranges may
// overlap. From another GPU of the same Driver the driver copies directly if there
// is a link (cuMemcpyPeerAsync). From any other device the bytes pass through pinned
// memory, chunk by chunk.
func (b *Buffer) CopyFromDevice(src arrowbuf.Buffer, pos int64) (int64, error) {
	if src == nil {
		return 0, errNilBuffer
	}
	if h, ok := arrowbuf.As[*HostBuffer](src); ok {
		return b.copyFromHostBuffer(h, pos, nil)
	}
	if host, ok := arrowbuf.HostBytes(src); ok {
		return b.CopyFromHost(host, pos)
	}
	from, ok := arrowbuf.As[*Buffer](src)
	if !ok || from.dev.driver != b.dev.driver {
		return b.copyThroughHost(src, pos)
	}
	n, err := b.copyFromDevice(from, pos, nil)
	if err != nil && from.dev != b.dev && ignoreNotSupported(err) == nil {
		return b.copyThroughHost(src, pos)
	}
	return n, err
}

// CopyFromDeviceAsync is CopyFromDevice in the order of a stream of this buffer's
// device. The source is, or wraps, a *Buffer or a *HostBuffer of the same Driver. It
// returns an error if the driver cannot copy between the two GPUs.
func (b *Buffer) CopyFromDeviceAsync(src arrowbuf.Buffer, pos int64, s *Stream) (int64, error) {
	if err := checkStream("Buffer.CopyFromDeviceAsync", s); err != nil {
		return 0, err
	}
	if src == nil {
		return 0, errNilBuffer
	}
	if from, ok := arrowbuf.As[*Buffer](src); ok && from.dev.driver == b.dev.driver {
		return b.copyFromDevice(from, pos, s)
	}
	if from, ok := arrowbuf.As[*HostBuffer](src); ok && from.dev.driver == b.dev.driver {
		return b.copyFromHostBuffer(from, pos, s)
	}
	return 0, fmt.Errorf("cudabuf.CopyFromDeviceAsync: source of another driver: got %v, want the driver of %v: %w", src.Device(), b.dev, arrowbuf.ErrDevice)
}

func (b *Buffer) copyFromHostBuffer(src *HostBuffer, pos int64, s *Stream) (int64, error) {
	if err := src.retain(); err != nil {
		return 0, err
	}
	defer src.Release()
	if src.dev.driver != b.dev.driver { // its streams are unknown here
		if err := src.Wait(); err != nil {
			return 0, err
		}
	}
	return b.copyFromHost(src.bytes, pos, s)
}

func (b *Buffer) copyFromDevice(src *Buffer, pos int64, s *Stream) (int64, error) {
	if err := b.retainRangeToWrite(pos, src.length); err != nil {
		return 0, err
	}
	defer b.Release()
	if err := src.retain(); err != nil {
		return 0, err
	}
	defer src.Release()
	n, to := src.length, b.address+uintptr(pos)
	if n == 0 || to == src.address {
		return n, nil
	}
	accesses := []access{{b.memory, writes}, {src.memory, reads}}
	api := b.dev.api
	switch {
	case src.dev.context != b.dev.context:
		return countUnlessError(n, b.dev.submit(s, accesses, func(h driver.Stream) error {
			return api.MemcpyPeerAsync(to, b.dev.context, src.address, src.dev.context, n, h)
		}))
	case to < src.address+uintptr(n) && src.address < to+uintptr(n):
		return countUnlessError(n, b.copyOverlapping(to, src.address, n, accesses, s))
	}
	return countUnlessError(n, b.dev.submit(s, accesses, func(h driver.Stream) error { return api.MemcpyDtoDAsync(to, src.address, n, h) }))
}

// copyOverlapping copies through a temporary buffer, since cuMemcpyDtoD leaves the
// result of overlapping ranges undefined.
func (b *Buffer) copyOverlapping(to, from uintptr, n int64, accesses []access, s *Stream) error {
	temporary, err := b.dev.NewBuffer(n)
	if err != nil {
		return fmt.Errorf("copying overlapping ranges: %w", err)
	}
	defer temporary.Release()
	api := b.dev.api
	return b.dev.submit(s, append(accesses, access{temporary.memory, writes}), func(h driver.Stream) error {
		if err := api.MemcpyDtoDAsync(temporary.address, from, n, h); err != nil {
			return err
		}
		return api.MemcpyDtoDAsync(to, temporary.address, n, h)
	})
}

// Copy copies src to the bytes of dst from pos on, by CopyFromHostAsync if the host
// can access src, and by CopyFromDeviceAsync otherwise. The error is
// arrowbuf.ErrDevice unless dst is a *Buffer of the stream's device. It is
// errors.ErrUnsupported while the stream captures a graph: the graph would run after
// the caller has released the memory.
func (s *Stream) Copy(dst arrowbuf.Buffer, pos int64, src arrowbuf.Buffer) error {
	if dst == nil || src == nil {
		return errNilBuffer
	}
	to, ok := arrowbuf.As[*Buffer](dst)
	if !ok {
		return fmt.Errorf("destination on the wrong device: got %v, want %v: %w", dst.Device(), s.dev, arrowbuf.ErrDevice)
	}
	if s.capture != nil {
		return fmt.Errorf("%v: copying buffers while capturing a graph: %w", s.dev, errors.ErrUnsupported)
	}
	var err error
	if from, ok := arrowbuf.As[*HostBuffer](src); ok {
		_, err = to.copyFromHostBuffer(from, pos, s)
	} else if host, ok := arrowbuf.HostBytes(src); ok {
		_, err = to.CopyFromHostAsync(host, pos, s)
	} else {
		_, err = to.CopyFromDeviceAsync(src, pos, s)
	}
	return err
}

// CopyRangesFromHost copies each range to its position, as CopyFromHost does, but
// waits only once. Pinned ranges are enqueued together. Ordinary ranges pass through
// staging buffers as one copy, which makes small ranges as fast as one large copy.
//
// Nothing is copied if a range does not lie in the buffer. The result is undefined
// where ranges overlap in the buffer.
func (b *Buffer) CopyRangesFromHost(ranges []arrowbuf.HostRange) error {
	if err := b.retainRangeToWrite(0, 0); err != nil {
		return err
	}
	defer b.Release()
	var pinned, ordinary []segment
	var accesses []access
	var size int64
	for i, r := range ranges {
		if err := arrowbuf.CheckRange(r.Pos, int64(len(r.Bytes)), b.length); err != nil {
			return fmt.Errorf("range %d of %d: %w", i, len(ranges), err)
		}
		if len(r.Bytes) == 0 {
			continue
		}
		one := hostSegment(b.address+uintptr(r.Pos), r.Bytes)
		if accesses == nil {
			accesses = []access{{b.memory, writes}}
		}
		if found, ok := b.dev.driver.hostBuffers.find(r.Bytes); ok {
			accesses = append(accesses, access{found.memory, reads})
			pinned = append(pinned, one)
		} else if b.dev.isPinned(r.Bytes) {
			pinned = append(pinned, one)
		} else {
			ordinary = append(ordinary, one)
			size += int64(len(r.Bytes))
		}
	}
	if size < b.dev.staging.threshold { // the driver is as fast
		pinned, ordinary = append(pinned, ordinary...), nil
	}
	defer runtime.KeepAlive(ranges)
	if len(pinned) > 0 {
		err := b.dev.submitAndWait(accesses, func(h driver.Stream) error {
			for _, one := range pinned {
				if err := b.dev.api.MemcpyHtoDAsync(one.device, one.host, h); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if len(ordinary) > 0 {
		return b.dev.copyStaged(ordinary, access{b.memory, writes}, nil)
	}
	return nil
}

// CopyRangesFromReaders fills ranges of the buffer with what their functions read, in parts
// of at most some MiB. Several goroutines read into staging buffers, from which the device
// copies at the same time. So a file needs no memory of its size, and crosses the link
// while it is read. The number of goroutines is at most readers, or 16 if that is not
// positive: a program that is busy otherwise may be faster with few.
//
// Nothing is read if a range does not lie in the buffer. The ranges must not overlap.
// After an error, which is the first of any function, the bytes of all ranges are
// undefined.
func (b *Buffer) CopyRangesFromReaders(ranges []arrowbuf.ReadRange, readers int) error {
	if err := b.retainRangeToWrite(0, 0); err != nil {
		return err
	}
	defer b.Release()
	segments := make([]segment, 0, len(ranges))
	for i, r := range ranges {
		if err := arrowbuf.CheckRange(r.Pos, r.Length, b.length); err != nil {
			return fmt.Errorf("cudabuf.CopyRangesFromReaders: range %d of %d: %w", i, len(ranges), err)
		}
		if r.Read == nil {
			return fmt.Errorf("cudabuf.CopyRangesFromReaders: range %d of %d: nil function: %w", i, len(ranges), ErrNil)
		}
		if r.Length > 0 {
			segments = append(segments, segment{device: b.address + uintptr(r.Pos), length: r.Length, read: r.Read})
		}
	}
	if len(segments) == 0 {
		return nil
	}
	c := newStagedCopy(b.dev.staging, segments)
	if c.workers = b.dev.staging.readers; readers > 0 {
		c.workers = min(readers, c.workers)
	}
	return b.dev.runStaged(c, access{b.memory, writes}, nil)
}

// Fill sets every byte to a value (cuMemsetD8Async).
func (b *Buffer) Fill(value byte) error { return b.fill(value, nil) }

// FillAsync is Fill in the order of a stream.
func (b *Buffer) FillAsync(value byte, s *Stream) error {
	if err := checkStream("Buffer.FillAsync", s); err != nil {
		return err
	}
	return b.fill(value, s)
}

func (b *Buffer) fill(value byte, s *Stream) error {
	if err := b.retainRangeToWrite(0, b.length); err != nil {
		return err
	}
	defer b.Release()
	if b.length == 0 {
		return nil
	}
	return b.dev.submit(s, []access{{b.memory, writes}}, func(h driver.Stream) error {
		return b.dev.api.MemsetD8Async(b.address, value, b.length, h)
	})
}

// Equal reports whether the other buffer, on any device, holds the same bytes. Both
// are compared on the host, chunk by chunk, until a chunk differs.
func (b *Buffer) Equal(other arrowbuf.Buffer) (bool, error) {
	if other == nil {
		return false, errNilBuffer
	}
	if err := b.retain(); err != nil {
		return false, err
	}
	defer b.Release()
	if o, ok := other.(interface{ retain() error }); ok {
		if err := o.retain(); err != nil {
			return false, err
		}
		defer other.Release()
	}
	if b.length != other.Len() {
		return false, nil
	}
	if b.length == 0 || other.Device() == arrowbuf.Device(b.dev) && other.Address() == b.address {
		return true, nil
	}
	next, stop := iter.Pull2(b.dev.hostChunks(other))
	defer stop()
	for ours, err := range b.dev.hostChunks(b) {
		if err != nil {
			return false, err
		}
		theirs, err, _ := next()
		if err != nil {
			return false, err
		}
		if !bytes.Equal(ours, theirs) {
			return false, nil
		}
	}
	return true, nil
}

func countUnlessError(n int64, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return n, nil
}

// hostChunkSize is the number of bytes that pass through host memory at a time. It
// is large enough for the speed of the link.
const hostChunkSize = 4 << 20

// copyThroughHost copies src, on any device, to the bytes from pos on.
func (b *Buffer) copyThroughHost(src arrowbuf.Buffer, pos int64) (int64, error) {
	if err := b.retainRangeToWrite(pos, src.Len()); err != nil {
		return 0, err
	}
	defer b.Release()
	var done int64
	for part, err := range b.dev.hostChunks(src) {
		if err != nil {
			return done, err
		}
		n, err := b.CopyFromHost(part, pos+done)
		done += n
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// hostChunks yields the bytes of a buffer on any device, in chunks of hostChunkSize.
// A chunk is valid until the next one. Bytes that the host cannot access pass
// through two pinned chunks: one is copied while the other is used. An error ends
// the sequence.
func (d *Device) hostChunks(src arrowbuf.Buffer) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		host, ok := arrowbuf.HostBytes(src)
		if !ok {
			d.fetchChunks(src, yield)
			return
		}
		if h, ok := arrowbuf.As[*HostBuffer](src); ok {
			if err := h.Wait(); err != nil {
				yield(nil, err)
				return
			}
		}
		for part := range slices.Chunk(host, hostChunkSize) {
			if !yield(part, nil) {
				return
			}
		}
	}
}

// fetchChunks is hostChunks for a buffer that the host cannot access.
func (d *Device) fetchChunks(src arrowbuf.Buffer, yield func([]byte, error) bool) {
	empty := make(chan []byte, 2)
	for range min(2, (src.Len()+hostChunkSize-1)/hostChunkSize) {
		b, free, err := d.pinned.getBytes(min(hostChunkSize, src.Len()))
		if err != nil {
			yield(nil, err)
			return
		}
		defer free()
		empty <- b
	}
	type filled struct {
		part []byte
		err  error
	}
	full := make(chan filled, 2)
	stop := make(chan struct{})
	var fetcher sync.WaitGroup
	fetcher.Go(func() {
		defer close(full)
		for pos := int64(0); pos < src.Len(); pos += hostChunkSize {
			select {
			case b := <-empty:
				part := b[:min(hostChunkSize, src.Len()-pos)]
				_, err := src.CopyToHost(part, pos)
				full <- filled{part, err}
				if err != nil {
					return
				}
			case <-stop:
				return
			}
		}
	})
	defer fetcher.Wait()
	defer close(stop)
	for f := range full {
		if !yield(f.part, f.err) || f.err != nil {
			return
		}
		empty <- f.part
	}
}
