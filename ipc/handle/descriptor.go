package handle

import (
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
)

// Descriptor names a buffer of a process for another one: bytes
// [Offset, Offset+Length) of an allocation.
type Descriptor struct {
	Mechanism      Mechanism
	AllocationSize int64
	Offset, Length int64
	Device         cudabuf.UUID // zero for memory of the host
	Exporter       Process
	Sequence       uint64   // tells descriptors of one exporter apart
	Handle         [64]byte // what opens the allocation, zero where a file alone does
	Pool           uint64   // of CUDAPool: tells pools of one exporter apart, from 1
	Event          *cudabuf.EventHandle
}

// Validate returns an error, cudabuf.ErrHandleForm, for what no buffer can be.
func (d *Descriptor) Validate() error {
	if !d.Mechanism.Valid() {
		return fmt.Errorf("%w: %v", cudabuf.ErrHandleForm, d.Mechanism)
	}
	if err := arrowbuf.CheckRange(d.Offset, d.Length, d.AllocationSize); err != nil {
		return fmt.Errorf("%w: %w", cudabuf.ErrHandleForm, err)
	}
	if !d.Mechanism.hasHandle() && d.Handle != [64]byte{} {
		return fmt.Errorf("%w: %v has no handle", cudabuf.ErrHandleForm, d.Mechanism)
	}
	if (d.Mechanism == CUDAPool) != (d.Pool != 0) {
		return fmt.Errorf("%w: %v with pool %d", cudabuf.ErrHandleForm, d.Mechanism, d.Pool)
	}
	return nil
}

// Part is the descriptor of bytes of the same allocation.
func (d *Descriptor) Part(offset, length int64) (*Descriptor, error) {
	if err := arrowbuf.CheckRange(offset, length, d.Length); err != nil {
		return nil, err
	}
	part := *d
	part.Offset, part.Length = d.Offset+offset, length
	return &part, nil
}

// Region is the part of the allocation, as package cudabuf opens it.
func (d *Descriptor) Region() cudabuf.Region {
	return cudabuf.Region{Device: d.Device, AllocationSize: d.AllocationSize, Offset: d.Offset, Length: d.Length}
}

// FromMemHandle is the descriptor of what cudabuf.Buffer.ExportIPC answered.
func FromMemHandle(h cudabuf.MemHandle, exporter Process) Descriptor {
	return Descriptor{
		Mechanism: CUDAIPC, AllocationSize: h.AllocationSize, Offset: h.Offset, Length: h.Length,
		Device: h.Device, Exporter: exporter, Handle: h.Handle,
	}
}

// MemHandle is what cudabuf.Device.OpenIPC takes. Another mechanism than CUDAIPC
// is cudabuf.ErrNotShareable.
func (d *Descriptor) MemHandle() (cudabuf.MemHandle, error) {
	if d.Mechanism != CUDAIPC {
		return cudabuf.MemHandle{}, fmt.Errorf("%v as a handle of CUDA IPC: %w", d.Mechanism, cudabuf.ErrNotShareable)
	}
	return cudabuf.MemHandle{Handle: d.Handle, Region: d.Region()}, nil
}

// PoolHandle is what cudabuf.PeerPool.Open takes. Another mechanism than CUDAPool
// is cudabuf.ErrNotShareable.
func (d *Descriptor) PoolHandle() (cudabuf.PoolHandle, error) {
	if d.Mechanism != CUDAPool {
		return cudabuf.PoolHandle{}, fmt.Errorf("%v as memory of a pool: %w", d.Mechanism, cudabuf.ErrNotShareable)
	}
	return cudabuf.PoolHandle{Pointer: d.Handle, Region: d.Region()}, nil
}

// MarshalPyArrow writes the descriptor as pyarrow.cuda.IpcMemHandle.serialize
// does, in 72 bytes, or 8 for length 0. That form has no offset: a part that does
// not begin its allocation is cudabuf.ErrNotShareable.
func (d *Descriptor) MarshalPyArrow() ([]byte, error) {
	h, err := d.MemHandle()
	if err != nil {
		return nil, err
	}
	return h.MarshalPyArrow()
}

// ParsePyArrow reads what pyarrow.cuda.IpcMemHandle.serialize wrote. The form
// tells neither the size of the allocation, which becomes the buffer's, nor GPU
// nor exporter. Anything else is cudabuf.ErrHandleForm.
func ParsePyArrow(b []byte) (Descriptor, error) {
	h, err := cudabuf.ParsePyArrow(b)
	if err != nil {
		return Descriptor{}, err
	}
	d := FromMemHandle(h, Process{})
	d.AllocationSize = h.Length
	return d, nil
}
