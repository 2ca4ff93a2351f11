package driver

// Unimplemented answers NotSupported to every call. It goes when every driver has every call.
type Unimplemented struct{}

func (Unimplemented) Init() error { return &Error{Call: "cuInit", Code: NotSupported} }
func (Unimplemented) DriverGetVersion() (v int, err error) {
	err = &Error{Call: "cuDriverGetVersion", Code: NotSupported}
	return
}
func (Unimplemented) DeviceGetCount() (v int, err error) {
	err = &Error{Call: "cuDeviceGetCount", Code: NotSupported}
	return
}
func (Unimplemented) DeviceGet(ordinal int) (v Device, err error) {
	err = &Error{Call: "cuDeviceGet", Code: NotSupported}
	return
}
func (Unimplemented) DeviceGetName(_ Device) (v string, err error) {
	err = &Error{Call: "cuDeviceGetName", Code: NotSupported}
	return
}
func (Unimplemented) DeviceGetUUID(_ Device) (v UUID, err error) {
	err = &Error{Call: "cuDeviceGetUUID", Code: NotSupported}
	return
}
func (Unimplemented) DeviceGetPCIBusID(_ Device) (v string, err error) {
	err = &Error{Call: "cuDeviceGetPCIBusID", Code: NotSupported}
	return
}
func (Unimplemented) DeviceGetAttribute(_ Attribute, _ Device) (v int, err error) {
	err = &Error{Call: "cuDeviceGetAttribute", Code: NotSupported}
	return
}
func (Unimplemented) DeviceTotalMem(_ Device) (v int64, err error) {
	err = &Error{Call: "cuDeviceTotalMem", Code: NotSupported}
	return
}
func (Unimplemented) DeviceCanAccessPeer(dev, peer Device) (v bool, err error) {
	err = &Error{Call: "cuDeviceCanAccessPeer", Code: NotSupported}
	return
}
func (Unimplemented) DevicePrimaryCtxRetain(_ Device) (v Context, err error) {
	err = &Error{Call: "cuDevicePrimaryCtxRetain", Code: NotSupported}
	return
}
func (Unimplemented) DevicePrimaryCtxRelease(_ Device) error {
	return &Error{Call: "cuDevicePrimaryCtxRelease", Code: NotSupported}
}
func (Unimplemented) DevicePrimaryCtxGetState(_ Device) (flags uint32, active bool, err error) {
	err = &Error{Call: "cuDevicePrimaryCtxGetState", Code: NotSupported}
	return
}
func (Unimplemented) DevicePrimaryCtxSetFlags(dev Device, flags uint32) error {
	return &Error{Call: "cuDevicePrimaryCtxSetFlags", Code: NotSupported}
}
func (Unimplemented) CtxCreate(flags uint32, dev Device) (v Context, err error) {
	err = &Error{Call: "cuCtxCreate", Code: NotSupported}
	return
}
func (Unimplemented) CtxDestroy(_ Context) error {
	return &Error{Call: "cuCtxDestroy", Code: NotSupported}
}
func (Unimplemented) CtxSetCurrent(_ Context) error {
	return &Error{Call: "cuCtxSetCurrent", Code: NotSupported}
}
func (Unimplemented) CtxGetCurrent() (v Context, err error) {
	err = &Error{Call: "cuCtxGetCurrent", Code: NotSupported}
	return
}
func (Unimplemented) CtxGetDevice() (v Device, err error) {
	err = &Error{Call: "cuCtxGetDevice", Code: NotSupported}
	return
}
func (Unimplemented) CtxSynchronize() error {
	return &Error{Call: "cuCtxSynchronize", Code: NotSupported}
}
func (Unimplemented) CtxGetStreamPriorityRange() (least, greatest int, err error) {
	err = &Error{Call: "cuCtxGetStreamPriorityRange", Code: NotSupported}
	return
}
func (Unimplemented) CtxEnablePeerAccess(peer Context) error {
	return &Error{Call: "cuCtxEnablePeerAccess", Code: NotSupported}
}
func (Unimplemented) MemGetInfo() (free, total int64, err error) {
	err = &Error{Call: "cuMemGetInfo", Code: NotSupported}
	return
}
func (Unimplemented) MemAlloc(n int64) (v uintptr, err error) {
	err = &Error{Call: "cuMemAlloc", Code: NotSupported}
	return
}
func (Unimplemented) MemFree(address uintptr) error {
	return &Error{Call: "cuMemFree", Code: NotSupported}
}
func (Unimplemented) MemGetAddressRange(address uintptr) (base uintptr, size int64, err error) {
	err = &Error{Call: "cuMemGetAddressRange", Code: NotSupported}
	return
}
func (Unimplemented) PointerGetAttribute(a PointerAttribute, address uintptr) (v uint64, err error) {
	err = &Error{Call: "cuPointerGetAttribute", Code: NotSupported}
	return
}
func (Unimplemented) MemHostAlloc(n int64, flags uint32) (v uintptr, err error) {
	err = &Error{Call: "cuMemHostAlloc", Code: NotSupported}
	return
}
func (Unimplemented) MemFreeHost(address uintptr) error {
	return &Error{Call: "cuMemFreeHost", Code: NotSupported}
}
func (Unimplemented) MemHostRegister(memory []byte, flags uint32) error {
	return &Error{Call: "cuMemHostRegister", Code: NotSupported}
}
func (Unimplemented) MemHostUnregister(address uintptr) error {
	return &Error{Call: "cuMemHostUnregister", Code: NotSupported}
}
func (Unimplemented) MemHostGetDevicePointer(address uintptr) (v uintptr, err error) {
	err = &Error{Call: "cuMemHostGetDevicePointer", Code: NotSupported}
	return
}
func (Unimplemented) MemAllocAsync(n int64, s Stream) (v uintptr, err error) {
	err = &Error{Call: "cuMemAllocAsync", Code: NotSupported}
	return
}
func (Unimplemented) MemFreeAsync(address uintptr, s Stream) error {
	return &Error{Call: "cuMemFreeAsync", Code: NotSupported}
}
func (Unimplemented) DeviceGetDefaultMemPool(_ Device) (v MemPool, err error) {
	err = &Error{Call: "cuDeviceGetDefaultMemPool", Code: NotSupported}
	return
}
func (Unimplemented) MemPoolCreate(dev Device, shareable bool) (v MemPool, err error) {
	err = &Error{Call: "cuMemPoolCreate", Code: NotSupported}
	return
}
func (Unimplemented) MemPoolDestroy(_ MemPool) error {
	return &Error{Call: "cuMemPoolDestroy", Code: NotSupported}
}
func (Unimplemented) MemPoolTrimTo(pool MemPool, keep int64) error {
	return &Error{Call: "cuMemPoolTrimTo", Code: NotSupported}
}
func (Unimplemented) MemPoolSetAttribute(pool MemPool, a MemPoolAttribute, value uint64) error {
	return &Error{Call: "cuMemPoolSetAttribute", Code: NotSupported}
}
func (Unimplemented) MemPoolGetAttribute(pool MemPool, a MemPoolAttribute) (v uint64, err error) {
	err = &Error{Call: "cuMemPoolGetAttribute", Code: NotSupported}
	return
}
func (Unimplemented) MemPoolSetAccess(pool MemPool, from Device) error {
	return &Error{Call: "cuMemPoolSetAccess", Code: NotSupported}
}
func (Unimplemented) MemAllocFromPoolAsync(n int64, pool MemPool, s Stream) (v uintptr, err error) {
	err = &Error{Call: "cuMemAllocFromPoolAsync", Code: NotSupported}
	return
}
func (Unimplemented) MemPoolExportToShareableHandle(_ MemPool) (fd int, err error) {
	err = &Error{Call: "cuMemPoolExportToShareableHandle", Code: NotSupported}
	return
}
func (Unimplemented) MemPoolImportFromShareableHandle(fd int) (v MemPool, err error) {
	err = &Error{Call: "cuMemPoolImportFromShareableHandle", Code: NotSupported}
	return
}
func (Unimplemented) MemPoolExportPointer(address uintptr) (v PoolPointer, err error) {
	err = &Error{Call: "cuMemPoolExportPointer", Code: NotSupported}
	return
}
func (Unimplemented) MemPoolImportPointer(pool MemPool, p PoolPointer) (v uintptr, err error) {
	err = &Error{Call: "cuMemPoolImportPointer", Code: NotSupported}
	return
}
func (Unimplemented) MemGetAllocationGranularity(dev Device, shareable bool) (v int64, err error) {
	err = &Error{Call: "cuMemGetAllocationGranularity", Code: NotSupported}
	return
}
func (Unimplemented) MemCreate(n int64, dev Device, shareable bool) (v Physical, err error) {
	err = &Error{Call: "cuMemCreate", Code: NotSupported}
	return
}
func (Unimplemented) MemRelease(_ Physical) error {
	return &Error{Call: "cuMemRelease", Code: NotSupported}
}
func (Unimplemented) MemAddressReserve(n int64) (v uintptr, err error) {
	err = &Error{Call: "cuMemAddressReserve", Code: NotSupported}
	return
}
func (Unimplemented) MemAddressFree(address uintptr, n int64) error {
	return &Error{Call: "cuMemAddressFree", Code: NotSupported}
}
func (Unimplemented) MemMap(address uintptr, n int64, p Physical) error {
	return &Error{Call: "cuMemMap", Code: NotSupported}
}
func (Unimplemented) MemUnmap(address uintptr, n int64) error {
	return &Error{Call: "cuMemUnmap", Code: NotSupported}
}
func (Unimplemented) MemSetAccess(address uintptr, n int64, from Device) error {
	return &Error{Call: "cuMemSetAccess", Code: NotSupported}
}
func (Unimplemented) MemExportToShareableHandle(_ Physical) (fd int, err error) {
	err = &Error{Call: "cuMemExportToShareableHandle", Code: NotSupported}
	return
}
func (Unimplemented) MemImportFromShareableHandle(fd int) (v Physical, err error) {
	err = &Error{Call: "cuMemImportFromShareableHandle", Code: NotSupported}
	return
}
func (Unimplemented) IpcGetMemHandle(address uintptr) (v IPCMemHandle, err error) {
	err = &Error{Call: "cuIpcGetMemHandle", Code: NotSupported}
	return
}
func (Unimplemented) IpcOpenMemHandle(_ IPCMemHandle) (v uintptr, err error) {
	err = &Error{Call: "cuIpcOpenMemHandle", Code: NotSupported}
	return
}
func (Unimplemented) IpcCloseMemHandle(address uintptr) error {
	return &Error{Call: "cuIpcCloseMemHandle", Code: NotSupported}
}
func (Unimplemented) IpcGetEventHandle(_ Event) (v IPCEventHandle, err error) {
	err = &Error{Call: "cuIpcGetEventHandle", Code: NotSupported}
	return
}
func (Unimplemented) IpcOpenEventHandle(_ IPCEventHandle) (v Event, err error) {
	err = &Error{Call: "cuIpcOpenEventHandle", Code: NotSupported}
	return
}
func (Unimplemented) MemcpyHtoDAsync(dst uintptr, src []byte, s Stream) error {
	return &Error{Call: "cuMemcpyHtoDAsync", Code: NotSupported}
}
func (Unimplemented) MemcpyDtoHAsync(dst []byte, src uintptr, s Stream) error {
	return &Error{Call: "cuMemcpyDtoHAsync", Code: NotSupported}
}
func (Unimplemented) MemcpyDtoDAsync(dst, src uintptr, n int64, s Stream) error {
	return &Error{Call: "cuMemcpyDtoDAsync", Code: NotSupported}
}
func (Unimplemented) MemcpyPeerAsync(dst uintptr, dstContext Context, src uintptr, srcContext Context, n int64, s Stream) error {
	return &Error{Call: "cuMemcpyPeerAsync", Code: NotSupported}
}
func (Unimplemented) MemsetD8Async(dst uintptr, value byte, n int64, s Stream) error {
	return &Error{Call: "cuMemsetD8Async", Code: NotSupported}
}
func (Unimplemented) StreamCreateWithPriority(flags uint32, priority int) (v Stream, err error) {
	err = &Error{Call: "cuStreamCreateWithPriority", Code: NotSupported}
	return
}
func (Unimplemented) StreamDestroy(_ Stream) error {
	return &Error{Call: "cuStreamDestroy", Code: NotSupported}
}
func (Unimplemented) StreamSynchronize(_ Stream) error {
	return &Error{Call: "cuStreamSynchronize", Code: NotSupported}
}
func (Unimplemented) StreamQuery(_ Stream) (done bool, err error) {
	err = &Error{Call: "cuStreamQuery", Code: NotSupported}
	return
}
func (Unimplemented) StreamWaitEvent(_ Stream, _ Event) error {
	return &Error{Call: "cuStreamWaitEvent", Code: NotSupported}
}
func (Unimplemented) StreamGetPriority(_ Stream) (v int, err error) {
	err = &Error{Call: "cuStreamGetPriority", Code: NotSupported}
	return
}
func (Unimplemented) StreamGetCtx(_ Stream) (v Context, err error) {
	err = &Error{Call: "cuStreamGetCtx", Code: NotSupported}
	return
}
func (Unimplemented) LaunchHostFunc(s Stream, f func()) error {
	return &Error{Call: "cuLaunchHostFunc", Code: NotSupported}
}
func (Unimplemented) EventCreate(flags uint32) (v Event, err error) {
	err = &Error{Call: "cuEventCreate", Code: NotSupported}
	return
}
func (Unimplemented) EventDestroy(_ Event) error {
	return &Error{Call: "cuEventDestroy", Code: NotSupported}
}
func (Unimplemented) EventRecord(_ Event, _ Stream) error {
	return &Error{Call: "cuEventRecord", Code: NotSupported}
}
func (Unimplemented) EventQuery(_ Event) (done bool, err error) {
	err = &Error{Call: "cuEventQuery", Code: NotSupported}
	return
}
func (Unimplemented) EventSynchronize(_ Event) error {
	return &Error{Call: "cuEventSynchronize", Code: NotSupported}
}
func (Unimplemented) EventElapsedTime(start, end Event) (v float32, err error) {
	err = &Error{Call: "cuEventElapsedTime", Code: NotSupported}
	return
}
func (Unimplemented) StreamBeginCapture(s Stream, mode CaptureMode) error {
	return &Error{Call: "cuStreamBeginCapture", Code: NotSupported}
}
func (Unimplemented) StreamEndCapture(_ Stream) (v Graph, err error) {
	err = &Error{Call: "cuStreamEndCapture", Code: NotSupported}
	return
}
func (Unimplemented) GraphInstantiate(_ Graph) (v GraphExec, err error) {
	err = &Error{Call: "cuGraphInstantiate", Code: NotSupported}
	return
}
func (Unimplemented) GraphLaunch(_ GraphExec, _ Stream) error {
	return &Error{Call: "cuGraphLaunch", Code: NotSupported}
}
func (Unimplemented) GraphExecDestroy(_ GraphExec) error {
	return &Error{Call: "cuGraphExecDestroy", Code: NotSupported}
}
func (Unimplemented) GraphDestroy(_ Graph) error {
	return &Error{Call: "cuGraphDestroy", Code: NotSupported}
}
func (Unimplemented) ModuleLoadData(image []byte, twins map[string]Twin) (v Module, err error) {
	err = &Error{Call: "cuModuleLoadData", Code: NotSupported}
	return
}
func (Unimplemented) ModuleUnload(_ Module) error {
	return &Error{Call: "cuModuleUnload", Code: NotSupported}
}
func (Unimplemented) ModuleGetFunction(_ Module, _ string) (v Function, err error) {
	err = &Error{Call: "cuModuleGetFunction", Code: NotSupported}
	return
}
func (Unimplemented) FuncGetAttribute(_ FunctionAttribute, _ Function) (v int, err error) {
	err = &Error{Call: "cuFuncGetAttribute", Code: NotSupported}
	return
}
func (Unimplemented) FuncSetAttribute(_ Function, _ FunctionAttribute, _ int) error {
	return &Error{Call: "cuFuncSetAttribute", Code: NotSupported}
}
func (Unimplemented) OccupancyMaxActiveBlocksPerMultiprocessor(f Function, threads int, sharedBytes int64) (v int, err error) {
	err = &Error{Call: "cuOccupancyMaxActiveBlocksPerMultiprocessor", Code: NotSupported}
	return
}
func (Unimplemented) OccupancyMaxPotentialBlockSize(f Function, sharedBytes int64, limit int) (blocks, threads int, err error) {
	err = &Error{Call: "cuOccupancyMaxPotentialBlockSize", Code: NotSupported}
	return
}
func (Unimplemented) LaunchKernel(f Function, grid, block Dim3, sharedBytes uint32, s Stream, args []Arg) error {
	return &Error{Call: "cuLaunchKernel", Code: NotSupported}
}
