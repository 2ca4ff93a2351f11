// Package driver says what cudabuf needs of a CUDA driver: one method a call,
// in Go's types. Packages purego and soft are the drivers.
//
// A method does what the call of its name does and no more: it locks no thread
// and sets no context. It answers nil or an *[Error]. Hosts' memory is passed
// as slices; the caller keeps an asynchronous call's slice alive until the
// stream is done.
package driver

// Handles of the driver's objects. Zero is none: no context, the null stream.
type (
	Device   int32
	Context  uintptr
	Stream   uintptr
	Module   uintptr
	Function uintptr
)

// UUID tells a GPU apart from every other one.
type UUID [16]byte

// Attribute is a CUdevice_attribute.
type Attribute int32

// The attributes that this module asks for.
const (
	MultiprocessorCount    Attribute = 16
	ComputeCapabilityMajor Attribute = 75
	ComputeCapabilityMinor Attribute = 76
)

// Flags of MemHostAlloc and StreamCreate.
const (
	HostAllocPortable uint32 = 1 // CU_MEMHOSTALLOC_PORTABLE
	StreamNonBlocking uint32 = 1 // CU_STREAM_NON_BLOCKING
)

// API is a CUDA driver. It may be used from any goroutine; a call that CUDA
// runs in the current context needs one on the calling thread (MemAlloc down).
type API interface {
	Init() error
	DriverGetVersion() (int, error) // 12080 is 12.8
	DeviceGetCount() (int, error)
	DeviceGet(ordinal int) (Device, error)
	DeviceGetName(Device) (string, error)
	DeviceGetUUID(Device) (UUID, error)
	DeviceGetAttribute(Attribute, Device) (int, error)
	DeviceTotalMem(Device) (int64, error)
	DevicePrimaryCtxRetain(Device) (Context, error)
	DevicePrimaryCtxRelease(Device) error
	CtxSetCurrent(Context) error

	CtxSynchronize() error
	MemGetInfo() (free, total int64, err error)
	MemAlloc(n int64) (uintptr, error)
	MemFree(address uintptr) error
	MemHostAlloc(n int64, flags uint32) (uintptr, error)
	MemFreeHost(address uintptr) error

	StreamCreate(flags uint32) (Stream, error)
	StreamDestroy(Stream) error
	StreamSynchronize(Stream) error

	MemcpyHtoDAsync(dst uintptr, src []byte, s Stream) error
	MemcpyDtoHAsync(dst []byte, src uintptr, s Stream) error
	MemcpyDtoDAsync(dst, src uintptr, n int64, s Stream) error
	// MemcpyPeerAsync may answer NotSupported.
	MemcpyPeerAsync(dst uintptr, dstContext Context, src uintptr, srcContext Context, n int64, s Stream) error
	MemsetD8Async(dst uintptr, value byte, n int64, s Stream) error

	// ModuleLoadData loads PTX, a cubin or a fat binary. The soft driver,
	// which cannot run it, runs the twins in its place; the others ignore
	// them.
	ModuleLoadData(image []byte, twins map[string]Twin) (Module, error)
	ModuleUnload(Module) error
	ModuleGetFunction(Module, string) (Function, error)
	LaunchKernel(f Function, grid, block Dim3, sharedBytes uint32, s Stream, args []Arg) error

	// Close gives back what the driver itself holds, and reports what was
	// allocated from it and never freed where it can tell.
	Close() error
}
