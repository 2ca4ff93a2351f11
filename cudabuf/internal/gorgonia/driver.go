//go:build linux && gorgonia

package gorgonia

import (
	"errors"
	"reflect"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"github.com/quiver-gpu/quiver/cudabuf/internal/libcuda"
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
