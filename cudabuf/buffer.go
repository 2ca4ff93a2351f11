package cudabuf

import (
	"encoding/hex"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Buffer is a range of bytes in the memory of a GPU. It implements
// arrowbuf.Buffer. A buffer of length 0 has address 0 and costs no driver call.
//
// An operation is complete when it returns, unless its name ends in Async. Async
// operations run in the order of a [Stream]. Both kinds wait for work on other
// streams that uses the same memory; see Stream.
//
// After the last Release, operations return arrowbuf.ErrReleased. Retain, Release
// and Arrow return no error and panic with it instead. The memory is reused only
// after the streams that use it are done. A buffer may therefore be released right
// after an Async operation.
type Buffer struct {
	memoryView
	parent *Buffer // the buffer that this one is a slice of; nil for the owner
}

var _ arrowbuf.Buffer = (*Buffer)(nil)

// String returns length, address and device, such as "Buffer(8 bytes at 0x7f00 of
// cuda:0)". It reads no device memory; Hex and Bytes do.
func (b *Buffer) String() string {
	if b == nil {
		return "Buffer(nil)"
	}
	return b.describe("Buffer", b.dev)
}

// newBuffer returns a buffer that owns the memory.
func newBuffer(dev *Device, memory *allocation, address uintptr, length int64) *Buffer {
	b := &Buffer{}
	b.init(dev, memory, address, length)
	return b
}

// FromArrow returns the Buffer whose memory an arrow buffer shows, whole or in
// part. The caller owns one reference to it. The error is arrowbuf.ErrDevice if
// the memory is not on a GPU.
func FromArrow(b *memory.Buffer) (*Buffer, error) {
	found, ok := arrowbuf.FromArrow(b)
	if !ok {
		return nil, fmt.Errorf("cudabuf.FromArrow: arrow buffer on the wrong device: got ordinary memory, want a GPU: %w", arrowbuf.ErrDevice)
	}
	if buffer, ok := found.(*Buffer); ok {
		return buffer, nil
	}
	if inner, ok := arrowbuf.As[*Buffer](found); ok { // found wraps it
		inner.Retain()
		found.Release()
		return inner, nil
	}
	defer found.Release()
	return nil, fmt.Errorf("cudabuf.FromArrow: arrow buffer on the wrong device: got %v, want a GPU: %w", found.Device(), arrowbuf.ErrDevice)
}

// Device returns the *Device that holds the memory.
func (b *Buffer) Device() arrowbuf.Device { return b.dev }

// Parent returns the buffer that this one is a slice of, or nil if it owns its
// memory. The caller owns no reference to the result.
func (b *Buffer) Parent() *Buffer { return b.parent }

// ReadOnly returns a view of the same bytes that refuses writes with ErrReadOnly.
// Kernels only read it, so launches on several streams that share it do not wait
// for each other. The caller owns one reference to the result.
func (b *Buffer) ReadOnly() (*Buffer, error) {
	s, err := b.slice(0, b.length)
	if err == nil {
		s.readOnly = true
	}
	return s, err
}

// Slice returns a *Buffer on bytes [offset, offset+length) of the same memory.
// The caller owns one reference. The memory stays until all slices are released.
func (b *Buffer) Slice(offset, length int64) (arrowbuf.Buffer, error) {
	s, err := b.slice(offset, length)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// SliceClamped is Slice with the length limited to the end of the buffer.
func (b *Buffer) SliceClamped(offset, length int64) (*Buffer, error) {
	if length < 0 {
		return nil, fmt.Errorf("cudabuf.SliceClamped: negative length %d: %w", length, arrowbuf.ErrOutOfRange)
	}
	return b.slice(offset, min(length, max(b.length-offset, 0)))
}

func (b *Buffer) slice(offset, length int64) (*Buffer, error) {
	s := &Buffer{parent: b}
	if err := b.sliceInto(&s.memoryView, offset, length); err != nil {
		return nil, err
	}
	return s, nil
}

// Bytes copies the whole buffer to new host memory.
func (b *Buffer) Bytes() ([]byte, error) {
	dst := make([]byte, b.length)
	_, err := b.CopyToHost(dst, 0)
	return dst, err
}

// Hex copies the whole buffer to the host and returns it in hexadecimal, two
// lower-case digits per byte.
func (b *Buffer) Hex() (string, error) {
	data, err := b.Bytes()
	return hex.EncodeToString(data), err
}

// ReadAt copies from the device. It implements io.ReaderAt.
func (b *Buffer) ReadAt(p []byte, off int64) (int, error) {
	return b.readAt(p, off, b.CopyToHost)
}

// WriteAt copies to the device. It implements io.WriterAt, but writes nothing if p
// does not fit whole.
func (b *Buffer) WriteAt(p []byte, off int64) (int, error) {
	n, err := b.CopyFromHost(p, off)
	return int(n), err
}

// Arrow returns the memory as an arrow buffer. arrowbuf.FromArrow finds the Buffer
// again. For managed memory it first waits for the streams that use it, since the host
// may read the bytes of the result.
func (b *Buffer) Arrow() *memory.Buffer {
	if b.dev.managed {
		// An error here is one of the device, which every later call returns.
		_ = b.Wait()
	}
	return arrowbuf.WrapArrow(b)
}
