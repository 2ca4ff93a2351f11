package ipc

import (
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
)

// readOnly returns a view of a buffer that refuses writes. The caller owns one
// reference to the result.
func readOnly(b arrowbuf.Buffer) (arrowbuf.Buffer, error) {
	if gpu, ok := arrowbuf.As[*cudabuf.Buffer](b); ok {
		return gpu.ReadOnly()
	}
	b.Retain()
	return &hostView{b}, nil
}

// hostView is a buffer of the host that refuses writes. The memory of another process
// is mapped for reading only: without this view, a write would end the program.
type hostView struct{ arrowbuf.Buffer }

// Unwrap returns the buffer, for arrowbuf.As.
func (v *hostView) Unwrap() arrowbuf.Buffer { return v.Buffer }

// Mutable reports that the bytes may not be written.
func (v *hostView) Mutable() bool { return false }

// HostBytes returns the bytes in place.
func (v *hostView) HostBytes() []byte {
	bytes, _ := arrowbuf.HostBytes(v.Buffer)
	return bytes
}

// Slice returns a part of the view, which refuses writes, too.
func (v *hostView) Slice(offset, length int64) (arrowbuf.Buffer, error) {
	part, err := v.Buffer.Slice(offset, length)
	if err != nil {
		return nil, err
	}
	return &hostView{part}, nil
}

func (v *hostView) refuse(n int64) error {
	return fmt.Errorf("ipc: writing %d bytes to shared memory of %d bytes: %w", n, v.Len(), cudabuf.ErrReadOnly)
}

// WriteAt returns cudabuf.ErrReadOnly.
func (v *hostView) WriteAt(p []byte, _ int64) (int, error) { return 0, v.refuse(int64(len(p))) }

// CopyFromHost returns cudabuf.ErrReadOnly.
func (v *hostView) CopyFromHost(src []byte, _ int64) (int64, error) {
	return 0, v.refuse(int64(len(src)))
}

// CopyFromDevice returns cudabuf.ErrReadOnly.
func (v *hostView) CopyFromDevice(src arrowbuf.Buffer, _ int64) (int64, error) {
	if src == nil {
		return 0, fmt.Errorf("ipc: nil source: %w", arrowbuf.ErrDevice)
	}
	return 0, v.refuse(src.Len())
}
