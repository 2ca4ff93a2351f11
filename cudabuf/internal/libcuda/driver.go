//go:build linux

// Package libcuda implements driver.API with the CUDA driver of NVIDIA GPUs. It
// opens libcuda.so.1 at run time, so it needs neither cgo nor a CUDA toolkit. A
// program also starts without the library.
//
// Every call passes its arguments as integers to invoke. On amd64, invoke is
// assembly of this package; on other machines it is purego.SyscallN. With the
// build tag gorgonia, calls go through cgo, and package gorgonia adds the calls
// of gorgonia.org/cu.
package libcuda

import (
	"bytes"
	"unsafe"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// Driver is an open libcuda. Its methods are those of driver.API.
type Driver struct {
	path    string
	entries [symbolCount]uintptr
}

var _ driver.API = (*Driver)(nil)

// call calls one function. The directive keeps the memory that pointers in args
// refer to alive and in place until the call returns. The pointers must be
// converted to uintptr in the call expression itself.
//
//go:uintptrescapes
func (d *Driver) call(s symbol, args ...uintptr) error { return d.callValues(s, args...) }

// callValues is call for args without pointers into Go memory. It has no
// directive, because the directive would allocate args on the heap.
func (d *Driver) callValues(s symbol, args ...uintptr) error {
	return d.resultError(s, d.callResult(s, args...))
}

// callCopy is call for copies between host and device. It keeps the host memory
// in place, and does not allocate.
//
//go:uintptrescapes
func (d *Driver) callCopy(s symbol, dst, src, n, stream uintptr) error {
	return d.callValues(s, dst, src, n, stream)
}

// resultError converts a result to an error, nil for Success.
func (d *Driver) resultError(s symbol, r driver.Result) error {
	if r == driver.Success {
		return nil
	}
	if r == driver.NotSupported && d.entries[s] == 0 {
		return &driver.Error{Call: symbols[s].call, Code: r, Detail: d.path + " lacks the function"}
	}
	return driver.ResultError(symbols[s].call, r)
}

// maxArguments is the largest number of arguments of a call.
const maxArguments = 14

// callResult is callValues for callers that interpret the result.
func (d *Driver) callResult(s symbol, args ...uintptr) driver.Result {
	if d.entries[s] == 0 {
		return driver.NotSupported
	}
	return driver.Result(invoke(d.entries[s], args...))
}

// queryResult converts the result of a query: false for NotReady, an error for
// any other failure.
func queryResult(call string, r driver.Result) (bool, error) {
	if r == driver.NotReady {
		return false, nil
	}
	return r == driver.Success, driver.ResultError(call, r)
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

// DeviceGetPCIBusID returns lower case, as Linux writes bus ids.
func (d *Driver) DeviceGetPCIBusID(dev driver.Device) (string, error) {
	id := make([]byte, 64)
	err := d.call(cuDeviceGetPCIBusId, uintptr(unsafe.Pointer(&id[0])), uintptr(len(id)), uintptr(dev))
	id, _, _ = bytes.Cut(id, []byte{0})
	return string(bytes.ToLower(id)), err
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

func (d *Driver) DeviceCanAccessPeer(dev, peer driver.Device) (bool, error) {
	var can int32
	err := d.call(cuDeviceCanAccessPeer, uintptr(unsafe.Pointer(&can)), uintptr(dev), uintptr(peer))
	return can != 0, err
}

func (d *Driver) DevicePrimaryCtxGetState(dev driver.Device) (flags uint32, active bool, err error) {
	var a int32
	err = d.call(cuDevicePrimaryCtxGetState, uintptr(dev), uintptr(unsafe.Pointer(&flags)), uintptr(unsafe.Pointer(&a)))
	return flags, a != 0, err
}

func (d *Driver) DevicePrimaryCtxSetFlags(dev driver.Device, flags uint32) error {
	return d.call(cuDevicePrimaryCtxSetFlags, uintptr(dev), uintptr(flags))
}

func (d *Driver) CtxCreate(flags uint32, dev driver.Device) (driver.Context, error) {
	var c driver.Context
	err := d.call(cuCtxCreate, uintptr(unsafe.Pointer(&c)), uintptr(flags), uintptr(dev))
	return c, err
}

func (d *Driver) CtxDestroy(c driver.Context) error { return d.call(cuCtxDestroy, uintptr(c)) }

func (d *Driver) CtxGetCurrent() (driver.Context, error) {
	var c driver.Context
	err := d.call(cuCtxGetCurrent, uintptr(unsafe.Pointer(&c)))
	return c, err
}

func (d *Driver) CtxGetDevice() (driver.Device, error) {
	var dev driver.Device
	err := d.call(cuCtxGetDevice, uintptr(unsafe.Pointer(&dev)))
	return dev, err
}

func (d *Driver) CtxGetStreamPriorityRange() (least, greatest int, err error) {
	var l, g int32
	err = d.call(cuCtxGetStreamPriorityRange, uintptr(unsafe.Pointer(&l)), uintptr(unsafe.Pointer(&g)))
	return int(l), int(g), err
}

func (d *Driver) CtxEnablePeerAccess(peer driver.Context) error {
	return d.call(cuCtxEnablePeerAccess, uintptr(peer), 0)
}

func (d *Driver) CtxSetCurrent(c driver.Context) error {
	return d.callValues(cuCtxSetCurrent, uintptr(c))
}
func (d *Driver) CtxSynchronize() error { return d.call(cuCtxSynchronize) }

// Close leaves the library open, because CUDA cannot be unloaded.
func (d *Driver) Close() error { return nil }
