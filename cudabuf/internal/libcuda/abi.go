//go:build linux

package libcuda

import "unsafe"

// Structures of cuda.h that calls take by pointer, laid out as C lays them out
// on every 64-bit machine.

// location is CUmemLocation.
type location struct{ kind, id int32 }

// allocationProp is CUmemAllocationProp.
type allocationProp struct {
	kind, handleTypes int32
	location          location
	win32             uintptr
	flags             [8]byte
}

// accessDesc is CUmemAccessDesc.
type accessDesc struct {
	location location
	flags    int32
}

// poolProps is CUmemPoolProps.
type poolProps struct {
	kind, handleTypes int32
	location          location
	win32             uintptr
	maxSize           uint64
	reserved          [56]byte
}

// Values of their enumerations.
const (
	allocationPinned   = 1 // CU_MEM_ALLOCATION_TYPE_PINNED
	handlePosixFD      = 1 // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
	locationDevice     = 1 // CU_MEM_LOCATION_TYPE_DEVICE
	accessReadWrite    = 3 // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
	lazyPeerAccess     = 1 // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
	jitErrorLog        = 5 // CU_JIT_ERROR_LOG_BUFFER
	jitErrorLogSize    = 6 // CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES
	granularityMinimum = 0 // CU_MEM_ALLOC_GRANULARITY_MINIMUM
)

func on(dev int32) location { return location{locationDevice, dev} }

func handleType(shareable bool) int32 {
	if shareable {
		return handlePosixFD
	}
	return 0
}

// words are the eight words of a handle, in the order of memory.
func words(handle *[64]byte) *[8]uintptr { return (*[8]uintptr)(unsafe.Pointer(handle)) }
