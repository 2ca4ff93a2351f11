package cudabuf

import (
	"encoding"
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrHandleForm: bytes that are no handle. The text says what was expected.
var ErrHandleForm = errors.New("malformed memory handle")

// The sizes of pyarrow's form: an int64 in the byte order of the machine, and,
// unless that is 0, the 64 bytes of CUDA.
const (
	pyArrowEmptySize = 8
	pyArrowSize      = pyArrowEmptySize + 64
)

// MarshalPyArrow writes the handle as pyarrow.cuda.IpcMemHandle.serialize does:
// 72 bytes, 8 for length 0. The form has no offset, so a handle with one is
// ErrNotShareable; nor has it a device. pyarrow opens the whole allocation,
// whose first Length bytes are the buffer.
func (h MemHandle) MarshalPyArrow() ([]byte, error) {
	if err := h.validate(); err != nil {
		return nil, err
	}
	if h.Offset != 0 {
		return nil, fmt.Errorf("a slice at offset %d in pyarrow's form, which has no offset: %w", h.Offset, ErrNotShareable)
	}
	b := binary.NativeEndian.AppendUint64(make([]byte, 0, pyArrowSize), uint64(h.Length))
	if h.Length > 0 {
		b = append(b, h.Handle[:]...)
	}
	return b, nil
}

// ParsePyArrow reads what pyarrow.cuda.IpcMemHandle.serialize wrote, as it does
// for a buffer that starts an allocation: pyarrow itself loses the offset of
// any other. Opened, it is as long as the buffer that was exported, while
// pyarrow opens the whole allocation. Anything else is ErrHandleForm.
func ParsePyArrow(b []byte) (MemHandle, error) {
	if len(b) != pyArrowEmptySize && len(b) != pyArrowSize {
		return MemHandle{}, fmt.Errorf("%w: %d bytes, pyarrow writes %d, or %d for size 0", ErrHandleForm, len(b), pyArrowSize, pyArrowEmptySize)
	}
	h := MemHandle{Region: Region{Length: int64(binary.NativeEndian.Uint64(b))}}
	if h.Length < 0 || (h.Length == 0) != (len(b) == pyArrowEmptySize) {
		return MemHandle{}, fmt.Errorf("%w: size %d in pyarrow's form of %d bytes", ErrHandleForm, h.Length, len(b))
	}
	copy(h.Handle[:], b[pyArrowEmptySize:])
	return h, nil
}

// memHandleSize is version 1 of MemHandle in binary: a byte 1, the device's
// UUID, size of the allocation, offset and length as little-endian int64, and
// the 64 bytes of CUDA.
const (
	memHandleVersion = 1
	memHandleSize    = 1 + 16 + 3*8 + 64
)

var (
	_ encoding.BinaryMarshaler   = MemHandle{}
	_ encoding.BinaryUnmarshaler = (*MemHandle)(nil)
)

// MarshalBinary writes the handle in 105 bytes.
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

// UnmarshalBinary reads what MarshalBinary wrote; anything else is
// ErrHandleForm.
func (h *MemHandle) UnmarshalBinary(b []byte) error {
	if len(b) != memHandleSize {
		return fmt.Errorf("%w: %d bytes, not %d", ErrHandleForm, len(b), memHandleSize)
	}
	if b[0] != memHandleVersion {
		return fmt.Errorf("%w: version %d, not %d", ErrHandleForm, b[0], memHandleVersion)
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
		return fmt.Errorf("%w: %w", ErrHandleForm, err)
	}
	*h = read
	return nil
}
