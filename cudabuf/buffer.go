package cudabuf

import (
	"fmt"
	"io"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Buffer is a run of bytes in the memory of a GPU, an arrowbuf.Buffer. Each
// operation is complete when it returns. A buffer of length 0 has address 0 and
// costs no driver call.
//
// After the last Release, operations answer arrowbuf.ErrReleased; Retain,
// Release and Arrow, which have no error to answer, panic with it.
type Buffer struct {
	dev     *Device
	root    *Buffer // whose memory a slice shows, nil for the owner itself
	address uintptr
	length  int64
	refs    atomic.Int64
}

var _ arrowbuf.Buffer = (*Buffer)(nil)

// newBuffer takes over the memory, or one reference to root.
func newBuffer(dev *Device, root *Buffer, address uintptr, length int64) *Buffer {
	b := &Buffer{dev: dev, root: root, address: address, length: length}
	b.refs.Store(1)
	return b
}

// Device is the *Device whose memory it is.
func (b *Buffer) Device() arrowbuf.Device { return b.dev }

// Address is the device address (CUdeviceptr) of the first byte.
func (b *Buffer) Address() uintptr { return b.address }

// Len is the length in bytes.
func (b *Buffer) Len() int64 { return b.length }

// Slice returns a part of the same memory, which stays until the part is
// released too.
func (b *Buffer) Slice(offset, length int64) (arrowbuf.Buffer, error) {
	if err := b.hold(); err != nil {
		return nil, err
	}
	defer b.Release()
	if err := arrowbuf.CheckRange(offset, length, b.length); err != nil {
		return nil, err
	}
	root := b
	if b.root != nil {
		root = b.root
	}
	root.Retain()
	if length == 0 {
		return newBuffer(b.dev, root, 0, 0), nil
	}
	return newBuffer(b.dev, root, b.address+uintptr(offset), length), nil
}

// ReadAt copies from the device as io.ReaderAt says.
func (b *Buffer) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("reading at %d: %w", off, arrowbuf.ErrOutOfRange)
	}
	if off >= b.length {
		if err := b.hold(); err != nil {
			return 0, err
		}
		b.Release()
		return 0, io.EOF
	}
	want := min(int64(len(p)), b.length-off)
	n, err := b.CopyToHost(p[:want], off)
	if err == nil && n < int64(len(p)) {
		err = io.EOF
	}
	return int(n), err
}

// WriteAt copies to the device as io.WriterAt says. What does not fit whole is
// not written at all.
func (b *Buffer) WriteAt(p []byte, off int64) (int, error) {
	n, err := b.CopyFromHost(p, off)
	return int(n), err
}

// Arrow returns the memory as arrow-go sees it; arrowbuf.FromArrow finds the
// way back.
func (b *Buffer) Arrow() *memory.Buffer { return arrowbuf.WrapArrow(b) }

// Retain adds a reference.
func (b *Buffer) Retain() {
	if err := b.hold(); err != nil {
		panic(fmt.Errorf("cudabuf: Retain: %w", err))
	}
}

// Release gives one reference back, and with the last one the memory.
func (b *Buffer) Release() {
	switch n := b.refs.Add(-1); {
	case n < 0:
		panic(fmt.Errorf("cudabuf: Release: %w", arrowbuf.ErrReleased))
	case n > 0:
	case b.root != nil:
		b.root.Release()
	case b.length > 0:
		b.dev.memory.put(b.address)
	}
}

// hold takes a reference for the time of an operation, so that memory which
// another goroutine releases meanwhile is not used again under it.
func (b *Buffer) hold() error {
	for {
		n := b.refs.Load()
		if n <= 0 {
			return fmt.Errorf("%v: %w", b.dev, arrowbuf.ErrReleased)
		}
		if b.refs.CompareAndSwap(n, n+1) {
			return nil
		}
	}
}
