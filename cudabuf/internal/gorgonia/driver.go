//go:build linux && gorgonia

package gorgonia

import (
	"errors"
	"reflect"
	"unsafe"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"github.com/quiver-gpu/quiver/cudabuf/internal/libcuda"
	"gorgonia.org/cu"
)

// Driver is a libcuda driver with the calls of gorgonia.org/cu.
type Driver struct{ driver.API }

// Open opens the driver, like libcuda.Open.
func Open() (driver.API, error) {
	api, err := libcuda.Open()
	if err != nil {
		return nil, err
	}
	return &Driver{api}, nil
}

// resultError converts an error of package cu, whose type is an unexported
// integer.
func resultError(call string, err error) error {
	if err == nil {
		return nil
	}
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		if v := reflect.ValueOf(cause); v.Kind() == reflect.Int {
			return driver.ResultError(call, driver.Result(v.Int()))
		}
	}
	return &driver.Error{Call: call, Code: driver.Unknown, Detail: err.Error()}
}

// The handle types of package cu are structs of one unexported pointer.
func cuStream(s driver.Stream) cu.Stream      { return *(*cu.Stream)(unsafe.Pointer(&s)) }
func cuEvent(e driver.Event) cu.Event         { return *(*cu.Event)(unsafe.Pointer(&e)) }
func cuContext(c driver.Context) cu.CUContext { return *(*cu.CUContext)(unsafe.Pointer(&c)) }
func cuModule(m driver.Module) cu.Module      { return *(*cu.Module)(unsafe.Pointer(&m)) }
func cuFunction(f driver.Function) cu.Function {
	return *(*cu.Function)(unsafe.Pointer(&f))
}
func handleOf[T cu.Stream | cu.Event | cu.CUContext | cu.Function](v T) uintptr {
	return *(*uintptr)(unsafe.Pointer(&v))
}

func (d *Driver) DeviceGetCount() (int, error) {
	n, err := cu.NumDevices()
	return n, resultError("cuDeviceGetCount", err)
}

func (d *Driver) DeviceGet(ordinal int) (driver.Device, error) {
	dev, err := cu.GetDevice(ordinal)
	return driver.Device(dev), resultError("cuDeviceGet", err)
}

func (d *Driver) DeviceGetName(dev driver.Device) (string, error) {
	name, err := cu.Device(dev).Name()
	return name, resultError("cuDeviceGetName", err)
}

func (d *Driver) DeviceGetAttribute(a driver.Attribute, dev driver.Device) (int, error) {
	v, err := cu.Device(dev).Attribute(cu.DeviceAttribute(a))
	return v, resultError("cuDeviceGetAttribute", err)
}

func (d *Driver) DeviceTotalMem(dev driver.Device) (int64, error) {
	n, err := cu.Device(dev).TotalMem()
	return n, resultError("cuDeviceTotalMem", err)
}

func (d *Driver) DeviceCanAccessPeer(dev, peer driver.Device) (bool, error) {
	can, err := cu.Device(dev).CanAccessPeer(cu.Device(peer))
	return can != 0, resultError("cuDeviceCanAccessPeer", err)
}

func (d *Driver) DevicePrimaryCtxRetain(dev driver.Device) (driver.Context, error) {
	c, err := cu.Device(dev).RetainPrimaryCtx()
	return driver.Context(handleOf(c)), resultError("cuDevicePrimaryCtxRetain", err)
}

func (d *Driver) DevicePrimaryCtxRelease(dev driver.Device) error {
	return resultError("cuDevicePrimaryCtxRelease", cu.Device(dev).ReleasePrimaryCtx())
}

func (d *Driver) DevicePrimaryCtxGetState(dev driver.Device) (uint32, bool, error) {
	flags, active, err := cu.Device(dev).PrimaryCtxState()
	return uint32(flags), active != 0, resultError("cuDevicePrimaryCtxGetState", err)
}

func (d *Driver) DevicePrimaryCtxSetFlags(dev driver.Device, flags uint32) error {
	return resultError("cuDevicePrimaryCtxSetFlags", cu.Device(dev).SetPrimaryCtxFlags(cu.ContextFlags(flags)))
}

func (d *Driver) CtxCreate(flags uint32, dev driver.Device) (driver.Context, error) {
	c, err := cu.Device(dev).MakeContext(cu.ContextFlags(flags))
	return driver.Context(handleOf(c)), resultError("cuCtxCreate", err)
}

func (d *Driver) CtxDestroy(c driver.Context) error {
	theirs := cuContext(c)
	return resultError("cuCtxDestroy", theirs.Destroy())
}

func (d *Driver) CtxSetCurrent(c driver.Context) error {
	return resultError("cuCtxSetCurrent", cu.SetCurrentContext(cuContext(c)))
}

func (d *Driver) CtxGetCurrent() (driver.Context, error) {
	c, err := cu.CurrentContext()
	return driver.Context(handleOf(c)), resultError("cuCtxGetCurrent", err)
}

func (d *Driver) CtxGetDevice() (driver.Device, error) {
	dev, err := cu.CurrentDevice()
	return driver.Device(dev), resultError("cuCtxGetDevice", err)
}

func (d *Driver) CtxSynchronize() error { return resultError("cuCtxSynchronize", cu.Synchronize()) }

func (d *Driver) CtxGetStreamPriorityRange() (int, int, error) {
	least, greatest, err := cu.StreamPriorityRange()
	return least, greatest, resultError("cuCtxGetStreamPriorityRange", err)
}

func (d *Driver) CtxEnablePeerAccess(peer driver.Context) error {
	return resultError("cuCtxEnablePeerAccess", cuContext(peer).EnablePeerAccess(0))
}

func (d *Driver) MemGetInfo() (int64, int64, error) {
	free, total, err := cu.MemInfo()
	return free, total, resultError("cuMemGetInfo", err)
}

func (d *Driver) MemAlloc(n int64) (uintptr, error) {
	p, err := cu.MemAlloc(n)
	return p.Uintptr(), resultError("cuMemAlloc", err)
}

func (d *Driver) MemAllocManaged(n int64) (uintptr, error) {
	p, err := cu.MemAllocManaged(n, cu.AttachGlobal)
	return p.Uintptr(), resultError("cuMemAllocManaged", err)
}

func (d *Driver) MemFree(address uintptr) error {
	return resultError("cuMemFree", cu.MemFree(cu.DevicePtr(address)))
}

func (d *Driver) MemGetAddressRange(address uintptr) (uintptr, int64, error) {
	size, base, err := cu.DevicePtr(address).AddressRange()
	return base.Uintptr(), size, resultError("cuMemGetAddressRange", err)
}

func (d *Driver) MemcpyHtoDAsync(dst uintptr, src []byte, s driver.Stream) error {
	return resultError("cuMemcpyHtoDAsync", cu.MemcpyHtoDAsync(cu.DevicePtr(dst), unsafe.Pointer(unsafe.SliceData(src)), int64(len(src)), cuStream(s)))
}

func (d *Driver) MemcpyDtoHAsync(dst []byte, src uintptr, s driver.Stream) error {
	return resultError("cuMemcpyDtoHAsync", cu.MemcpyDtoHAsync(unsafe.Pointer(unsafe.SliceData(dst)), cu.DevicePtr(src), int64(len(dst)), cuStream(s)))
}

func (d *Driver) MemcpyDtoDAsync(dst, src uintptr, n int64, s driver.Stream) error {
	return resultError("cuMemcpyDtoDAsync", cu.MemcpyDtoDAsync(cu.DevicePtr(dst), cu.DevicePtr(src), n, cuStream(s)))
}

func (d *Driver) MemcpyPeerAsync(dst uintptr, dstContext driver.Context, src uintptr, srcContext driver.Context, n int64, s driver.Stream) error {
	return resultError("cuMemcpyPeerAsync", cu.MemcpyPeerAsync(cu.DevicePtr(dst), cuContext(dstContext), cu.DevicePtr(src), cuContext(srcContext), n, cuStream(s)))
}

func (d *Driver) MemsetD8Async(dst uintptr, value byte, n int64, s driver.Stream) error {
	return resultError("cuMemsetD8Async", cu.MemsetD8Async(cu.DevicePtr(dst), value, n, cuStream(s)))
}

func (d *Driver) StreamCreateWithPriority(flags uint32, priority int) (driver.Stream, error) {
	s, err := cu.MakeStreamWithPriority(priority, cu.StreamFlags(flags))
	return driver.Stream(handleOf(s)), resultError("cuStreamCreateWithPriority", err)
}

func (d *Driver) StreamDestroy(s driver.Stream) error {
	theirs := cuStream(s)
	return resultError("cuStreamDestroy", theirs.Destroy())
}

func (d *Driver) StreamSynchronize(s driver.Stream) error {
	return resultError("cuStreamSynchronize", cuStream(s).Synchronize())
}

func (d *Driver) StreamQuery(s driver.Stream) (bool, error) {
	return queryResult("cuStreamQuery", cuStream(s).Query())
}

func (d *Driver) StreamWaitEvent(s driver.Stream, e driver.Event) error {
	return resultError("cuStreamWaitEvent", cuStream(s).Wait(cuEvent(e), 0))
}

func (d *Driver) StreamGetPriority(s driver.Stream) (int, error) {
	p, err := cuStream(s).Priority()
	return p, resultError("cuStreamGetPriority", err)
}

func (d *Driver) EventCreate(flags uint32) (driver.Event, error) {
	e, err := cu.MakeEvent(cu.EventFlags(flags))
	return driver.Event(handleOf(e)), resultError("cuEventCreate", err)
}

func (d *Driver) EventDestroy(e driver.Event) error {
	theirs := cuEvent(e)
	return resultError("cuEventDestroy", cu.DestroyEvent(&theirs))
}

func (d *Driver) EventRecord(e driver.Event, s driver.Stream) error {
	return resultError("cuEventRecord", cuEvent(e).Record(cuStream(s)))
}

func (d *Driver) EventQuery(e driver.Event) (bool, error) {
	return queryResult("cuEventQuery", cuEvent(e).Query())
}

func (d *Driver) EventSynchronize(e driver.Event) error {
	return resultError("cuEventSynchronize", cuEvent(e).Synchronize())
}

func (d *Driver) EventElapsedTime(start, end driver.Event) (float32, error) {
	ms, err := cuEvent(start).Elapsed(cuEvent(end))
	return float32(ms), resultError("cuEventElapsedTime", err)
}

// queryResult converts the error of a query: false for NotReady.
func queryResult(call string, err error) (bool, error) {
	err = resultError(call, err)
	var e *driver.Error
	if errors.As(err, &e) && e.Code == driver.NotReady {
		return false, nil
	}
	return err == nil, err
}

func (d *Driver) GraphDestroy(g driver.Graph) error {
	return resultError("cuGraphDestroy", (*cu.Graph)(unsafe.Pointer(&g)).Destroy())
}

func (d *Driver) GraphExecDestroy(x driver.GraphExec) error {
	return resultError("cuGraphExecDestroy", (*cu.ExecGraph)(unsafe.Pointer(&x)).Destroy())
}

func (d *Driver) ModuleUnload(m driver.Module) error {
	return resultError("cuModuleUnload", cuModule(m).Unload())
}

func (d *Driver) ModuleGetFunction(m driver.Module, name string) (driver.Function, error) {
	f, err := cuModule(m).Function(name)
	return driver.Function(handleOf(f)), resultError("cuModuleGetFunction", err)
}

func (d *Driver) FuncGetAttribute(a driver.FunctionAttribute, f driver.Function) (int, error) {
	v, err := cuFunction(f).Attribute(cu.FunctionAttribute(a))
	return v, resultError("cuFuncGetAttribute", err)
}

func (d *Driver) OccupancyMaxActiveBlocksPerMultiprocessor(f driver.Function, threads int, sharedBytes int64) (int, error) {
	n, err := cuFunction(f).MaxActiveBlocksPerMultiProcessor(threads, sharedBytes)
	return n, resultError("cuOccupancyMaxActiveBlocksPerMultiprocessor", err)
}
