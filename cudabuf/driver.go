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

// Driver is a loaded CUDA driver and its devices. It may be used from any goroutine.
type Driver struct {
	api          driver.API
	version      int
	count        int
	recordStacks bool       // PoolOptions.Stacks of the devices' built-in pools
	pinnedBlocks hostRanges // blocks of the PinnedAllocators
	registered   sync.Map   // hostPages of pinned memory, by address
	hostBuffers  hostRanges // memory of HostBuffers

	imported importedPools

	mu      sync.Mutex
	devices map[deviceKey]*Device // with primary contexts
	wrapped []*Device             // with contexts of other libraries
	closed  bool
}

// Open loads the CUDA driver of this machine, libcuda.so.1. It searches the paths
// of the dynamic loader and those of WSL, NixOS and containers. The environment
// variable QUIVER_LIBCUDA may name the file instead. The error is ErrNoDriver without
// a driver, and ErrNoDevice without a GPU.
//
// CUDA_VISIBLE_DEVICES applies as in every CUDA program. Each call returns a new
// Driver with its own devices and caches.
func Open() (*Driver, error) {
	api, err := openDriver()
	if err != nil {
		return nil, fmt.Errorf("opening CUDA: %w", err)
	}
	return newDriver(api, false)
}

// newDriver returns a Driver on a driver implementation. With stacks, the devices'
// built-in pools record the stack of each allocation, and the error of Close shows
// those in use.
func newDriver(api driver.API, stacks bool) (*Driver, error) {
	d := &Driver{api: api, recordStacks: stacks, devices: map[deviceKey]*Device{}}
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

// Count returns the number of devices.
func (d *Driver) Count() int { return d.count }

// Version returns the newest CUDA version that the driver supports, such as 12.8
// (cuDriverGetVersion).
func (d *Driver) Version() (major, minor int) { return d.version / 1000, d.version % 1000 / 10 }

// Device returns the device of an ordinal, the same one on every call. The first
// call retains the primary context of the device. Creating that context takes a
// fraction of a second. The error is ErrNoDevice unless 0 <= ordinal < Count.
func (d *Driver) Device(ordinal int) (*Device, error) { return d.device(ordinal, false) }

// deviceKey is a device with its primary context: a GPU and the kind of its memory.
type deviceKey struct {
	ordinal int
	managed bool
}

func (k deviceKey) String() string {
	if k.managed {
		return fmt.Sprintf("%v:%d", arrowbuf.DeviceCUDAManaged, k.ordinal)
	}
	return fmt.Sprintf("%v:%d", arrowbuf.DeviceCUDA, k.ordinal)
}

func (d *Driver) device(ordinal int, managed bool) (*Device, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := deviceKey{ordinal, managed}
	if d.closed {
		return nil, fmt.Errorf("%v: %w", key, ErrClosed)
	}
	if dev, ok := d.devices[key]; ok {
		return dev, nil
	}
	if ordinal < 0 || ordinal >= d.count {
		return nil, fmt.Errorf("%v: %w: the driver has %d devices", key, ErrNoDevice, d.count)
	}
	dev, err := openDevice(d, key, 0)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", key, err)
	}
	d.devices[key] = dev
	return dev, nil
}

// DeviceByUUID returns the device with a UUID, as Device does. The error is
// ErrNoDevice if no visible device has it.
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
		if UUID(found) == id {
			return d.Device(ordinal)
		}
	}
	return nil, fmt.Errorf("GPU-%v: %w among the %d visible", id, ErrNoDevice, d.count)
}

// Close runs the remaining functions of Stream.After, and frees all that the driver
// holds. While a buffer or pinned memory is in use, it does nothing and returns an
// error that lists what is in use. It must not run concurrently with other calls.
// A second Close does nothing.
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
	// Streams of one device may still use memory of another.
	for _, dev := range devices {
		_ = dev.Synchronize() // close reports the same error
	}
	for _, dev := range devices {
		failure = errors.Join(failure, dev.close())
	}
	return errors.Join(failure, d.api.Close())
}

// WrapContext returns a device that uses another library's context (CUcontext) in
// place of the primary one. It returns the same device on every call. The context
// remains the caller's, who may destroy it after Driver.Close.
//
// Every call of this package sets the context of its thread and leaves it set. Code
// that relies on a current context must set its own again.
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
	dev, err := openDevice(d, deviceKey{ordinal: ordinal}, context)
	if err != nil {
		return nil, fmt.Errorf("cuda:%d: context %#x: %w", ordinal, handle, err)
	}
	d.wrapped = append(d.wrapped, dev)
	return dev, nil
}

// ordinalOf returns the ordinal of a context's device.
func (d *Driver) ordinalOf(context driver.Context) (int, error) {
	if context == 0 {
		return 0, &driver.Error{Call: "cuCtxSetCurrent", Code: driver.InvalidContext, Detail: "the context is 0"}
	}
	// A Device that can only bind the context.
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

// Schedule is how a thread waits for a GPU.
type Schedule uint32

// The values of Schedule are those of CU_CTX_SCHED_AUTO, CU_CTX_SCHED_SPIN,
// CU_CTX_SCHED_YIELD and CU_CTX_SCHED_BLOCKING_SYNC.
const (
	ScheduleAuto         Schedule = Schedule(driver.CtxSchedAuto)
	ScheduleSpin         Schedule = Schedule(driver.CtxSchedSpin)
	ScheduleYield        Schedule = Schedule(driver.CtxSchedYield)
	ScheduleBlockingSync Schedule = Schedule(driver.CtxSchedBlockingSync)
)

// SetSchedule sets how threads of the whole process wait for a device's primary
// context (cuDevicePrimaryCtxSetFlags). It may be called before or after Device.
func (d *Driver) SetSchedule(ordinal int, s Schedule) error {
	if ordinal < 0 || ordinal >= d.count {
		return fmt.Errorf("cuda:%d: %w: the driver has %d devices", ordinal, ErrNoDevice, d.count)
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
