package cudabuf

import (
	"encoding"
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrMalformedHandle means that bytes are not a valid handle. The text says what was
// expected.
var ErrMalformedHandle = errors.New("malformed memory handle")

// The sizes of pyarrow's format: the length as an int64 in native byte order and, if
// the length is not 0, the 64 bytes of CUDA.
const (
	pyArrowEmptySize = 8
	pyArrowSize      = pyArrowEmptySize + 64
)

// MarshalPyArrow encodes the handle as pyarrow.cuda.IpcMemHandle.serialize does: 72
// bytes, or 8 for length 0. The format has no device and no offset; the error is
// ErrNotShareable for a handle with an offset. pyarrow opens the whole allocation,
// which begins with the buffer.
func (h MemHandle) MarshalPyArrow() ([]byte, error) {
	if err := h.validate(); err != nil {
		return nil, err
	}
	if h.Offset != 0 {
		return nil, fmt.Errorf("cudabuf.MarshalPyArrow: offset: got %d, want 0: %w", h.Offset, ErrNotShareable)
	}
	b := binary.NativeEndian.AppendUint64(make([]byte, 0, pyArrowSize), uint64(h.Length))
	if h.Length > 0 {
		b = append(b, h.Handle[:]...)
	}
	return b, nil
}

// ParsePyArrow decodes the result of pyarrow.cuda.IpcMemHandle.serialize. The buffer
// must start its allocation, since pyarrow loses any offset. The opened buffer has the
// length of the exported one. The error is ErrMalformedHandle for other bytes.
func ParsePyArrow(b []byte) (MemHandle, error) {
	if len(b) != pyArrowEmptySize && len(b) != pyArrowSize {
		return MemHandle{}, fmt.Errorf("cudabuf.ParsePyArrow: %w: got %d bytes, want %d, or %d for length 0", ErrMalformedHandle, len(b), pyArrowSize, pyArrowEmptySize)
	}
	h := MemHandle{Region: Region{Length: int64(binary.NativeEndian.Uint64(b))}}
	if h.Length < 0 || (h.Length == 0) != (len(b) == pyArrowEmptySize) {
		return MemHandle{}, fmt.Errorf("cudabuf.ParsePyArrow: %w: length %d in %d bytes", ErrMalformedHandle, h.Length, len(b))
	}
	copy(h.Handle[:], b[pyArrowEmptySize:])
	return h, nil
}

// The binary format of MemHandle: the version as one byte, the device's UUID, the
// size of the allocation, offset and length as little-endian int64, and the 64 bytes
// of CUDA.
const (
	memHandleVersion = 1
	memHandleSize    = 1 + 16 + 3*8 + 64
)

var (
	_ encoding.BinaryMarshaler   = MemHandle{}
	_ encoding.BinaryUnmarshaler = (*MemHandle)(nil)
)

// MarshalBinary encodes the handle in 105 bytes.
func (h MemHandle) MarshalBinary() ([]byte, error) {
	if err := h.validate(); err != nil {
		return nil, err
	}
	b := append(make([]byte, 0, memHandleSize), memHandleVersion)
	b = append(b, h.Device[:]...)
	for _, n := range []int64{h.AllocationSize, h.Offset, h.Length} {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	return append(b, h.Handle[:]...), nil
}

// UnmarshalBinary decodes the result of MarshalBinary. The error is ErrMalformedHandle for
// other bytes.
func (h *MemHandle) UnmarshalBinary(b []byte) error {
	if len(b) != memHandleSize {
		return fmt.Errorf("cudabuf.MemHandle: %w: got %d bytes, want %d", ErrMalformedHandle, len(b), memHandleSize)
	}
	if b[0] != memHandleVersion {
		return fmt.Errorf("cudabuf.MemHandle: %w: got version %d, want %d", ErrMalformedHandle, b[0], memHandleVersion)
	}
	var read MemHandle
	b = b[1:]
	b = b[copy(read.Device[:], b):]
	for _, n := range []*int64{&read.AllocationSize, &read.Offset, &read.Length} {
		*n = int64(binary.LittleEndian.Uint64(b))
		b = b[8:]
	}
	copy(read.Handle[:], b)
	if err := read.validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformedHandle, err)
	}
	*h = read
	return nil
}
