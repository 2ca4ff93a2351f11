// Package driver defines the interface to a CUDA driver: one method per call,
// with Go types. Packages libcuda, gorgonia and simulated implement it, and
// drivertest is their conformance suite.
//
// A method makes the call of its name and nothing else: it locks no thread and
// sets no context. Its error is nil or an *[Error]. A call that the driver
// lacks returns NotSupported. Host memory is passed as slices. The caller keeps
// the slice of an asynchronous call alive until the stream is done.
package driver

// API is a CUDA driver. It may be used from any goroutine. The calls of Devices
// need no context. All others use the current context of their thread.
type API interface {
	Devices
	Contexts
	Memory
	StreamOrdered
	Virtual
	IPC
	Copies
	Streams
	Events
	Graphs
	Modules

	// Close releases the resources of the driver itself. If the driver can
	// detect memory that was never freed, it returns an error.
	Close() error
}

// Devices are the calls that need no context.
type Devices interface {
	Init() error
	DriverGetVersion() (int, error) // 12080 is 12.8
	DeviceGetCount() (int, error)
	DeviceGet(ordinal int) (Device, error)
	DeviceGetName(Device) (string, error)
	DeviceGetUUID(Device) (UUID, error)
	// DeviceGetPCIBusID returns a bus id such as "0000:3b:00.0".
	DeviceGetPCIBusID(Device) (string, error)
	DeviceGetAttribute(Attribute, Device) (int, error)
	DeviceTotalMem(Device) (int64, error)
	// DeviceCanAccessPeer reports whether kernels and copies of dev can access
	// memory of peer.
	DeviceCanAccessPeer(dev, peer Device) (bool, error)

	DevicePrimaryCtxRetain(Device) (Context, error)
	DevicePrimaryCtxRelease(Device) error
	// DevicePrimaryCtxGetState returns the flags, and reports whether the
	// process retains the context.
	DevicePrimaryCtxGetState(Device) (flags uint32, active bool, err error)
	DevicePrimaryCtxSetFlags(dev Device, flags uint32) error

	// CtxCreate creates a context and makes it current on the thread, as
	// cuCtxCreate_v2 does.
	CtxCreate(flags uint32, dev Device) (Context, error)
	CtxDestroy(Context) error
	CtxSetCurrent(Context) error
	CtxGetCurrent() (Context, error)
}

// Contexts are the calls that refer to the current context.
type Contexts interface {
	CtxGetDevice() (Device, error)
	CtxSynchronize() error
	// CtxGetStreamPriorityRange returns the lowest and the highest priority. A
	// higher priority is a smaller number.
	CtxGetStreamPriorityRange() (least, greatest int, err error)
	// CtxEnablePeerAccess gives the current context access to memory of the
	// peer context.
	CtxEnablePeerAccess(peer Context) error
}

// Memory is device memory and page-locked host memory.
type Memory interface {
	MemGetInfo() (free, total int64, err error)
	MemAlloc(n int64) (uintptr, error)
	MemFree(address uintptr) error
	// MemGetAddressRange returns the allocation that contains an address.
	MemGetAddressRange(address uintptr) (base uintptr, size int64, err error)
	// PointerGetAttribute returns the value of the attribute, zero-extended to
	// 64 bits. It returns InvalidValue for an address that CUDA does not know.
	PointerGetAttribute(a PointerAttribute, address uintptr) (uint64, error)

	// MemAllocManaged returns memory that every device and the host can access
	// (CU_MEM_ATTACH_GLOBAL). MemFree frees it.
	MemAllocManaged(n int64) (uintptr, error)
	// MemAdvise and MemPrefetchAsync take CPUDevice for the host. The bytes must be
	// managed memory.
	MemAdvise(address uintptr, n int64, a MemAdvice, location Device) error
	MemPrefetchAsync(address uintptr, n int64, to Device, s Stream) error

	MemHostAlloc(n int64, flags uint32) (uintptr, error)
	MemFreeHost(address uintptr) error
	MemHostRegister(memory []byte, flags uint32) error
	MemHostUnregister(address uintptr) error
	MemHostGetDevicePointer(address uintptr) (uintptr, error)
}

// StreamOrdered is stream-ordered allocation and its memory pools.
type StreamOrdered interface {
	MemAllocAsync(n int64, s Stream) (uintptr, error)
	MemFreeAsync(address uintptr, s Stream) error
	DeviceGetDefaultMemPool(Device) (MemPool, error)
	// MemPoolCreate creates a pool of device memory. A shareable pool can be
	// exported as a file descriptor.
	MemPoolCreate(dev Device, shareable bool) (MemPool, error)
	MemPoolDestroy(MemPool) error
	MemPoolTrimTo(pool MemPool, keep int64) error
	MemPoolSetAttribute(pool MemPool, a MemPoolAttribute, value uint64) error
	MemPoolGetAttribute(pool MemPool, a MemPoolAttribute) (uint64, error)
	MemPoolSetAccess(pool MemPool, from Device) error // read and write
	MemAllocFromPoolAsync(n int64, pool MemPool, s Stream) (uintptr, error)

	// MemPoolExportToShareableHandle returns a file descriptor, which the
	// caller must close.
	MemPoolExportToShareableHandle(MemPool) (fd int, err error)
	// MemPoolImportFromShareableHandle leaves the descriptor open.
	MemPoolImportFromShareableHandle(fd int) (MemPool, error)
	MemPoolExportPointer(address uintptr) (PoolPointer, error)
	MemPoolImportPointer(pool MemPool, p PoolPointer) (uintptr, error)
}

// Virtual is virtual memory management: physical memory, and addresses that it
// is mapped to. Sizes are multiples of the granularity.
type Virtual interface {
	MemGetAllocationGranularity(dev Device, shareable bool) (int64, error)
	MemCreate(n int64, dev Device, shareable bool) (Physical, error)
	MemRelease(Physical) error
	MemAddressReserve(n int64) (uintptr, error)
	MemAddressFree(address uintptr, n int64) error
	MemMap(address uintptr, n int64, p Physical) error
	MemUnmap(address uintptr, n int64) error
	MemSetAccess(address uintptr, n int64, from Device) error // read and write
	// MemExportToShareableHandle returns a file descriptor, which the caller
	// must close.
	MemExportToShareableHandle(Physical) (fd int, err error)
	// MemImportFromShareableHandle leaves the descriptor open.
	MemImportFromShareableHandle(fd int) (Physical, error)
}

// IPC are the handles that another process can open.
type IPC interface {
	IpcGetMemHandle(address uintptr) (IPCMemHandle, error)
	// IpcOpenMemHandle maps the allocation. It enables peer access if the
	// device needs it (CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS).
	IpcOpenMemHandle(IPCMemHandle) (uintptr, error)
	IpcCloseMemHandle(address uintptr) error
	IpcGetEventHandle(Event) (IPCEventHandle, error)
	IpcOpenEventHandle(IPCEventHandle) (Event, error)
}

// Copies are memory copies, in the order of a stream.
type Copies interface {
	MemcpyHtoDAsync(dst uintptr, src []byte, s Stream) error
	MemcpyDtoHAsync(dst []byte, src uintptr, s Stream) error
	MemcpyDtoDAsync(dst, src uintptr, n int64, s Stream) error
	MemcpyPeerAsync(dst uintptr, dstContext Context, src uintptr, srcContext Context, n int64, s Stream) error
	MemsetD8Async(dst uintptr, value byte, n int64, s Stream) error
}

// Streams are queues of operations.
type Streams interface {
	StreamCreateWithPriority(flags uint32, priority int) (Stream, error)
	StreamDestroy(Stream) error
	StreamSynchronize(Stream) error
	// StreamQuery reports whether all operations submitted so far are done.
	StreamQuery(Stream) (done bool, err error)
	StreamWaitEvent(Stream, Event) error
	StreamGetPriority(Stream) (int, error)
	StreamGetCtx(Stream) (Context, error)
	// LaunchHostFunc runs f once on a thread of the driver, in the order of the
	// stream. f must not call the driver. If the stream has failed, f may never
	// run.
	LaunchHostFunc(s Stream, f func()) error
}

// Events mark positions in streams.
type Events interface {
	EventCreate(flags uint32) (Event, error)
	EventDestroy(Event) error
	EventRecord(Event, Stream) error
	// EventQuery reports whether the operations before the last record are
	// done. It reports true for an event that was never recorded.
	EventQuery(Event) (done bool, err error)
	EventSynchronize(Event) error
	// EventElapsedTime returns milliseconds.
	EventElapsedTime(start, end Event) (float32, error)
}

// Graphs are captured operations that can be launched many times.
type Graphs interface {
	StreamBeginCapture(s Stream, mode CaptureMode) error
	StreamEndCapture(Stream) (Graph, error)
	GraphInstantiate(Graph) (GraphExec, error)
	GraphLaunch(GraphExec, Stream) error
	GraphExecDestroy(GraphExec) error
	GraphDestroy(Graph) error
}

// Modules are loaded images and the kernels in them.
type Modules interface {
	// ModuleLoadData loads PTX, a cubin or a fat binary. The log of the
	// driver's compiler becomes the Detail of an error. The simulated driver
	// cannot run an image, so it runs the host kernels. The other drivers
	// ignore these.
	ModuleLoadData(image []byte, hostKernels map[string]HostKernel) (Module, error)
	ModuleUnload(Module) error
	ModuleGetFunction(Module, string) (Function, error)
	FuncGetAttribute(FunctionAttribute, Function) (int, error)
	FuncSetAttribute(Function, FunctionAttribute, int) error
	// FuncGetParamInfo returns where a parameter of a kernel lies, in bytes. It
	// returns InvalidValue if the kernel has no parameter of that index.
	FuncGetParamInfo(f Function, index int) (offset, size int64, err error)
	// OccupancyMaxActiveBlocksPerMultiprocessor returns the number of blocks
	// per multiprocessor, for blocks with the given number of threads and bytes
	// of dynamic shared memory.
	OccupancyMaxActiveBlocksPerMultiprocessor(f Function, threads int, sharedBytes int64) (int, error)
	// OccupancyMaxPotentialBlockSize returns the number of threads per block
	// that fills the device best, and the smallest grid that does so. limit is
	// the maximum number of threads, and 0 means no limit.
	OccupancyMaxPotentialBlockSize(f Function, sharedBytes int64, limit int) (blocks, threads int, err error)
	LaunchKernel(*Launch) error
}
