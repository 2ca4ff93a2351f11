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

// Driver is libcuda's, with the calls of gorgonia.org/cu on top.
type Driver struct{ driver.API }

// Open opens the driver, as libcuda.Open does.
func Open() (driver.API, error) {
	api, err := libcuda.Open()
	if err != nil {
		return nil, err
	}
	return &Driver{api}, nil
}

// check makes a driver's error of one of cu's, whose type is a hidden number.
func check(call string, err error) error {
	if err == nil {
		return nil
	}
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		if v := reflect.ValueOf(cause); v.Kind() == reflect.Int {
			return driver.Check(call, driver.Result(v.Int()))
		}
	}
	return &driver.Error{Call: call, Code: driver.Unknown, Detail: err.Error()}
}

// cu's types for handles are structs of one hidden pointer.
func stream(s driver.Stream) cu.Stream      { return *(*cu.Stream)(unsafe.Pointer(&s)) }
func event(e driver.Event) cu.Event         { return *(*cu.Event)(unsafe.Pointer(&e)) }
func context(c driver.Context) cu.CUContext { return *(*cu.CUContext)(unsafe.Pointer(&c)) }
func module(m driver.Module) cu.Module      { return *(*cu.Module)(unsafe.Pointer(&m)) }
func function(f driver.Function) cu.Function {
	return *(*cu.Function)(unsafe.Pointer(&f))
}
func handle[T cu.Stream | cu.Event | cu.CUContext | cu.Function](v T) uintptr {
	return *(*uintptr)(unsafe.Pointer(&v))
}

func (d *Driver) DeviceGetCount() (int, error) {
	n, err := cu.NumDevices()
	return n, check("cuDeviceGetCount", err)
}

func (d *Driver) DeviceGet(ordinal int) (driver.Device, error) {
	dev, err := cu.GetDevice(ordinal)
	return driver.Device(dev), check("cuDeviceGet", err)
}

func (d *Driver) DeviceGetName(dev driver.Device) (string, error) {
	name, err := cu.Device(dev).Name()
	return name, check("cuDeviceGetName", err)
}

func (d *Driver) DeviceGetAttribute(a driver.Attribute, dev driver.Device) (int, error) {
	v, err := cu.Device(dev).Attribute(cu.DeviceAttribute(a))
	return v, check("cuDeviceGetAttribute", err)
}

func (d *Driver) DeviceTotalMem(dev driver.Device) (int64, error) {
	n, err := cu.Device(dev).TotalMem()
	return n, check("cuDeviceTotalMem", err)
}

func (d *Driver) DeviceCanAccessPeer(dev, peer driver.Device) (bool, error) {
	can, err := cu.Device(dev).CanAccessPeer(cu.Device(peer))
	return can != 0, check("cuDeviceCanAccessPeer", err)
}

func (d *Driver) DevicePrimaryCtxRetain(dev driver.Device) (driver.Context, error) {
	c, err := cu.Device(dev).RetainPrimaryCtx()
	return driver.Context(handle(c)), check("cuDevicePrimaryCtxRetain", err)
}

func (d *Driver) DevicePrimaryCtxRelease(dev driver.Device) error {
	return check("cuDevicePrimaryCtxRelease", cu.Device(dev).ReleasePrimaryCtx())
}

func (d *Driver) DevicePrimaryCtxGetState(dev driver.Device) (uint32, bool, error) {
	flags, active, err := cu.Device(dev).PrimaryCtxState()
	return uint32(flags), active != 0, check("cuDevicePrimaryCtxGetState", err)
}

func (d *Driver) DevicePrimaryCtxSetFlags(dev driver.Device, flags uint32) error {
	return check("cuDevicePrimaryCtxSetFlags", cu.Device(dev).SetPrimaryCtxFlags(cu.ContextFlags(flags)))
}

func (d *Driver) CtxCreate(flags uint32, dev driver.Device) (driver.Context, error) {
	c, err := cu.Device(dev).MakeContext(cu.ContextFlags(flags))
	return driver.Context(handle(c)), check("cuCtxCreate", err)
}

func (d *Driver) CtxDestroy(c driver.Context) error {
	theirs := context(c)
	return check("cuCtxDestroy", theirs.Destroy())
}

func (d *Driver) CtxSetCurrent(c driver.Context) error {
	return check("cuCtxSetCurrent", cu.SetCurrentContext(context(c)))
}

func (d *Driver) CtxGetCurrent() (driver.Context, error) {
	c, err := cu.CurrentContext()
	return driver.Context(handle(c)), check("cuCtxGetCurrent", err)
}

func (d *Driver) CtxGetDevice() (driver.Device, error) {
	dev, err := cu.CurrentDevice()
	return driver.Device(dev), check("cuCtxGetDevice", err)
}

func (d *Driver) CtxSynchronize() error { return check("cuCtxSynchronize", cu.Synchronize()) }

func (d *Driver) CtxGetStreamPriorityRange() (int, int, error) {
	least, greatest, err := cu.StreamPriorityRange()
	return least, greatest, check("cuCtxGetStreamPriorityRange", err)
}

func (d *Driver) CtxEnablePeerAccess(peer driver.Context) error {
	return check("cuCtxEnablePeerAccess", context(peer).EnablePeerAccess(0))
}

func (d *Driver) MemGetInfo() (int64, int64, error) {
	free, total, err := cu.MemInfo()
	return free, total, check("cuMemGetInfo", err)
}

func (d *Driver) MemAlloc(n int64) (uintptr, error) {
	p, err := cu.MemAlloc(n)
	return p.Uintptr(), check("cuMemAlloc", err)
}

func (d *Driver) MemFree(address uintptr) error {
	return check("cuMemFree", cu.MemFree(cu.DevicePtr(address)))
}

func (d *Driver) MemGetAddressRange(address uintptr) (uintptr, int64, error) {
	size, base, err := cu.DevicePtr(address).AddressRange()
	return base.Uintptr(), size, check("cuMemGetAddressRange", err)
}

func (d *Driver) MemcpyHtoDAsync(dst uintptr, src []byte, s driver.Stream) error {
	return check("cuMemcpyHtoDAsync", cu.MemcpyHtoDAsync(cu.DevicePtr(dst), unsafe.Pointer(unsafe.SliceData(src)), int64(len(src)), stream(s)))
}

func (d *Driver) MemcpyDtoHAsync(dst []byte, src uintptr, s driver.Stream) error {
	return check("cuMemcpyDtoHAsync", cu.MemcpyDtoHAsync(unsafe.Pointer(unsafe.SliceData(dst)), cu.DevicePtr(src), int64(len(dst)), stream(s)))
}

func (d *Driver) MemcpyDtoDAsync(dst, src uintptr, n int64, s driver.Stream) error {
	return check("cuMemcpyDtoDAsync", cu.MemcpyDtoDAsync(cu.DevicePtr(dst), cu.DevicePtr(src), n, stream(s)))
}

func (d *Driver) MemcpyPeerAsync(dst uintptr, dstContext driver.Context, src uintptr, srcContext driver.Context, n int64, s driver.Stream) error {
	return check("cuMemcpyPeerAsync", cu.MemcpyPeerAsync(cu.DevicePtr(dst), context(dstContext), cu.DevicePtr(src), context(srcContext), n, stream(s)))
}

func (d *Driver) MemsetD8Async(dst uintptr, value byte, n int64, s driver.Stream) error {
	return check("cuMemsetD8Async", cu.MemsetD8Async(cu.DevicePtr(dst), value, n, stream(s)))
}

func (d *Driver) StreamCreateWithPriority(flags uint32, priority int) (driver.Stream, error) {
	s, err := cu.MakeStreamWithPriority(priority, cu.StreamFlags(flags))
	return driver.Stream(handle(s)), check("cuStreamCreateWithPriority", err)
}

func (d *Driver) StreamDestroy(s driver.Stream) error {
	theirs := stream(s)
	return check("cuStreamDestroy", theirs.Destroy())
}

func (d *Driver) StreamSynchronize(s driver.Stream) error {
	return check("cuStreamSynchronize", stream(s).Synchronize())
}

func (d *Driver) StreamQuery(s driver.Stream) (bool, error) {
	return done("cuStreamQuery", stream(s).Query())
}

func (d *Driver) StreamWaitEvent(s driver.Stream, e driver.Event) error {
	return check("cuStreamWaitEvent", stream(s).Wait(event(e), 0))
}

func (d *Driver) StreamGetPriority(s driver.Stream) (int, error) {
	p, err := stream(s).Priority()
	return p, check("cuStreamGetPriority", err)
}

func (d *Driver) EventCreate(flags uint32) (driver.Event, error) {
	e, err := cu.MakeEvent(cu.EventFlags(flags))
	return driver.Event(handle(e)), check("cuEventCreate", err)
}

func (d *Driver) EventDestroy(e driver.Event) error {
	theirs := event(e)
	return check("cuEventDestroy", cu.DestroyEvent(&theirs))
}

func (d *Driver) EventRecord(e driver.Event, s driver.Stream) error {
	return check("cuEventRecord", event(e).Record(stream(s)))
}

func (d *Driver) EventQuery(e driver.Event) (bool, error) {
	return done("cuEventQuery", event(e).Query())
}

func (d *Driver) EventSynchronize(e driver.Event) error {
	return check("cuEventSynchronize", event(e).Synchronize())
}

func (d *Driver) EventElapsedTime(start, end driver.Event) (float32, error) {
	ms, err := event(start).Elapsed(event(end))
	return float32(ms), check("cuEventElapsedTime", err)
}

// done makes an answer of a query's error.
func done(call string, err error) (bool, error) {
	err = check(call, err)
	var e *driver.Error
	if errors.As(err, &e) && e.Code == driver.NotReady {
		return false, nil
	}
	return err == nil, err
}

func (d *Driver) GraphDestroy(g driver.Graph) error {
	return check("cuGraphDestroy", (*cu.Graph)(unsafe.Pointer(&g)).Destroy())
}

func (d *Driver) GraphExecDestroy(x driver.GraphExec) error {
	return check("cuGraphExecDestroy", (*cu.ExecGraph)(unsafe.Pointer(&x)).Destroy())
}

func (d *Driver) ModuleUnload(m driver.Module) error {
	return check("cuModuleUnload", module(m).Unload())
}

func (d *Driver) ModuleGetFunction(m driver.Module, name string) (driver.Function, error) {
	f, err := module(m).Function(name)
	return driver.Function(handle(f)), check("cuModuleGetFunction", err)
}

func (d *Driver) FuncGetAttribute(a driver.FunctionAttribute, f driver.Function) (int, error) {
	v, err := function(f).Attribute(cu.FunctionAttribute(a))
	return v, check("cuFuncGetAttribute", err)
}

func (d *Driver) OccupancyMaxActiveBlocksPerMultiprocessor(f driver.Function, threads int, sharedBytes int64) (int, error) {
	n, err := function(f).MaxActiveBlocksPerMultiProcessor(threads, sharedBytes)
	return n, check("cuOccupancyMaxActiveBlocksPerMultiprocessor", err)
}
