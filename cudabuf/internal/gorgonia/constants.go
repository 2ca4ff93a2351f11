//go:build linux && gorgonia

package gorgonia

//#include <cuda.h>
import "C"

import "github.com/quiver-gpu/quiver/cudabuf/internal/driver"

// equal has one element. Its index is the difference between a constant of
// package driver and that of cuda.h. A difference other than 0 does not
// compile.
type equal [1]struct{}

var (
	_ = equal{}[driver.MaxThreadsPerBlock-C.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK]
	_ = equal{}[driver.MaxBlockDimX-C.CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X]
	_ = equal{}[driver.MaxBlockDimY-C.CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y]
	_ = equal{}[driver.MaxBlockDimZ-C.CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z]
	_ = equal{}[driver.MaxGridDimX-C.CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X]
	_ = equal{}[driver.MaxGridDimY-C.CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y]
	_ = equal{}[driver.MaxGridDimZ-C.CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z]
	_ = equal{}[driver.MaxSharedMemoryPerBlock-C.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK]
	_ = equal{}[driver.WarpSize-C.CU_DEVICE_ATTRIBUTE_WARP_SIZE]
	_ = equal{}[driver.ClockRate-C.CU_DEVICE_ATTRIBUTE_CLOCK_RATE]
	_ = equal{}[driver.MultiprocessorCount-C.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT]
	_ = equal{}[driver.CanMapHostMemory-C.CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY]
	_ = equal{}[driver.L2CacheSize-C.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE]
	_ = equal{}[driver.MaxThreadsPerMultiprocessor-C.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR]
	_ = equal{}[driver.AsyncEngineCount-C.CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT]
	_ = equal{}[driver.UnifiedAddressing-C.CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING]
	_ = equal{}[driver.ComputeCapabilityMajor-C.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR]
	_ = equal{}[driver.ComputeCapabilityMinor-C.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR]
	_ = equal{}[driver.MaxSharedMemoryPerBlockOptin-C.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN]
	_ = equal{}[driver.ConcurrentManagedAccess-C.CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS]
	_ = equal{}[driver.VirtualMemoryManagement-C.CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED]
	_ = equal{}[driver.PosixFileDescriptorHandles-C.CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED]
	_ = equal{}[driver.MemoryPoolsSupported-C.CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED]
	_ = equal{}[driver.MemPoolHandleTypes-C.CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES]
	_ = equal{}[driver.IPCEventSupported-C.CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED]
	_ = equal{}[driver.PointerContext-C.CU_POINTER_ATTRIBUTE_CONTEXT]
	_ = equal{}[driver.PointerMemoryType-C.CU_POINTER_ATTRIBUTE_MEMORY_TYPE]
	_ = equal{}[driver.PointerDevicePointer-C.CU_POINTER_ATTRIBUTE_DEVICE_POINTER]
	_ = equal{}[driver.PointerHostPointer-C.CU_POINTER_ATTRIBUTE_HOST_POINTER]
	_ = equal{}[driver.PointerIsManaged-C.CU_POINTER_ATTRIBUTE_IS_MANAGED]
	_ = equal{}[driver.PointerDeviceOrdinal-C.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL]
	_ = equal{}[driver.PointerIsLegacyIPC-C.CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE]
	_ = equal{}[driver.PointerIsMapped-C.CU_POINTER_ATTRIBUTE_MAPPED]
	_ = equal{}[driver.MemoryTypeHost-C.CU_MEMORYTYPE_HOST]
	_ = equal{}[driver.MemoryTypeDevice-C.CU_MEMORYTYPE_DEVICE]
	_ = equal{}[driver.CPUDevice-C.CU_DEVICE_CPU]
	_ = equal{}[driver.AdviseSetReadMostly-C.CU_MEM_ADVISE_SET_READ_MOSTLY]
	_ = equal{}[driver.AdviseUnsetReadMostly-C.CU_MEM_ADVISE_UNSET_READ_MOSTLY]
	_ = equal{}[driver.AdviseSetPreferredLocation-C.CU_MEM_ADVISE_SET_PREFERRED_LOCATION]
	_ = equal{}[driver.FuncMaxThreadsPerBlock-C.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK]
	_ = equal{}[driver.FuncSharedBytes-C.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES]
	_ = equal{}[driver.FuncLocalBytes-C.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES]
	_ = equal{}[driver.FuncRegisters-C.CU_FUNC_ATTRIBUTE_NUM_REGS]
	_ = equal{}[driver.FuncMaxDynamicSharedBytes-C.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES]
	_ = equal{}[driver.PoolReleaseThreshold-C.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD]
	_ = equal{}[driver.PoolReservedCurrent-C.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT]
	_ = equal{}[driver.PoolReservedHigh-C.CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH]
	_ = equal{}[driver.PoolUsedCurrent-C.CU_MEMPOOL_ATTR_USED_MEM_CURRENT]
	_ = equal{}[driver.PoolUsedHigh-C.CU_MEMPOOL_ATTR_USED_MEM_HIGH]
	_ = equal{}[driver.CaptureGlobal-C.CU_STREAM_CAPTURE_MODE_GLOBAL]
	_ = equal{}[driver.CaptureThreadLocal-C.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL]
	_ = equal{}[driver.CaptureRelaxed-C.CU_STREAM_CAPTURE_MODE_RELAXED]
	_ = equal{}[driver.CtxSchedAuto-C.CU_CTX_SCHED_AUTO]
	_ = equal{}[driver.CtxSchedSpin-C.CU_CTX_SCHED_SPIN]
	_ = equal{}[driver.CtxSchedYield-C.CU_CTX_SCHED_YIELD]
	_ = equal{}[driver.CtxSchedBlockingSync-C.CU_CTX_SCHED_BLOCKING_SYNC]
	_ = equal{}[driver.HostAllocPortable-C.CU_MEMHOSTALLOC_PORTABLE]
	_ = equal{}[driver.HostAllocDeviceMap-C.CU_MEMHOSTALLOC_DEVICEMAP]
	_ = equal{}[driver.HostAllocWriteCombined-C.CU_MEMHOSTALLOC_WRITECOMBINED]
	_ = equal{}[driver.HostRegisterPortable-C.CU_MEMHOSTREGISTER_PORTABLE]
	_ = equal{}[driver.HostRegisterDeviceMap-C.CU_MEMHOSTREGISTER_DEVICEMAP]
	_ = equal{}[driver.HostRegisterReadOnly-C.CU_MEMHOSTREGISTER_READ_ONLY]
	_ = equal{}[driver.StreamDefault-C.CU_STREAM_DEFAULT]
	_ = equal{}[driver.StreamNonBlocking-C.CU_STREAM_NON_BLOCKING]
	_ = equal{}[driver.EventBlockingSync-C.CU_EVENT_BLOCKING_SYNC]
	_ = equal{}[driver.EventDisableTiming-C.CU_EVENT_DISABLE_TIMING]
	_ = equal{}[driver.EventInterprocess-C.CU_EVENT_INTERPROCESS]
)
