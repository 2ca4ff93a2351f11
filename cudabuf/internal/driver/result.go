package driver

import (
	"errors"
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Sentinel errors, in addition to those of arrowbuf.
var (
	ErrNoDriver   = errors.New("no CUDA driver")
	ErrNoDevice   = errors.New("no such CUDA device")
	ErrDeviceLost = errors.New("CUDA device lost")
	ErrClosed     = errors.New("CUDA driver closed")
)

// Result is a CUresult, which every call of the driver returns.
type Result int32

// The results that this module uses. Name knows all others too.
const (
	Success           Result = 0
	InvalidValue      Result = 1
	OutOfMemory       Result = 2
	NotInitialized    Result = 3
	Deinitialized     Result = 4
	NoDevice          Result = 100
	InvalidDevice     Result = 101
	InvalidImage      Result = 200
	InvalidContext    Result = 201
	ECCUncorrectable  Result = 214
	OperatingSystem   Result = 304
	InvalidHandle     Result = 400
	NotFound          Result = 500
	NotReady          Result = 600
	IllegalAddress    Result = 700
	MisalignedAddress Result = 716
	LaunchFailed      Result = 719
	NotSupported      Result = 801
	Unknown           Result = 999
)

// Name returns the name in cuda.h, such as CUDA_ERROR_OUT_OF_MEMORY. For an
// unknown code it returns CUDA_ERROR_ and the number.
func (r Result) Name() string {
	if n, ok := resultNames[r]; ok {
		return n.name
	}
	return fmt.Sprintf("CUDA_ERROR_%d", int32(r))
}

// String returns the name, the code and a short description.
func (r Result) String() string {
	text := "a code newer than this program"
	if n, ok := resultNames[r]; ok {
		text = n.text
	}
	return fmt.Sprintf("%s (%d): %s", r.Name(), int32(r), text)
}

// Sticky reports whether the result means that the context is lost. CUDA then
// returns the same code from every later call of the process.
func (r Result) Sticky() bool {
	switch r {
	case 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 911:
		return true
	}
	return false
}

// sentinel returns the sentinel error that the result matches, or nil.
func (r Result) sentinel() error {
	switch {
	case r == OutOfMemory:
		return arrowbuf.ErrOutOfMemory
	case r == Deinitialized:
		return ErrClosed
	case r == NoDevice, r == InvalidDevice:
		return ErrNoDevice
	case r.Sticky():
		return ErrDeviceLost
	}
	return nil
}

// Error is a failed driver call.
type Error struct {
	// Call is the driver function, such as "cuMemAlloc".
	Call string
	// Code is what it returned.
	Code Result
	// Detail describes the cause. It may be empty.
	Detail string
}

func (e *Error) Error() string {
	s := e.Call + ": " + e.Code.String()
	if e.Detail != "" {
		s += " (" + e.Detail + ")"
	}
	return s
}

// Unwrap makes errors.Is match arrowbuf.ErrOutOfMemory, ErrDeviceLost,
// ErrNoDevice and ErrClosed.
func (e *Error) Unwrap() error { return e.Code.sentinel() }

// As implements the interface of errors.As for cudabuf's Error.
func (e *Error) As(target any) bool { return StoreError != nil && StoreError(e, target) }

// Package cudabuf sets these functions when the program starts. They make values of its
// types in packages that it imports, and in cudatest without an exported function.
var (
	// StoreError stores e in target, if that points to a pointer to cudabuf's Error,
	// and reports whether it does.
	StoreError func(e *Error, target any) bool
	// NewDriver returns a *cudabuf.Driver on an implementation of this interface. With
	// stacks, the built-in pools of its devices record the stack of each allocation.
	NewDriver func(api API, stacks bool) (any, error)
)

// ResultError returns nil for Success, and an *Error otherwise.
func ResultError(call string, r Result) error {
	if r == Success {
		return nil
	}
	return &Error{Call: call, Code: r}
}

// resultNames holds every CUresult of cuda.h of CUDA 13.5, because errors must
// have a name without a driver.
var resultNames = map[Result]struct{ name, text string }{
	0:   {"CUDA_SUCCESS", "no error"},
	1:   {"CUDA_ERROR_INVALID_VALUE", "invalid argument"},
	2:   {"CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
	3:   {"CUDA_ERROR_NOT_INITIALIZED", "driver not initialized"},
	4:   {"CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
	5:   {"CUDA_ERROR_PROFILER_DISABLED", "profiler disabled"},
	6:   {"CUDA_ERROR_PROFILER_NOT_INITIALIZED", "profiler not initialized"},
	7:   {"CUDA_ERROR_PROFILER_ALREADY_STARTED", "profiler already started"},
	8:   {"CUDA_ERROR_PROFILER_ALREADY_STOPPED", "profiler already stopped"},
	34:  {"CUDA_ERROR_STUB_LIBRARY", "the library is a stub, not a driver"},
	36:  {"CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER", "the call needs a newer driver"},
	46:  {"CUDA_ERROR_DEVICE_UNAVAILABLE", "device busy or unavailable"},
	47:  {"CUDA_ERROR_MULTICAST_RESOURCE_FULL", "no multicast resources left"},
	100: {"CUDA_ERROR_NO_DEVICE", "no CUDA-capable device detected"},
	101: {"CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
	102: {"CUDA_ERROR_DEVICE_NOT_LICENSED", "device has no Grid license"},
	200: {"CUDA_ERROR_INVALID_IMAGE", "kernel image is invalid"},
	201: {"CUDA_ERROR_INVALID_CONTEXT", "no valid context on this thread"},
	202: {"CUDA_ERROR_CONTEXT_ALREADY_CURRENT", "context already current"},
	205: {"CUDA_ERROR_MAP_FAILED", "mapping failed"},
	206: {"CUDA_ERROR_UNMAP_FAILED", "unmapping failed"},
	207: {"CUDA_ERROR_ARRAY_IS_MAPPED", "array is mapped"},
	208: {"CUDA_ERROR_ALREADY_MAPPED", "resource already mapped"},
	209: {"CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image for this device"},
	210: {"CUDA_ERROR_ALREADY_ACQUIRED", "resource already acquired"},
	211: {"CUDA_ERROR_NOT_MAPPED", "resource not mapped"},
	212: {"CUDA_ERROR_NOT_MAPPED_AS_ARRAY", "resource not mapped as array"},
	213: {"CUDA_ERROR_NOT_MAPPED_AS_POINTER", "resource not mapped as pointer"},
	214: {"CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error"},
	215: {"CUDA_ERROR_UNSUPPORTED_LIMIT", "limit not supported by this device"},
	216: {"CUDA_ERROR_CONTEXT_ALREADY_IN_USE", "context already in use by a thread"},
	217: {"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "peer access not supported between these devices"},
	218: {"CUDA_ERROR_INVALID_PTX", "PTX compilation failed"},
	219: {"CUDA_ERROR_INVALID_GRAPHICS_CONTEXT", "invalid OpenGL or DirectX context"},
	220: {"CUDA_ERROR_NVLINK_UNCORRECTABLE", "uncorrectable NVLink error"},
	221: {"CUDA_ERROR_JIT_COMPILER_NOT_FOUND", "PTX compiler library not found"},
	222: {"CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "PTX from an unsupported toolchain"},
	223: {"CUDA_ERROR_JIT_COMPILATION_DISABLED", "PTX compilation is disabled"},
	224: {"CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY", "execution affinity not supported"},
	225: {"CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC", "PTX calls cudaDeviceSynchronize"},
	226: {"CUDA_ERROR_CONTAINED", "exception contained on the device"},
	227: {"CUDA_ERROR_INSUFFICIENT_LOADER_VERSION", "library loader is too old"},
	300: {"CUDA_ERROR_INVALID_SOURCE", "invalid device kernel source"},
	301: {"CUDA_ERROR_FILE_NOT_FOUND", "file not found"},
	302: {"CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND", "shared object symbol not found"},
	303: {"CUDA_ERROR_SHARED_OBJECT_INIT_FAILED", "shared object initialization failed"},
	304: {"CUDA_ERROR_OPERATING_SYSTEM", "operating system call failed"},
	400: {"CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
	401: {"CUDA_ERROR_ILLEGAL_STATE", "resource in the wrong state"},
	402: {"CUDA_ERROR_LOSSY_QUERY", "query would lose information"},
	500: {"CUDA_ERROR_NOT_FOUND", "named symbol not found"},
	600: {"CUDA_ERROR_NOT_READY", "work not finished yet"},
	700: {"CUDA_ERROR_ILLEGAL_ADDRESS", "illegal memory access"},
	701: {"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
	702: {"CUDA_ERROR_LAUNCH_TIMEOUT", "kernel ran too long"},
	703: {"CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING", "incompatible texturing mode"},
	704: {"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access already enabled"},
	705: {"CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access not enabled"},
	708: {"CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE", "primary context already active"},
	709: {"CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
	710: {"CUDA_ERROR_ASSERT", "device-side assert"},
	711: {"CUDA_ERROR_TOO_MANY_PEERS", "peer mapping resources exhausted"},
	712: {"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "host memory already registered"},
	713: {"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "host memory not registered"},
	714: {"CUDA_ERROR_HARDWARE_STACK_ERROR", "hardware stack error"},
	715: {"CUDA_ERROR_ILLEGAL_INSTRUCTION", "illegal instruction"},
	716: {"CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
	717: {"CUDA_ERROR_INVALID_ADDRESS_SPACE", "operation not supported in this address space"},
	718: {"CUDA_ERROR_INVALID_PC", "invalid program counter"},
	719: {"CUDA_ERROR_LAUNCH_FAILED", "launch failed"},
	720: {"CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks in cooperative launch"},
	721: {"CUDA_ERROR_TENSOR_MEMORY_LEAK", "kernel left tensor memory allocated"},
	800: {"CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
	801: {"CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
	802: {"CUDA_ERROR_SYSTEM_NOT_READY", "system not ready"},
	803: {"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "driver and library versions differ"},
	804: {"CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "forward compatibility not supported on this hardware"},
	805: {"CUDA_ERROR_MPS_CONNECTION_FAILED", "cannot connect to MPS"},
	806: {"CUDA_ERROR_MPS_RPC_FAILURE", "MPS remote call failed"},
	807: {"CUDA_ERROR_MPS_SERVER_NOT_READY", "MPS server not ready"},
	808: {"CUDA_ERROR_MPS_MAX_CLIENTS_REACHED", "MPS client limit reached"},
	809: {"CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED", "MPS connection limit reached"},
	810: {"CUDA_ERROR_MPS_CLIENT_TERMINATED", "MPS client terminated by the server"},
	811: {"CUDA_ERROR_CDP_NOT_SUPPORTED", "dynamic parallelism not supported here"},
	812: {"CUDA_ERROR_CDP_VERSION_MISMATCH", "dynamic parallelism versions differ"},
	900: {"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "not permitted while the stream is capturing"},
	901: {"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "stream capture invalidated"},
	902: {"CUDA_ERROR_STREAM_CAPTURE_MERGE", "would merge two captures"},
	903: {"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture not started on this stream"},
	904: {"CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capture has an unjoined fork"},
	905: {"CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency crosses the capture's boundary"},
	906: {"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "legacy stream depends on a capturing stream"},
	907: {"CUDA_ERROR_CAPTURED_EVENT", "event last recorded in a capturing stream"},
	908: {"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "capture ended on the wrong thread"},
	909: {"CUDA_ERROR_TIMEOUT", "timeout"},
	910: {"CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", "graph update violates its constraints"},
	911: {"CUDA_ERROR_EXTERNAL_DEVICE", "external device failed"},
	912: {"CUDA_ERROR_INVALID_CLUSTER_SIZE", "invalid cluster size"},
	913: {"CUDA_ERROR_FUNCTION_NOT_LOADED", "function not loaded"},
	914: {"CUDA_ERROR_INVALID_RESOURCE_TYPE", "invalid resource type"},
	915: {"CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION", "invalid resource configuration"},
	916: {"CUDA_ERROR_KEY_ROTATION", "key rotation failed"},
	917: {"CUDA_ERROR_STREAM_DETACHED", "stream is detached"},
	918: {"CUDA_ERROR_GRAPH_RECAPTURE_FAILURE", "graph recapture failed"},
	919: {"CUDA_ERROR_FABRIC_NOT_READY", "fabric not ready"},
	999: {"CUDA_ERROR_UNKNOWN", "unknown error"},
}
