// Package driver says what cudabuf needs of a CUDA driver: one method a call,
// in Go's types. Packages libcuda, gorgonia and soft are the drivers, and
// drivertest is what all of them pass.
//
// A method does what the call of its name does and no more: it locks no thread
// and sets no context. It answers nil or an *[Error]. A call that this driver
// lacks answers NotSupported. Memory of the host is passed as slices; the
// caller keeps an asynchronous call's slice alive until the stream is done.
package driver

// API is a CUDA driver. It may be used from any goroutine. The calls of Devices
// need no context; all others run in the current context of their thread.
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

	// Close gives back what the driver itself holds, and reports what was
	// allocated from it and never freed where it can tell.
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
	// DeviceGetPCIBusID answers "0000:3b:00.0".
	DeviceGetPCIBusID(Device) (string, error)
	DeviceGetAttribute(Attribute, Device) (int, error)
	DeviceTotalMem(Device) (int64, error)
	// DeviceCanAccessPeer tells whether kernels and copies of dev reach the
	// memory of peer.
	DeviceCanAccessPeer(dev, peer Device) (bool, error)

	DevicePrimaryCtxRetain(Device) (Context, error)
	DevicePrimaryCtxRelease(Device) error
	// DevicePrimaryCtxGetState tells the flags, and whether anybody in the
	// process retains the context.
	DevicePrimaryCtxGetState(Device) (flags uint32, active bool, err error)
	DevicePrimaryCtxSetFlags(dev Device, flags uint32) error

	// CtxCreate makes a context of its own and leaves it current on the
	// thread, as cuCtxCreate_v2 does.
	CtxCreate(flags uint32, dev Device) (Context, error)
	CtxDestroy(Context) error
	CtxSetCurrent(Context) error
	CtxGetCurrent() (Context, error)
}

// Contexts are the calls about the current context.
type Contexts interface {
	CtxGetDevice() (Device, error)
	CtxSynchronize() error
	// CtxGetStreamPriorityRange answers the lowest and the highest priority;
	// a higher priority is a smaller number.
	CtxGetStreamPriorityRange() (least, greatest int, err error)
	// CtxEnablePeerAccess lets the current context reach memory of peer's.
	CtxEnablePeerAccess(peer Context) error
}

// Memory is device memory and page-locked memory of the host.
type Memory interface {
	MemGetInfo() (free, total int64, err error)
	MemAlloc(n int64) (uintptr, error)
	MemFree(address uintptr) error
	// MemGetAddressRange finds the allocation that an address lies in.
	MemGetAddressRange(address uintptr) (base uintptr, size int64, err error)
	// PointerGetAttribute is the attribute's value, zero-extended to 64 bits.
	// An address that CUDA does not know is InvalidValue.
	PointerGetAttribute(a PointerAttribute, address uintptr) (uint64, error)

	MemHostAlloc(n int64, flags uint32) (uintptr, error)
	MemFreeHost(address uintptr) error
	MemHostRegister(memory []byte, flags uint32) error
	MemHostUnregister(address uintptr) error
	MemHostGetDevicePointer(address uintptr) (uintptr, error)
}

// StreamOrdered is allocation in the order of a stream, and the pools of it.
type StreamOrdered interface {
	MemAllocAsync(n int64, s Stream) (uintptr, error)
	MemFreeAsync(address uintptr, s Stream) error
	DeviceGetDefaultMemPool(Device) (MemPool, error)
	// MemPoolCreate makes a pool of device memory. A shareable one exports as
	// a file descriptor.
	MemPoolCreate(dev Device, shareable bool) (MemPool, error)
	MemPoolDestroy(MemPool) error
	MemPoolTrimTo(pool MemPool, keep int64) error
	MemPoolSetAttribute(pool MemPool, a MemPoolAttribute, value uint64) error
	MemPoolGetAttribute(pool MemPool, a MemPoolAttribute) (uint64, error)
	MemPoolSetAccess(pool MemPool, from Device) error // read and write
	MemAllocFromPoolAsync(n int64, pool MemPool, s Stream) (uintptr, error)

	// MemPoolExportToShareableHandle answers a file descriptor, which the
	// caller closes.
	MemPoolExportToShareableHandle(MemPool) (fd int, err error)
	// MemPoolImportFromShareableHandle leaves the descriptor open.
	MemPoolImportFromShareableHandle(fd int) (MemPool, error)
	MemPoolExportPointer(address uintptr) (PoolPointer, error)
	MemPoolImportPointer(pool MemPool, p PoolPointer) (uintptr, error)
}

// Virtual is memory management in two halves: physical memory, and addresses
// that it is mapped to. Sizes are multiples of the granularity.
type Virtual interface {
	MemGetAllocationGranularity(dev Device, shareable bool) (int64, error)
	MemCreate(n int64, dev Device, shareable bool) (Physical, error)
	MemRelease(Physical) error
	MemAddressReserve(n int64) (uintptr, error)
	MemAddressFree(address uintptr, n int64) error
	MemMap(address uintptr, n int64, p Physical) error
	MemUnmap(address uintptr, n int64) error
	MemSetAccess(address uintptr, n int64, from Device) error // read and write
	// MemExportToShareableHandle answers a file descriptor, which the caller
	// closes.
	MemExportToShareableHandle(Physical) (fd int, err error)
	// MemImportFromShareableHandle leaves the descriptor open.
	MemImportFromShareableHandle(fd int) (Physical, error)
}

// IPC are the handles that another process opens.
type IPC interface {
	IpcGetMemHandle(address uintptr) (IPCMemHandle, error)
	// IpcOpenMemHandle maps the allocation, with peer access where the device
	// needs it (CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS).
	IpcOpenMemHandle(IPCMemHandle) (uintptr, error)
	IpcCloseMemHandle(address uintptr) error
	IpcGetEventHandle(Event) (IPCEventHandle, error)
	IpcOpenEventHandle(IPCEventHandle) (Event, error)
}

// Copies run in the order of a stream.
type Copies interface {
	MemcpyHtoDAsync(dst uintptr, src []byte, s Stream) error
	MemcpyDtoHAsync(dst []byte, src uintptr, s Stream) error
	MemcpyDtoDAsync(dst, src uintptr, n int64, s Stream) error
	MemcpyPeerAsync(dst uintptr, dstContext Context, src uintptr, srcContext Context, n int64, s Stream) error
	MemsetD8Async(dst uintptr, value byte, n int64, s Stream) error
}

// Streams are queues of work.
type Streams interface {
	StreamCreateWithPriority(flags uint32, priority int) (Stream, error)
	StreamDestroy(Stream) error
	StreamSynchronize(Stream) error
	// StreamQuery tells whether all work issued so far is done.
	StreamQuery(Stream) (done bool, err error)
	StreamWaitEvent(Stream, Event) error
	StreamGetPriority(Stream) (int, error)
	StreamGetCtx(Stream) (Context, error)
	// LaunchHostFunc runs f on a thread of the driver, once, in the order of
	// the stream. f must not call the driver. Where the stream has failed, f
	// may never run.
	LaunchHostFunc(s Stream, f func()) error
}

// Events are marks in streams.
type Events interface {
	EventCreate(flags uint32) (Event, error)
	EventDestroy(Event) error
	EventRecord(Event, Stream) error
	// EventQuery tells whether the work before the last record is done; so it
	// is for an event never recorded.
	EventQuery(Event) (done bool, err error)
	EventSynchronize(Event) error
	// EventElapsedTime answers milliseconds.
	EventElapsedTime(start, end Event) (float32, error)
}

// Graphs are work recorded once and launched often.
type Graphs interface {
	StreamBeginCapture(s Stream, mode CaptureMode) error
	StreamEndCapture(Stream) (Graph, error)
	GraphInstantiate(Graph) (GraphExec, error)
	GraphLaunch(GraphExec, Stream) error
	GraphExecDestroy(GraphExec) error
	GraphDestroy(Graph) error
}

// Modules are loaded images, and the kernels in them.
type Modules interface {
	// ModuleLoadData loads PTX, a cubin or a fat binary; what the driver's
	// compiler says of a bad one is the error's Detail. The soft driver,
	// which cannot run it, runs the twins in its place; the others ignore
	// them.
	ModuleLoadData(image []byte, twins map[string]HostKernel) (Module, error)
	ModuleUnload(Module) error
	ModuleGetFunction(Module, string) (Function, error)
	FuncGetAttribute(FunctionAttribute, Function) (int, error)
	FuncSetAttribute(Function, FunctionAttribute, int) error
	// OccupancyMaxActiveBlocksPerMultiprocessor is for blocks of so many
	// threads and bytes of dynamic shared memory.
	OccupancyMaxActiveBlocksPerMultiprocessor(f Function, threads int, sharedBytes int64) (int, error)
	// OccupancyMaxPotentialBlockSize answers the block that fills the device
	// best, of at most limit threads where that is not 0, and the smallest
	// grid that does.
	OccupancyMaxPotentialBlockSize(f Function, sharedBytes int64, limit int) (blocks, threads int, err error)
	LaunchKernel(*Launch) error
}
