package cudabuf

import (
	"encoding/hex"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Buffer is a run of bytes in the memory of a GPU, an arrowbuf.Buffer. A buffer
// of length 0 has address 0 and costs no driver call.
//
// Each operation is complete when it returns, unless its name ends in Async:
// those run in the order of a [Stream]. Both kinds wait for work on other
// streams that uses the same memory, see Stream.
//
// After the last Release, operations answer arrowbuf.ErrReleased; Retain,
// Release and Arrow, which have no error to answer, panic with it. The memory
// goes to its next user when the streams that use it are done with it, so a
// buffer may be released right after an Async operation.
type Buffer struct {
	dev      *Device
	memory   *allocation // nil for a buffer of length 0
	parent   *Buffer     // what a slice was cut from, nil for the owner itself
	address  uintptr
	length   int64
	readOnly bool
	refs     atomic.Int64
}

var _ arrowbuf.Buffer = (*Buffer)(nil)

// newBuffer takes over the memory.
func newBuffer(dev *Device, memory *allocation, address uintptr, length int64) *Buffer {
	b := &Buffer{dev: dev, memory: memory, address: address, length: length}
	b.refs.Store(1)
	return b
}

// FromArrow finds the Buffer whose memory an arrow buffer shows, the whole of
// it or a slice. The caller owns one reference to it. Memory that is not a
// GPU's is arrowbuf.ErrDevice.
func FromArrow(b *memory.Buffer) (*Buffer, error) {
	found, ok := arrowbuf.FromArrow(b)
	if !ok {
		return nil, fmt.Errorf("an arrow buffer of ordinary memory is not in GPU memory: %w", arrowbuf.ErrDevice)
	}
	if buffer, ok := found.(*Buffer); ok {
		return buffer, nil
	}
	defer found.Release()
	return nil, fmt.Errorf("an arrow buffer on %v is not in GPU memory: %w", found.Device(), arrowbuf.ErrDevice)
}

// Device is the *Device whose memory it is.
func (b *Buffer) Device() arrowbuf.Device { return b.dev }

// Address is the device address (CUdeviceptr) of the first byte. What others do
// with it is not ordered; see Wait.
func (b *Buffer) Address() uintptr { return b.address }

// Len is the length in bytes.
func (b *Buffer) Len() int64 { return b.length }

// Parent is the buffer that a slice was cut from, nil for one that owns its
// memory. The caller owns no reference to it.
func (b *Buffer) Parent() *Buffer { return b.parent }

// Mutable tells whether the buffer may be written to: not those of ReadOnly,
// nor their slices.
func (b *Buffer) Mutable() bool { return !b.readOnly }

// ReadOnly returns the same bytes as a buffer that refuses to be written to
// (ErrReadOnly), and that a kernel only reads: launches on several streams that
// share it do not wait for each other. The caller owns one reference to it.
func (b *Buffer) ReadOnly() (*Buffer, error) {
	s, err := b.slice(0, b.length)
	if err == nil {
		s.readOnly = true
	}
	return s, err
}

// Slice returns a part of the same memory, which stays until the part is
// released too. The result is a *Buffer.
func (b *Buffer) Slice(offset, length int64) (arrowbuf.Buffer, error) {
	s, err := b.slice(offset, length)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Clip is Slice for a length that may reach beyond the end: it is cut there.
func (b *Buffer) Clip(offset, length int64) (*Buffer, error) {
	if length < 0 {
		return nil, fmt.Errorf("a slice of %d bytes: %w", length, arrowbuf.ErrOutOfRange)
	}
	return b.slice(offset, min(length, max(b.length-offset, 0)))
}

func (b *Buffer) slice(offset, length int64) (*Buffer, error) {
	if err := b.enter(offset, length); err != nil {
		return nil, err
	}
	s := newBuffer(b.dev, b.memory, b.address+uintptr(offset), length)
	s.parent, s.readOnly = b, b.readOnly // the reference that enter took is the slice's
	if length == 0 {
		s.memory, s.address = nil, 0
	}
	return s, nil
}

// Wait returns when no stream uses the memory any more (cuStreamSynchronize on
// those that do), so that what others do with the address comes afterwards.
func (b *Buffer) Wait() error {
	if err := b.hold(); err != nil {
		return err
	}
	defer b.Release()
	if b.memory == nil {
		return nil
	}
	return b.memory.wait()
}

// Bytes copies all of the buffer to new memory of the host.
func (b *Buffer) Bytes() ([]byte, error) {
	dst := make([]byte, b.length)
	_, err := b.CopyToHost(dst, 0)
	return dst, err
}

// Hex copies all of the buffer to the host and writes it in hexadecimal, two
// lower-case digits a byte.
func (b *Buffer) Hex() (string, error) {
	data, err := b.Bytes()
	return hex.EncodeToString(data), err
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
	case b.parent != nil:
		b.parent.Release()
	case b.memory != nil:
		b.memory.release()
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

// enterWriting is enter for what writes.
func (b *Buffer) enterWriting(pos, n int64) error {
	if b.readOnly {
		return fmt.Errorf("%v: writing %d bytes: %w", b.dev, n, ErrReadOnly)
	}
	return b.enter(pos, n)
}
