//go:build linux && gorgonia

package gorgonia

//#include <cuda.h>
import "C"

import "github.com/quiver-gpu/quiver/cudabuf/internal/driver"

// same has one element: it is indexed by how far a number of package driver is
// from that of cuda.h. One that differs does not compile.
type same [1]struct{}

var (
	_ = same{}[driver.MaxThreadsPerBlock-C.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK]
	_ = same{}[driver.MaxBlockDimX-C.CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X]
	_ = same{}[driver.MaxBlockDimY-C.CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y]
	_ = same{}[driver.MaxBlockDimZ-C.CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z]
	_ = same{}[driver.MaxGridDimX-C.CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X]
	_ = same{}[driver.MaxGridDimY-C.CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y]
	_ = same{}[driver.MaxGridDimZ-C.CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z]
	_ = same{}[driver.MaxSharedMemoryPerBlock-C.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK]
	_ = same{}[driver.WarpSize-C.CU_DEVICE_ATTRIBUTE_WARP_SIZE]
	_ = same{}[driver.ClockRate-C.CU_DEVICE_ATTRIBUTE_CLOCK_RATE]
	_ = same{}[driver.MultiprocessorCount-C.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT]
	_ = same{}[driver.CanMapHostMemory-C.CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY]
	_ = same{}[driver.L2CacheSize-C.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE]
	_ = same{}[driver.MaxThreadsPerMultiprocessor-C.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR]
	_ = same{}[driver.AsyncEngineCount-C.CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT]
	_ = same{}[driver.UnifiedAddressing-C.CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING]
	_ = same{}[driver.ComputeCapabilityMajor-C.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR]
	_ = same{}[driver.ComputeCapabilityMinor-C.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR]
	_ = same{}[driver.MaxSharedMemoryPerBlockOptin-C.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN]
	_ = same{}[driver.VirtualMemoryManagement-C.CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED]
	_ = same{}[driver.PosixFileDescriptorHandles-C.CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED]
	_ = same{}[driver.MemoryPoolsSupported-C.CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED]
	_ = same{}[driver.MemPoolHandleTypes-C.CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES]
	_ = same{}[driver.IPCEventSupported-C.CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED]
	_ = same{}[driver.PointerContext-C.CU_POINTER_ATTRIBUTE_CONTEXT]
	_ = same{}[driver.PointerMemoryType-C.CU_POINTER_ATTRIBUTE_MEMORY_TYPE]
	_ = same{}[driver.PointerDevicePointer-C.CU_POINTER_ATTRIBUTE_DEVICE_POINTER]
	_ = same{}[driver.PointerHostPointer-C.CU_POINTER_ATTRIBUTE_HOST_POINTER]
	_ = same{}[driver.PointerDeviceOrdinal-C.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL]
	_ = same{}[driver.PointerIsLegacyIPC-C.CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE]
	_ = same{}[driver.PointerIsMapped-C.CU_POINTER_ATTRIBUTE_MAPPED]
	_ = same{}[driver.MemoryTypeHost-C.CU_MEMORYTYPE_HOST]
	_ = same{}[driver.MemoryTypeDevice-C.CU_MEMORYTYPE_DEVICE]
	_ = same{}[driver.FuncMaxThreadsPerBlock-C.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK]
	_ = same{}[driver.FuncSharedBytes-C.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES]
	_ = same{}[driver.FuncLocalBytes-C.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES]
	_ = same{}[driver.FuncRegisters-C.CU_FUNC_ATTRIBUTE_NUM_REGS]
	_ = same{}[driver.FuncMaxDynamicSharedBytes-C.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES]
	_ = same{}[driver.PoolReleaseThreshold-C.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD]
	_ = same{}[driver.PoolReservedCurrent-C.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT]
	_ = same{}[driver.PoolReservedHigh-C.CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH]
	_ = same{}[driver.PoolUsedCurrent-C.CU_MEMPOOL_ATTR_USED_MEM_CURRENT]
	_ = same{}[driver.PoolUsedHigh-C.CU_MEMPOOL_ATTR_USED_MEM_HIGH]
	_ = same{}[driver.CaptureGlobal-C.CU_STREAM_CAPTURE_MODE_GLOBAL]
	_ = same{}[driver.CaptureThreadLocal-C.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL]
	_ = same{}[driver.CaptureRelaxed-C.CU_STREAM_CAPTURE_MODE_RELAXED]
	_ = same{}[driver.CtxSchedAuto-C.CU_CTX_SCHED_AUTO]
	_ = same{}[driver.CtxSchedSpin-C.CU_CTX_SCHED_SPIN]
	_ = same{}[driver.CtxSchedYield-C.CU_CTX_SCHED_YIELD]
	_ = same{}[driver.CtxSchedBlockingSync-C.CU_CTX_SCHED_BLOCKING_SYNC]
	_ = same{}[driver.HostAllocPortable-C.CU_MEMHOSTALLOC_PORTABLE]
	_ = same{}[driver.HostAllocDeviceMap-C.CU_MEMHOSTALLOC_DEVICEMAP]
	_ = same{}[driver.HostAllocWriteCombined-C.CU_MEMHOSTALLOC_WRITECOMBINED]
	_ = same{}[driver.HostRegisterPortable-C.CU_MEMHOSTREGISTER_PORTABLE]
	_ = same{}[driver.HostRegisterDeviceMap-C.CU_MEMHOSTREGISTER_DEVICEMAP]
	_ = same{}[driver.HostRegisterReadOnly-C.CU_MEMHOSTREGISTER_READ_ONLY]
	_ = same{}[driver.StreamDefault-C.CU_STREAM_DEFAULT]
	_ = same{}[driver.StreamNonBlocking-C.CU_STREAM_NON_BLOCKING]
	_ = same{}[driver.EventBlockingSync-C.CU_EVENT_BLOCKING_SYNC]
	_ = same{}[driver.EventDisableTiming-C.CU_EVENT_DISABLE_TIMING]
	_ = same{}[driver.EventInterprocess-C.CU_EVENT_INTERPROCESS]
)
