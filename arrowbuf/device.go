package arrowbuf

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// DeviceType says what kind of place a device is. The numbers are those of
// the Arrow C Device Data Interface (ARROW_DEVICE_CPU and so on), which are
// also DLPack's.
type DeviceType int32

// The device types that this module knows. Numbers that it does not know stay
// legal values: they print as "device(n)".
const (
	DeviceCPU      DeviceType = 1
	DeviceCUDA     DeviceType = 2
	DeviceCUDAHost DeviceType = 3
	// DeviceCUDAManaged is memory that moves between host and GPUs by itself. No
	// device here allocates it; a GPU uses that of other libraries.
	DeviceCUDAManaged DeviceType = 13
)

// String returns the lower-case name of the type, as it is written in device
// names such as "cuda:0".
func (t DeviceType) String() string {
	switch t {
	case DeviceCPU:
		return "cpu"
	case DeviceCUDA:
		return "cuda"
	case DeviceCUDAHost:
		return "cuda_host"
	case DeviceCUDAManaged:
		return "cuda_managed"
	default:
		return fmt.Sprintf("device(%d)", int32(t))
	}
}

// Device is a place where buffers live. Type and ID are those of the Arrow C
// Device Data Interface. A Device may be used from any goroutine.
type Device interface {
	Type() DeviceType
	// ID tells devices of one type apart: the ordinal of a GPU, -1 for the
	// CPU.
	ID() int64
	// String is the name that users type: "cpu", "cuda:0".
	String() string
	// Alloc returns a new buffer of n bytes, n >= 0, whose contents are
	// undefined. The caller owns one reference. A device without n free bytes
	// answers an error that is ErrOutOfMemory.
	Alloc(n int64) (Buffer, error)
	// Synchronize returns when all work given to the device is done.
	Synchronize() error
	// HostAllocator gives host memory that copies to and from this device
	// fastest: pinned memory for a GPU, ordinary memory for the CPU.
	HostAllocator() memory.Allocator
}

// Stream is a queue of work on a device: what it is given runs in that order, and
// may run after the call returned. A *cudabuf.Stream is one.
type Stream interface {
	// Alloc returns a buffer of the stream's device, n bytes of undefined contents,
	// which the stream is the first to use. The caller owns one reference to it.
	Alloc(n int64) (Buffer, error)
	// Copy copies all of src, which may live on any device that the stream's
	// reaches, to the bytes of dst, a buffer of the stream's device, that start at
	// pos. Memory of the host that is not pinned has been read when Copy returns;
	// whatever else src is must stay as it is until the copy is done.
	Copy(dst Buffer, pos int64, src Buffer) error
	// After runs f once, when all that the stream has been given so far is done; at
	// the latest, where it failed, when the stream's device is closed. f may use
	// devices.
	After(f func())
}
