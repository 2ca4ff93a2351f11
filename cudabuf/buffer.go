package cudabuf

import (
	"encoding/hex"
	"fmt"

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
	memoryView
	parent *Buffer // what a slice was cut from, nil for the owner itself
}

var _ arrowbuf.Buffer = (*Buffer)(nil)

// newBuffer takes over the memory.
func newBuffer(dev *Device, memory *allocation, address uintptr, length int64) *Buffer {
	b := &Buffer{}
	b.init(dev, memory, address, length)
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

// Parent is the buffer that a slice was cut from, nil for one that owns its
// memory. The caller owns no reference to it.
func (b *Buffer) Parent() *Buffer { return b.parent }

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

// SliceClamped is Slice for a length that may reach beyond the end: it is cut there.
func (b *Buffer) SliceClamped(offset, length int64) (*Buffer, error) {
	if length < 0 {
		return nil, fmt.Errorf("a slice of %d bytes: %w", length, arrowbuf.ErrOutOfRange)
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
	return b.readAt(p, off, b.CopyToHost)
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
