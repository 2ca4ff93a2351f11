package arrowbuf

import (
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Errors that a caller can act on. Devices wrap them with what they were asked
// to do; test with errors.Is.
var (
	// ErrOutOfMemory: the device has no room for an allocation.
	ErrOutOfMemory = errors.New("out of device memory")
	// ErrOutOfRange: an offset or a length lies outside a buffer.
	ErrOutOfRange = errors.New("out of range")
	// ErrReleased: a buffer was used after its last reference was released.
	ErrReleased = errors.New("buffer already released")
	// ErrDevice: a buffer lives on a device that the operation cannot reach.
	ErrDevice = errors.New("wrong device")
)

// Buffer is a contiguous run of bytes on a device. It is reference counted as
// Arrow counts: it starts with one reference, and its memory goes back when
// the last is released. A slice holds a reference to the buffer that it was
// cut from.
//
// ReadAt and WriteAt copy between host and device with the contracts of
// io.ReaderAt and io.WriterAt. A Buffer may be used and released from any
// goroutine; concurrent writes to the same bytes are the caller's to order.
type Buffer interface {
	io.ReaderAt
	io.WriterAt

	// Device is where the bytes live.
	Device() Device
	// Address is the address of the first byte, as the device knows it; 0 for
	// a buffer of length 0. Only a CPU buffer's address may be read through.
	Address() uintptr
	// Len is the length in bytes.
	Len() int64
	// Slice returns bytes [offset, offset+length) of the same memory without
	// a copy. The caller owns one reference to the result.
	Slice(offset, length int64) (Buffer, error)
	// CopyFromHost copies all of src to the bytes that start at pos, and
	// returns the number copied.
	CopyFromHost(src []byte, pos int64) (int64, error)
	// CopyToHost fills dst from the bytes that start at pos, and returns the
	// number copied. A dst that reaches beyond the end is ErrOutOfRange.
	CopyToHost(dst []byte, pos int64) (int64, error)
	// CopyFromDevice copies all of src, which may live on any device, to the
	// bytes that start at pos, and returns the number copied. A nil src is
	// ErrDevice.
	CopyFromDevice(src Buffer, pos int64) (int64, error)
	// Equal tells whether the other buffer, on any device, holds the same
	// bytes. A nil one is ErrDevice.
	Equal(other Buffer) (bool, error)
	// Arrow returns the same memory as arrow-go sees it. The caller owns one
	// reference to the result, which holds one to this buffer. Unless the
	// device is the CPU, nothing may read or write its Bytes; FromArrow finds
	// the way back.
	Arrow() *memory.Buffer
	// Retain adds a reference.
	Retain()
	// Release gives one reference back. Releasing more often than retaining
	// panics.
	Release()
}

// HostBytes returns the bytes of a buffer that the host may touch in place,
// without a copy, until its last release: then they may become another buffer's.
// It answers false for memory that only a device reaches.
func HostBytes(b Buffer) ([]byte, bool) {
	h, ok := b.(interface{ HostBytes() []byte })
	if !ok {
		return nil, false
	}
	return h.HostBytes(), true
}

// HostRange is memory of the host, and where in a buffer its bytes belong.
type HostRange struct {
	Bytes []byte
	Pos   int64
}

// rangeCopier is a buffer that copies many ranges of the host faster together than
// one by one.
type rangeCopier interface {
	CopyRangesFromHost(ranges []HostRange) error
}

// CheckRange returns an error that is ErrOutOfRange unless bytes
// [offset, offset+length) lie within size bytes. Devices use it to answer
// alike.
func CheckRange(offset, length, size int64) error {
	if offset < 0 || length < 0 || offset > size || length > size-offset {
		return fmt.Errorf("bytes [%d, %d+%d) of a buffer of %d bytes: %w", offset, offset, length, size, ErrOutOfRange)
	}
	return nil
}
