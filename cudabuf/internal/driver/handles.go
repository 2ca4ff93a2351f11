package driver

import "fmt"

// Handles of objects of the driver. Zero means no object, no context, and the null
// stream.
type (
	Device    int32
	Context   uintptr
	Stream    uintptr
	Event     uintptr
	Graph     uintptr
	GraphExec uintptr
	Module    uintptr
	Function  uintptr
	MemPool   uintptr
	// Physical is a CUmemGenericAllocationHandle, which is memory without an
	// address.
	Physical uint64
)

// Identifiers that are valid in other processes.
type (
	// UUID identifies a GPU.
	UUID [16]byte
	// IPCMemHandle identifies an allocation.
	IPCMemHandle [64]byte
	// IPCEventHandle identifies an event.
	IPCEventHandle [64]byte
	// PoolPointer identifies an allocation in an exported pool.
	PoolPointer [64]byte
)

// PerThreadStream and LegacyStream are the default streams of every context. The
// null stream is LegacyStream in this module.
const (
	LegacyStream    Stream = 1 // CU_STREAM_LEGACY
	PerThreadStream Stream = 2 // CU_STREAM_PER_THREAD
)

// Attribute is a CUdevice_attribute.
type Attribute int32

// The attributes that this module uses.
const (
	MaxThreadsPerBlock           Attribute = 1
	MaxBlockDimX                 Attribute = 2
	MaxBlockDimY                 Attribute = 3
	MaxBlockDimZ                 Attribute = 4
	MaxGridDimX                  Attribute = 5
	MaxGridDimY                  Attribute = 6
	MaxGridDimZ                  Attribute = 7
	MaxSharedMemoryPerBlock      Attribute = 8
	WarpSize                     Attribute = 10
	ClockRate                    Attribute = 13 // kHz
	MultiprocessorCount          Attribute = 16
	CanMapHostMemory             Attribute = 19
	L2CacheSize                  Attribute = 38
	MaxThreadsPerMultiprocessor  Attribute = 39
	AsyncEngineCount             Attribute = 40
	UnifiedAddressing            Attribute = 41
	ComputeCapabilityMajor       Attribute = 75
	ComputeCapabilityMinor       Attribute = 76
	MaxSharedMemoryPerBlockOptin Attribute = 97
	ConcurrentManagedAccess      Attribute = 89
	VirtualMemoryManagement      Attribute = 102
	PosixFileDescriptorHandles   Attribute = 103
	MemoryPoolsSupported         Attribute = 115
	MemPoolHandleTypes           Attribute = 119
	IPCEventSupported            Attribute = 125
)

// PointerAttribute is a CUpointer_attribute.
type PointerAttribute int32

// The attributes of an address that this module uses.
const (
	PointerContext       PointerAttribute = 1
	PointerMemoryType    PointerAttribute = 2 // MemoryTypeHost or MemoryTypeDevice
	PointerDevicePointer PointerAttribute = 3
	PointerHostPointer   PointerAttribute = 4
	PointerIsManaged     PointerAttribute = 8
	PointerDeviceOrdinal PointerAttribute = 9
	PointerIsLegacyIPC   PointerAttribute = 10
	PointerIsMapped      PointerAttribute = 13
)

// Values of PointerMemoryType.
const (
	MemoryTypeHost   = 1
	MemoryTypeDevice = 2
)

// CPUDevice is the host as a location of managed memory (CU_DEVICE_CPU).
const CPUDevice Device = -1

// MemAdvice is a CUmem_advise.
type MemAdvice int32

// The advice that this module uses.
const (
	AdviseSetReadMostly        MemAdvice = 1
	AdviseUnsetReadMostly      MemAdvice = 2
	AdviseSetPreferredLocation MemAdvice = 3
)

// FunctionAttribute is a CUfunction_attribute.
type FunctionAttribute int32

// The attributes of a kernel that this module uses.
const (
	FuncMaxThreadsPerBlock    FunctionAttribute = 0
	FuncSharedBytes           FunctionAttribute = 1 // static
	FuncLocalBytes            FunctionAttribute = 3
	FuncRegisters             FunctionAttribute = 4
	FuncMaxDynamicSharedBytes FunctionAttribute = 8
)

// MemPoolAttribute is a CUmemPool_attribute.
type MemPoolAttribute int32

// The attributes of a pool that this module uses.
const (
	PoolReleaseThreshold MemPoolAttribute = 4
	PoolReservedCurrent  MemPoolAttribute = 5
	PoolReservedHigh     MemPoolAttribute = 6
	PoolUsedCurrent      MemPoolAttribute = 7
	PoolUsedHigh         MemPoolAttribute = 8
)

// CaptureMode is a CUstreamCaptureMode.
type CaptureMode int32

// CaptureThreadLocal forbids calls that invalidate a capture only on its own
// thread. CaptureRelaxed forbids none.
const (
	CaptureGlobal      CaptureMode = 0
	CaptureThreadLocal CaptureMode = 1
	CaptureRelaxed     CaptureMode = 2
)

// Flags with their values in cuda.h.
const (
	CtxSchedAuto         uint32 = 0
	CtxSchedSpin         uint32 = 1
	CtxSchedYield        uint32 = 2
	CtxSchedBlockingSync uint32 = 4

	HostAllocPortable      uint32 = 1
	HostAllocDeviceMap     uint32 = 2
	HostAllocWriteCombined uint32 = 4

	HostRegisterPortable  uint32 = 1
	HostRegisterDeviceMap uint32 = 2
	HostRegisterReadOnly  uint32 = 8

	StreamDefault     uint32 = 0
	StreamNonBlocking uint32 = 1

	EventBlockingSync  uint32 = 1
	EventDisableTiming uint32 = 2
	EventInterprocess  uint32 = 4
)

// String returns the UUID in the format of nvidia-smi without "GPU-": five
// groups of hexadecimal digits.
func (u UUID) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
