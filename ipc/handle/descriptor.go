package handle

import (
	"encoding"
	"encoding/binary"
	"fmt"
	"math"
	"strings"

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

// Mechanism is a way in which memory of one process is opened in another. The
// numbers are those of docs/sharing.md.
type Mechanism uint8

const (
	// Local is memory of the process itself, which needs no opening.
	Local Mechanism = 1
	// CUDAIPC is a handle of cuIpcGetMemHandle. CUDA opens it in another process
	// of the same PID namespace.
	CUDAIPC Mechanism = 2
	// CUDAFD is a file descriptor of virtual memory (cuMemCreate,
	// cuMemExportToShareableHandle). It opens in every PID namespace.
	CUDAFD Mechanism = 3
	// Memory is memory of the host, opened by a file descriptor (memfd_create).
	Memory Mechanism = 4
	// CUDAPool is memory of a pool (cuMemPoolExportPointer), which is opened by a
	// file descriptor of the pool (cuMemPoolExportToShareableHandle). That opens
	// all of the pool, in every PID namespace.
	CUDAPool Mechanism = 5
)

var mechanismNames = [...]string{Local: "local", CUDAIPC: "cuda-ipc", CUDAFD: "cuda-fd", Memory: "memory", CUDAPool: "cuda-pool"}

// Valid tells whether there is such a mechanism.
func (m Mechanism) Valid() bool { return m >= Local && m <= CUDAPool }

// String is the name in docs/sharing.md.
func (m Mechanism) String() string {
	if m.Valid() {
		return mechanismNames[m]
	}
	return fmt.Sprintf("mechanism(%d)", uint8(m))
}

// OnGPU tells whether the memory is a GPU's. That of Local may be.
func (m Mechanism) OnGPU() bool { return m == CUDAIPC || m == CUDAFD || m == CUDAPool }

// HasFile tells whether a file descriptor goes with the descriptor.
func (m Mechanism) HasFile() bool { return m == CUDAFD || m == Memory || m == CUDAPool }

// hasHandle tells whether the 64 bytes of Descriptor.Handle are there.
func (m Mechanism) hasHandle() bool { return m == Local || m == CUDAIPC || m == CUDAPool }

// Mechanisms are ways in the order of preference.
type Mechanisms []Mechanism

// String lists the names.
func (all Mechanisms) String() string {
	names := make([]string, len(all))
	for i, m := range all {
		names[i] = m.String()
	}
	return strings.Join(names, ", ")
}

const (
	version   = 1
	fixedSize = 88
	withEvent = 1 // a flag
)

var (
	_ encoding.BinaryMarshaler   = (*Descriptor)(nil)
	_ encoding.BinaryUnmarshaler = (*Descriptor)(nil)
)

// MarshalBinary writes the descriptor in at most 224 bytes.
func (d *Descriptor) MarshalBinary() ([]byte, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	var flags byte
	if d.Event != nil {
		flags = withEvent
	}
	b := append(make([]byte, 0, fixedSize+2*64+8), version, byte(d.Mechanism), flags, 0)
	b = binary.LittleEndian.AppendUint32(b, d.Exporter.PID)
	for _, n := range []int64{d.AllocationSize, d.Offset, d.Length} {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	b = append(b, d.Device[:]...)
	b = append(b, d.Exporter.Machine[:]...)
	for _, n := range []uint64{d.Exporter.Namespace, d.Exporter.Start, d.Sequence} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	if d.Mechanism.hasHandle() {
		b = append(b, d.Handle[:]...)
	}
	if d.Mechanism == CUDAPool {
		b = binary.LittleEndian.AppendUint64(b, d.Pool)
	}
	if d.Event != nil {
		b = append(b, d.Event[:]...)
	}
	return b, nil
}

// UnmarshalBinary reads what MarshalBinary wrote. Anything else is cudabuf.ErrHandleForm, and
// leaves the descriptor as it was.
func (d *Descriptor) UnmarshalBinary(b []byte) error {
	if len(b) < fixedSize {
		return fmt.Errorf("%w: %d bytes, at least %d expected", cudabuf.ErrHandleForm, len(b), fixedSize)
	}
	if b[0] != version {
		return fmt.Errorf("%w: version %d, not %d", cudabuf.ErrHandleForm, b[0], version)
	}
	read := Descriptor{Mechanism: Mechanism(b[1])}
	if !read.Mechanism.Valid() {
		return fmt.Errorf("%w: %v", cudabuf.ErrHandleForm, read.Mechanism)
	}
	if b[2] > withEvent || b[3] != 0 {
		return fmt.Errorf("%w: flags %#x, reserved byte %#x", cudabuf.ErrHandleForm, b[2], b[3])
	}
	hasEvent := b[2] == withEvent
	want := fixedSize
	if read.Mechanism.hasHandle() {
		want += len(read.Handle)
	}
	if read.Mechanism == CUDAPool {
		want += 8
	}
	if hasEvent {
		want += len(cudabuf.EventHandle{})
	}
	if len(b) != want {
		return fmt.Errorf("%w: %d bytes, %d expected of %v", cudabuf.ErrHandleForm, len(b), want, read.Mechanism)
	}
	read.Exporter.PID = binary.LittleEndian.Uint32(b[4:])
	for i, n := range []*int64{&read.AllocationSize, &read.Offset, &read.Length} {
		u := binary.LittleEndian.Uint64(b[8+8*i:])
		if u > math.MaxInt64 {
			return fmt.Errorf("%w: a size of %d bytes", cudabuf.ErrHandleForm, u)
		}
		*n = int64(u)
	}
	copy(read.Device[:], b[32:])
	copy(read.Exporter.Machine[:], b[48:])
	for i, n := range []*uint64{&read.Exporter.Namespace, &read.Exporter.Start, &read.Sequence} {
		*n = binary.LittleEndian.Uint64(b[64+8*i:])
	}
	rest := b[fixedSize:]
	if read.Mechanism.hasHandle() {
		rest = rest[copy(read.Handle[:], rest):]
	}
	if read.Mechanism == CUDAPool {
		read.Pool, rest = binary.LittleEndian.Uint64(rest), rest[8:]
	}
	if hasEvent {
		read.Event = new(cudabuf.EventHandle)
		copy(read.Event[:], rest)
	}
	if err := read.Validate(); err != nil {
		return err
	}
	*d = read
	return nil
}
