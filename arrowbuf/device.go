package arrowbuf

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// DeviceType is the kind of a device. The numbers are those of the Arrow C Device
// Data Interface (ARROW_DEVICE_CPU and so on), which equal DLPack's.
type DeviceType int32

// The device types that this module knows. Other numbers are legal values, and print
// as "device(n)".
const (
	DeviceCPU      DeviceType = 1
	DeviceCUDA     DeviceType = 2
	DeviceCUDAHost DeviceType = 3
	// DeviceCUDAManaged is memory that migrates between host and GPUs
	// (cuMemAllocManaged), such as that of cudabuf's ManagedDevice.
	DeviceCUDAManaged DeviceType = 13
)

// String returns the lower-case name of the type, as in device names such as
// "cuda:0".
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

// Device is a memory space in which buffers are allocated: the host's memory or a
// GPU's. All methods may be called concurrently. Two Devices are the same device if
// and only if they are equal (==).
type Device interface {
	// Type returns the kind of the device. Type and ID are the device_type and
	// device_id of the Arrow C Device Data Interface.
	Type() DeviceType
	// ID distinguishes devices of one type: the ordinal of a GPU, -1 for the CPU.
	ID() int64
	// String returns the name that users type, such as "cpu" or "cuda:0".
	String() string
	// Alloc returns a new buffer of n bytes, with undefined contents, aligned to at
	// least 64 bytes. The caller owns one reference and must release it. Alloc
	// returns an error wrapping ErrOutOfRange if n is negative, and ErrOutOfMemory
	// if the device lacks n free bytes.
	Alloc(n int64) (Buffer, error)
	// Synchronize waits until the device has finished all work submitted before the
	// call. It returns an error if work on the device has failed.
	Synchronize() error
	// HostAllocator returns an allocator of the host memory that is fastest to copy
	// to and from this device: pinned memory for a GPU, ordinary memory for the CPU.
	// Allocate panics with an error if no memory is left.
	HostAllocator() memory.Allocator
}

// As returns v if it is a T, and otherwise the first T among the devices or buffers
// that v wraps. It returns false if no T is found. T is the type of an implementation
// or an interface. A wrapper has a method Unwrap that returns the Device or the Buffer
// that it wraps. Code that needs an implementation, such as kernels that run on a
// *cudabuf.Device, calls As instead of a type assertion, so that it accepts wrappers.
func As[T any](v any) (T, bool) {
	for {
		if found, ok := v.(T); ok {
			return found, true
		}
		switch wrapper := v.(type) {
		case interface{ Unwrap() Device }:
			v = wrapper.Unwrap()
		case interface{ Unwrap() Buffer }:
			v = wrapper.Unwrap()
		default:
			var none T
			return none, false
		}
	}
}

// Stream is a queue of work on one device. The work runs in the order of submission,
// possibly after the submitting call has returned. *cudabuf.Stream implements it.
type Stream interface {
	// Alloc returns a buffer of n bytes on the stream's device, with undefined
	// contents. The memory is ready for work that the stream runs later. The caller
	// owns one reference and must release it.
	Alloc(n int64) (Buffer, error)
	// Copy submits a copy of all of src to the bytes of dst that start at pos. dst
	// is a buffer of the stream's device; src may be on any device that it can
	// access. If src is host memory that is not pinned, it has been read when Copy
	// returns. Otherwise src must not change until the stream has run the copy.
	Copy(dst Buffer, pos int64, src Buffer) error
	// After calls f once, after all work submitted so far has run, usually in
	// another goroutine. If that work fails, f is called at the latest when the
	// device is closed. f may call methods of devices.
	After(f func())
}
