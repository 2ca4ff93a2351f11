package soft

import "github.com/quiver-gpu/quiver/cudabuf/internal/driver"

// Limits of a multiprocessor of compute capability 9.0, from the table of
// technical specifications in NVIDIA's programming guide.
const (
	multiprocessors  = 2
	warp             = 32
	maxThreads       = 1024 // a block
	maxResident      = 2048 // threads a multiprocessor
	maxBlocks        = 32   // a multiprocessor
	registerFile     = 64 << 10
	registerUnit     = 256 // what a warp's registers are rounded up to
	sharedBlock      = 48 << 10
	sharedBlockOptin = 227 << 10
	sharedTotal      = 228 << 10 // a multiprocessor
	sharedReserved   = 1 << 10   // a block, by the system
)

var (
	maxBlock = driver.Dim3{X: 1024, Y: 1024, Z: 64}
	maxGrid  = driver.Dim3{X: 1<<31 - 1, Y: 65535, Z: 65535}
)

var attributes = map[driver.Attribute]int{
	driver.MaxThreadsPerBlock:           maxThreads,
	driver.MaxBlockDimX:                 int(maxBlock.X),
	driver.MaxBlockDimY:                 int(maxBlock.Y),
	driver.MaxBlockDimZ:                 int(maxBlock.Z),
	driver.MaxGridDimX:                  int(maxGrid.X),
	driver.MaxGridDimY:                  int(maxGrid.Y),
	driver.MaxGridDimZ:                  int(maxGrid.Z),
	driver.MaxSharedMemoryPerBlock:      sharedBlock,
	driver.WarpSize:                     warp,
	driver.ClockRate:                    1_000_000,
	driver.MultiprocessorCount:          multiprocessors,
	driver.CanMapHostMemory:             1,
	driver.L2CacheSize:                  4 << 20,
	driver.MaxThreadsPerMultiprocessor:  maxResident,
	driver.AsyncEngineCount:             2,
	driver.UnifiedAddressing:            1,
	driver.ComputeCapabilityMajor:       9,
	driver.ComputeCapabilityMinor:       0,
	driver.MaxSharedMemoryPerBlockOptin: sharedBlockOptin,
	driver.VirtualMemoryManagement:      1,
	driver.PosixFileDescriptorHandles:   1,
	driver.MemoryPoolsSupported:         1,
	driver.MemPoolHandleTypes:           1, // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
	driver.IPCEventSupported:            1,
}
