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

// Descriptor names a buffer of a process for another process: bytes [Offset,
// Offset+Length) of an allocation.
type Descriptor struct {
	Mechanism      Mechanism
	AllocationSize int64
	Offset, Length int64
	Device         cudabuf.UUID // zero for memory of the host
	Exporter       Process
	Sequence       uint64   // distinguishes descriptors of one exporter
	Handle         [64]byte // opens the allocation; zero if a file alone does
	Pool           uint64   // for CUDAPool: the exporter's number of the pool, from 1
	Event          *cudabuf.EventHandle
}

// Validate returns an error that wraps cudabuf.ErrMalformedHandle if the fields
// contradict each other.
func (d *Descriptor) Validate() error {
	if !d.Mechanism.Valid() {
		return fmt.Errorf("%w: %v", cudabuf.ErrMalformedHandle, d.Mechanism)
	}
	if err := arrowbuf.CheckRange(d.Offset, d.Length, d.AllocationSize); err != nil {
		return fmt.Errorf("%w: %w", cudabuf.ErrMalformedHandle, err)
	}
	if !d.Mechanism.hasHandle() && d.Handle != [64]byte{} {
		return fmt.Errorf("%w: mechanism %v: got a handle, want none", cudabuf.ErrMalformedHandle, d.Mechanism)
	}
	if (d.Mechanism == CUDAPool) != (d.Pool != 0) {
		return fmt.Errorf("%w: mechanism %v with pool %d", cudabuf.ErrMalformedHandle, d.Mechanism, d.Pool)
	}
	return nil
}

// Part returns the descriptor of a part of the buffer. The error wraps
// arrowbuf.ErrOutOfRange.
func (d *Descriptor) Part(offset, length int64) (*Descriptor, error) {
	if err := arrowbuf.CheckRange(offset, length, d.Length); err != nil {
		return nil, err
	}
	part := *d
	part.Offset, part.Length = d.Offset+offset, length
	return &part, nil
}

// Region returns the part of the allocation in the type of package cudabuf.
func (d *Descriptor) Region() cudabuf.Region {
	return cudabuf.Region{Device: d.Device, AllocationSize: d.AllocationSize, Offset: d.Offset, Length: d.Length}
}

// FromMemHandle returns the descriptor of a handle from cudabuf.Buffer.ExportIPC.
func FromMemHandle(h cudabuf.MemHandle, exporter Process) Descriptor {
	return Descriptor{
		Mechanism: CUDAIPC, AllocationSize: h.AllocationSize, Offset: h.Offset, Length: h.Length,
		Device: h.Device, Exporter: exporter, Handle: h.Handle,
	}
}

// MemHandle returns the handle for cudabuf.Device.OpenIPC. The error wraps
// cudabuf.ErrNotShareable if the mechanism is not CUDAIPC.
func (d *Descriptor) MemHandle() (cudabuf.MemHandle, error) {
	if d.Mechanism != CUDAIPC {
		return cudabuf.MemHandle{}, fmt.Errorf("handle.Descriptor.MemHandle: mechanism: got %v, want cuda-ipc: %w", d.Mechanism, cudabuf.ErrNotShareable)
	}
	return cudabuf.MemHandle{Handle: d.Handle, Region: d.Region()}, nil
}

// PoolHandle returns the handle for cudabuf.PeerPool.Open. The error wraps
// cudabuf.ErrNotShareable if the mechanism is not CUDAPool.
func (d *Descriptor) PoolHandle() (cudabuf.PoolHandle, error) {
	if d.Mechanism != CUDAPool {
		return cudabuf.PoolHandle{}, fmt.Errorf("handle.Descriptor.PoolHandle: mechanism: got %v, want cuda-pool: %w", d.Mechanism, cudabuf.ErrNotShareable)
	}
	return cudabuf.PoolHandle{Pointer: d.Handle, Region: d.Region()}, nil
}

// MarshalPyArrow returns the form of pyarrow.cuda.IpcMemHandle.serialize: 72
// bytes, or 8 if the length is 0. That form has no offset. The error wraps
// cudabuf.ErrNotShareable if the buffer does not start at its allocation's start.
func (d *Descriptor) MarshalPyArrow() ([]byte, error) {
	h, err := d.MemHandle()
	if err != nil {
		return nil, err
	}
	return h.MarshalPyArrow()
}

// ParsePyArrow parses the form of pyarrow.cuda.IpcMemHandle.serialize. The form
// contains neither GPU, exporter nor allocation size; AllocationSize is set to
// the length. The error wraps cudabuf.ErrMalformedHandle.
func ParsePyArrow(b []byte) (Descriptor, error) {
	h, err := cudabuf.ParsePyArrow(b)
	if err != nil {
		return Descriptor{}, err
	}
	d := FromMemHandle(h, Process{})
	d.AllocationSize = h.Length
	return d, nil
}

// Mechanism is a way to open memory of one process in another. docs/sharing.md
// defines the numbers.
type Mechanism uint8

const (
	// Local is memory of the same process, which is used directly.
	Local Mechanism = 1
	// CUDAIPC is a handle of cuIpcGetMemHandle. Another process of the same PID
	// namespace can open it.
	CUDAIPC Mechanism = 2
	// CUDAFD is a file descriptor of virtual memory (cuMemCreate,
	// cuMemExportToShareableHandle). Processes of all PID namespaces can open it.
	CUDAFD Mechanism = 3
	// Memory is a file descriptor of host memory (memfd_create).
	Memory Mechanism = 4
	// CUDAPool is memory of a pool (cuMemPoolExportPointer), with a file descriptor of
	// the pool (cuMemPoolExportToShareableHandle). The descriptor opens the whole
	// pool, in all PID namespaces.
	CUDAPool Mechanism = 5
)

var mechanismNames = [...]string{Local: "local", CUDAIPC: "cuda-ipc", CUDAFD: "cuda-fd", Memory: "memory", CUDAPool: "cuda-pool"}

// Valid reports whether m is a known mechanism.
func (m Mechanism) Valid() bool { return m >= Local && m <= CUDAPool }

// String returns the name in docs/sharing.md.
func (m Mechanism) String() string {
	if m.Valid() {
		return mechanismNames[m]
	}
	return fmt.Sprintf("mechanism(%d)", uint8(m))
}

// OnGPU reports whether the memory is always on a GPU. Local memory may be, too.
func (m Mechanism) OnGPU() bool { return m == CUDAIPC || m == CUDAFD || m == CUDAPool }

// HasFile reports whether a file descriptor is sent beside the Descriptor.
func (m Mechanism) HasFile() bool { return m == CUDAFD || m == Memory || m == CUDAPool }

// hasHandle reports whether Descriptor.Handle is used.
func (m Mechanism) hasHandle() bool { return m == Local || m == CUDAIPC || m == CUDAPool }

// Mechanisms lists mechanisms in order of preference.
type Mechanisms []Mechanism

// String returns the names, separated by commas.
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
	flagEvent = 1 // a flag
)

var (
	_ encoding.BinaryMarshaler   = (*Descriptor)(nil)
	_ encoding.BinaryUnmarshaler = (*Descriptor)(nil)
)

// MarshalBinary returns the binary form, of at most 224 bytes.
func (d *Descriptor) MarshalBinary() ([]byte, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	var flags byte
	if d.Event != nil {
		flags = flagEvent
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

// UnmarshalBinary parses the binary form. The error wraps cudabuf.ErrMalformedHandle;
// then d is unchanged.
func (d *Descriptor) UnmarshalBinary(b []byte) error {
	if len(b) < fixedSize {
		return fmt.Errorf("%w: got %d bytes, want at least %d", cudabuf.ErrMalformedHandle, len(b), fixedSize)
	}
	if b[0] != version {
		return fmt.Errorf("%w: version: got %d, want %d", cudabuf.ErrMalformedHandle, b[0], version)
	}
	read := Descriptor{Mechanism: Mechanism(b[1])}
	if !read.Mechanism.Valid() {
		return fmt.Errorf("%w: %v", cudabuf.ErrMalformedHandle, read.Mechanism)
	}
	if b[2] > flagEvent || b[3] != 0 {
		return fmt.Errorf("%w: got flags %#x and reserved byte %#x", cudabuf.ErrMalformedHandle, b[2], b[3])
	}
	hasEvent := b[2] == flagEvent
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
		return fmt.Errorf("%w: got %d bytes, want %d for mechanism %v", cudabuf.ErrMalformedHandle, len(b), want, read.Mechanism)
	}
	read.Exporter.PID = binary.LittleEndian.Uint32(b[4:])
	for i, n := range []*int64{&read.AllocationSize, &read.Offset, &read.Length} {
		u := binary.LittleEndian.Uint64(b[8+8*i:])
		if u > math.MaxInt64 {
			return fmt.Errorf("%w: a size of %d bytes is too large", cudabuf.ErrMalformedHandle, u)
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
