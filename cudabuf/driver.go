package cudabuf

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// Driver is a CUDA driver and its devices. It may be used from any goroutine.
type Driver struct {
	api          driver.API
	version      int
	count        int
	recordStacks bool       // PoolOptions.Stacks of the devices' own pools
	pinnedBlocks hostRanges // memory of PinnedAllocators
	hostBuffers  hostRanges // memory of HostBuffers

	imported importedPools

	mu      sync.Mutex
	devices map[int]*Device // of primary contexts, by ordinal
	wrapped []*Device       // of callers' contexts
	closed  bool
}

// Open opens the driver of this machine: libcuda.so.1, as the dynamic loader
// finds it, in the places that WSL, NixOS and containers put it, or at the path
// in the environment variable QUIVER_LIBCUDA. Without one the error is
// ErrNoDriver, with a driver but no GPU it is ErrNoDevice.
//
// CUDA_VISIBLE_DEVICES counts, as for every CUDA program. Each call answers a
// Driver of its own, with devices and caches of its own.
func Open() (*Driver, error) {
	api, err := openDriver()
	if err != nil {
		return nil, fmt.Errorf("opening CUDA: %w", err)
	}
	return New(api, false)
}

// New makes a Driver of one of this module's drivers. Programs use Open, and
// tests cudatest.New. With stacks, the pools that devices have of their own
// remember who allocates, and Close says so of what is in use.
func New(api driver.API, stacks bool) (*Driver, error) {
	d := &Driver{api: api, recordStacks: stacks, devices: map[int]*Device{}}
	err := api.Init()
	if err == nil {
		d.version, err = api.DriverGetVersion()
	}
	if err == nil {
		d.count, err = api.DeviceGetCount()
	}
	if err != nil {
		return nil, fmt.Errorf("opening CUDA: %w", err)
	}
	return d, nil
}

// Count is the number of devices.
func (d *Driver) Count() int { return d.count }

// Version is the newest CUDA version that the driver supports, 12.8 for
// instance (cuDriverGetVersion).
func (d *Driver) Version() (major, minor int) { return d.version / 1000, d.version % 1000 / 10 }

// Device returns the device of an ordinal, the same one on every call. The
// first call retains the device's primary context, which takes a fraction of a
// second where no one has yet. An ordinal outside [0, Count) is ErrNoDevice.
func (d *Driver) Device(ordinal int) (*Device, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, fmt.Errorf("cuda:%d: %w", ordinal, ErrClosed)
	}
	if dev, ok := d.devices[ordinal]; ok {
		return dev, nil
	}
	if ordinal < 0 || ordinal >= d.count {
		return nil, fmt.Errorf("cuda:%d: %w: the driver has %d", ordinal, ErrNoDevice, d.count)
	}
	dev, err := openDevice(d, ordinal, 0)
	if err != nil {
		return nil, fmt.Errorf("cuda:%d: %w", ordinal, err)
	}
	d.devices[ordinal] = dev
	return dev, nil
}

// DeviceByUUID returns the device with a UUID, as Device does, or ErrNoDevice.
func (d *Driver) DeviceByUUID(id UUID) (*Device, error) {
	for ordinal := range d.count {
		h, err := d.api.DeviceGet(ordinal)
		if err != nil {
			return nil, err
		}
		found, err := d.api.DeviceGetUUID(h)
		if err != nil {
			return nil, err
		}
		if found == id {
			return d.Device(ordinal)
		}
	}
	return nil, fmt.Errorf("GPU-%v: %w among the %d visible", id, ErrNoDevice, d.count)
}

// Close gives back all that the driver holds, after what Stream.After has yet to
// run. It refuses, and does nothing,
// while a buffer or pinned memory of a device is in use: the error says how
// much. It must not run at the same time as other calls of the devices. A
// second Close does nothing.
func (d *Driver) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	devices := slices.SortedFunc(maps.Values(d.devices), func(a, b *Device) int { return cmp.Compare(a.ordinal, b.ordinal) })
	devices = append(slices.Clone(d.wrapped), devices...)
	var failure error
	for _, dev := range devices {
		dev.callbacks.runAll(dev)
	}
	for _, dev := range devices {
		failure = errors.Join(failure, dev.checkIdle())
	}
	if failure != nil {
		return failure
	}
	d.closed = true
	// Memory of one device may still be used by streams of another.
	for _, dev := range devices {
		_ = dev.Synchronize() // what it reports, closing reports
	}
	for _, dev := range devices {
		failure = errors.Join(failure, dev.close())
	}
	return errors.Join(failure, d.api.Close())
}

// WrapContext returns a device that works in a caller's own context (CUcontext)
// in place of the device's primary one, the same device on every call. The
// context stays the caller's, who destroys it after the Driver's Close. Which
// GPU it is, the context knows.
//
// Every call of the package sets the context of its thread and leaves it set.
// Code that relies on a current context of its own sets that again afterwards.
func (d *Driver) WrapContext(handle uintptr) (*Device, error) {
	context := driver.Context(handle)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, fmt.Errorf("context %#x: %w", handle, ErrClosed)
	}
	for _, dev := range d.wrapped {
		if dev.context == context {
			return dev, nil
		}
	}
	ordinal, err := d.ordinalOf(context)
	if err != nil {
		return nil, fmt.Errorf("context %#x: %w", handle, err)
	}
	dev, err := openDevice(d, ordinal, context)
	if err != nil {
		return nil, fmt.Errorf("cuda:%d: context %#x: %w", ordinal, handle, err)
	}
	d.wrapped = append(d.wrapped, dev)
	return dev, nil
}

// ordinalOf asks a context for its device.
func (d *Driver) ordinalOf(context driver.Context) (int, error) {
	if context == 0 {
		return 0, &Error{Call: "cuCtxSetCurrent", Code: driver.InvalidContext, Detail: "no context is given"}
	}
	// A Device that is good for nothing but entering the context.
	scratch := &Device{driver: d, api: d.api, context: context}
	var handle driver.Device
	err := scratch.withContext(func() (err error) { handle, err = d.api.CtxGetDevice(); return err })
	if err != nil {
		return 0, err
	}
	for ordinal := range d.count {
		if h, err := d.api.DeviceGet(ordinal); err != nil {
			return 0, err
		} else if h == handle {
			return ordinal, nil
		}
	}
	return 0, ErrNoDevice
}

// Schedule says what a thread does that waits for a GPU.
type Schedule uint32

// The ways to wait, CU_CTX_SCHED_ and the same word each.
const (
	ScheduleAuto         Schedule = Schedule(driver.CtxSchedAuto)
	ScheduleSpin         Schedule = Schedule(driver.CtxSchedSpin)
	ScheduleYield        Schedule = Schedule(driver.CtxSchedYield)
	ScheduleBlockingSync Schedule = Schedule(driver.CtxSchedBlockingSync)
)

// SetSchedule says how threads of the whole process wait for a device's primary
// context (cuDevicePrimaryCtxSetFlags). It may be called before or after Device
// of the ordinal.
func (d *Driver) SetSchedule(ordinal int, s Schedule) error {
	if ordinal < 0 || ordinal >= d.count {
		return fmt.Errorf("cuda:%d: %w: the driver has %d", ordinal, ErrNoDevice, d.count)
	}
	h, err := d.api.DeviceGet(ordinal)
	if err == nil {
		err = d.api.DevicePrimaryCtxSetFlags(h, uint32(s))
	}
	if err != nil {
		return fmt.Errorf("cuda:%d: setting the schedule: %w", ordinal, err)
	}
	return nil
}

// Errors that a caller can act on, beside arrowbuf's; test with errors.Is.
var (
	// ErrNoDriver: there is no CUDA driver on this machine. The text says
	// what was looked for and where.
	ErrNoDriver = driver.ErrNoDriver
	// ErrNoDevice: the driver has no device, or none of that ordinal.
	ErrNoDevice = driver.ErrNoDevice
	// ErrDeviceLost: the context is broken by an earlier failure, such as a
	// kernel's wild pointer. Every later call in the process fails alike.
	ErrDeviceLost = driver.ErrDeviceLost
	// ErrClosed: the Driver, or the stream, was closed.
	ErrClosed = driver.ErrClosed
	// ErrReadOnly: a write to a buffer of Buffer.ReadOnly.
	ErrReadOnly = errors.New("buffer is read-only")
)

// Error is a driver call that failed: the Call, such as "cuMemAlloc", the Code
// that it returned, and a Detail where more is known. Find it with errors.As
// and a *Error.
type Error = driver.Error

// Result is a CUresult. Its Name is the one in cuda.h, known also where the
// driver is absent.
type Result = driver.Result

// errNilBuffer is of a buffer that is nil, beside one that is not.
var errNilBuffer = fmt.Errorf("cuda: there is no other buffer: %w", arrowbuf.ErrDevice)
