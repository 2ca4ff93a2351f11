//go:build linux

// Package purego is the CUDA driver of an NVIDIA GPU, libcuda.so.1, opened at
// run time: no cgo, no CUDA toolkit, and a program that starts where there is
// no driver.
//
// Every call goes through purego.SyscallN with integers: arguments need no
// reflection, and each call costs about a quarter of a microsecond.
package purego

import (
	"bytes"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// Driver is an open libcuda.
type Driver struct {
	driver.Unimplemented
	path  string
	entry [symbolCount]uintptr
}

var _ driver.API = (*Driver)(nil)

// call runs one function. The directive keeps what pointers in args point to
// alive and in place until the call returns; they must be converted in the call
// itself.
//
//go:uintptrescapes
func (d *Driver) call(s symbol, args ...uintptr) error {
	if d.entry[s] == 0 {
		return &driver.Error{Call: symbols[s].call, Code: driver.NotSupported, Detail: fmt.Sprintf("%s does not have it", d.path)}
	}
	// A CUresult is 32 bits; the upper half of the register is undefined.
	r, _, _ := purego.SyscallN(d.entry[s], args...)
	return driver.Check(symbols[s].call, driver.Result(int32(r)))
}

func (d *Driver) Init() error { return d.call(cuInit, 0) }

func (d *Driver) DriverGetVersion() (int, error) {
	var v int32
	err := d.call(cuDriverGetVersion, uintptr(unsafe.Pointer(&v)))
	return int(v), err
}

func (d *Driver) DeviceGetCount() (int, error) {
	var n int32
	err := d.call(cuDeviceGetCount, uintptr(unsafe.Pointer(&n)))
	return int(n), err
}

func (d *Driver) DeviceGet(ordinal int) (driver.Device, error) {
	var dev driver.Device
	err := d.call(cuDeviceGet, uintptr(unsafe.Pointer(&dev)), uintptr(ordinal))
	return dev, err
}

func (d *Driver) DeviceGetName(dev driver.Device) (string, error) {
	name := make([]byte, 256)
	err := d.call(cuDeviceGetName, uintptr(unsafe.Pointer(&name[0])), uintptr(len(name)), uintptr(dev))
	name, _, _ = bytes.Cut(name, []byte{0})
	return string(name), err
}

func (d *Driver) DeviceGetUUID(dev driver.Device) (driver.UUID, error) {
	var id driver.UUID
	err := d.call(cuDeviceGetUuid, uintptr(unsafe.Pointer(&id)), uintptr(dev))
	return id, err
}

func (d *Driver) DeviceGetAttribute(a driver.Attribute, dev driver.Device) (int, error) {
	var v int32
	err := d.call(cuDeviceGetAttribute, uintptr(unsafe.Pointer(&v)), uintptr(a), uintptr(dev))
	return int(v), err
}

func (d *Driver) DeviceTotalMem(dev driver.Device) (int64, error) {
	var n uint64
	err := d.call(cuDeviceTotalMem, uintptr(unsafe.Pointer(&n)), uintptr(dev))
	return int64(n), err
}

func (d *Driver) DevicePrimaryCtxRetain(dev driver.Device) (driver.Context, error) {
	var c driver.Context
	err := d.call(cuDevicePrimaryCtxRetain, uintptr(unsafe.Pointer(&c)), uintptr(dev))
	return c, err
}

func (d *Driver) DevicePrimaryCtxRelease(dev driver.Device) error {
	return d.call(cuDevicePrimaryCtxRelease, uintptr(dev))
}

func (d *Driver) CtxSetCurrent(c driver.Context) error { return d.call(cuCtxSetCurrent, uintptr(c)) }
func (d *Driver) CtxSynchronize() error                { return d.call(cuCtxSynchronize) }

func (d *Driver) MemGetInfo() (free, total int64, err error) {
	var f, t uint64
	err = d.call(cuMemGetInfo, uintptr(unsafe.Pointer(&f)), uintptr(unsafe.Pointer(&t)))
	return int64(f), int64(t), err
}

func (d *Driver) MemAlloc(n int64) (uintptr, error) {
	var p uintptr
	err := d.call(cuMemAlloc, uintptr(unsafe.Pointer(&p)), uintptr(n))
	return p, err
}

func (d *Driver) MemFree(p uintptr) error { return d.call(cuMemFree, p) }

func (d *Driver) MemHostAlloc(n int64, flags uint32) (uintptr, error) {
	var p uintptr
	err := d.call(cuMemHostAlloc, uintptr(unsafe.Pointer(&p)), uintptr(n), uintptr(flags))
	return p, err
}

func (d *Driver) MemFreeHost(p uintptr) error { return d.call(cuMemFreeHost, p) }

func (d *Driver) StreamCreateWithPriority(flags uint32, priority int) (driver.Stream, error) {
	var s driver.Stream
	err := d.call(cuStreamCreateWithPriority, uintptr(unsafe.Pointer(&s)), uintptr(flags), uintptr(priority))
	return s, err
}

func (d *Driver) StreamDestroy(s driver.Stream) error { return d.call(cuStreamDestroy, uintptr(s)) }

func (d *Driver) StreamSynchronize(s driver.Stream) error {
	return d.call(cuStreamSynchronize, uintptr(s))
}

func (d *Driver) MemcpyHtoDAsync(dst uintptr, src []byte, s driver.Stream) error {
	return d.call(cuMemcpyHtoDAsync, dst, uintptr(unsafe.Pointer(unsafe.SliceData(src))), uintptr(len(src)), uintptr(s))
}

func (d *Driver) MemcpyDtoHAsync(dst []byte, src uintptr, s driver.Stream) error {
	return d.call(cuMemcpyDtoHAsync, uintptr(unsafe.Pointer(unsafe.SliceData(dst))), src, uintptr(len(dst)), uintptr(s))
}

func (d *Driver) MemcpyDtoDAsync(dst, src uintptr, n int64, s driver.Stream) error {
	return d.call(cuMemcpyDtoDAsync, dst, src, uintptr(n), uintptr(s))
}

func (d *Driver) MemcpyPeerAsync(dst uintptr, dstContext driver.Context, src uintptr, srcContext driver.Context, n int64, s driver.Stream) error {
	return d.call(cuMemcpyPeerAsync, dst, uintptr(dstContext), src, uintptr(srcContext), uintptr(n), uintptr(s))
}

func (d *Driver) MemsetD8Async(dst uintptr, value byte, n int64, s driver.Stream) error {
	return d.call(cuMemsetD8Async, dst, uintptr(value), uintptr(n), uintptr(s))
}

// ModuleLoadData passes a copy that ends in a zero byte: PTX text has no other
// end, and a binary image says its own length.
func (d *Driver) ModuleLoadData(image []byte, _ map[string]driver.Twin) (driver.Module, error) {
	var m driver.Module
	text := append(bytes.Clone(image), 0)
	err := d.call(cuModuleLoadData, uintptr(unsafe.Pointer(&m)), uintptr(unsafe.Pointer(&text[0])))
	return m, err
}

func (d *Driver) ModuleUnload(m driver.Module) error { return d.call(cuModuleUnload, uintptr(m)) }

func (d *Driver) ModuleGetFunction(m driver.Module, name string) (driver.Function, error) {
	var f driver.Function
	text := append([]byte(name), 0)
	err := d.call(cuModuleGetFunction, uintptr(unsafe.Pointer(&f)), uintptr(m), uintptr(unsafe.Pointer(&text[0])))
	return f, err
}

// LaunchKernel passes pointers to the arguments' bits, which the driver copies
// before it returns. The slice of the pointers keeps the arguments alive.
func (d *Driver) LaunchKernel(f driver.Function, grid, block driver.Dim3, sharedBytes uint32, s driver.Stream, args []driver.Arg) error {
	parameters := make([]unsafe.Pointer, len(args)+1)
	for i := range args {
		parameters[i] = unsafe.Pointer(&args[i].Bits)
	}
	err := d.call(cuLaunchKernel, uintptr(f),
		uintptr(grid.X), uintptr(grid.Y), uintptr(grid.Z),
		uintptr(block.X), uintptr(block.Y), uintptr(block.Z),
		uintptr(sharedBytes), uintptr(s), uintptr(unsafe.Pointer(&parameters[0])), 0)
	runtime.KeepAlive(args)
	return err
}

// Close leaves the library open: CUDA does not survive being unloaded.
func (d *Driver) Close() error { return nil }
