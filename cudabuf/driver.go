package cudabuf

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// Driver is a CUDA driver and its devices. It may be used from any goroutine.
type Driver struct {
	api     driver.API
	version int
	count   int
	stacks  bool       // PoolOptions.Stacks of the devices' own pools
	pinned  hostRanges // memory of PinnedAllocators
	hosted  hostRanges // memory of HostBuffers

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
	d := &Driver{api: api, stacks: stacks, devices: map[int]*Device{}}
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
		dev.afters.finish(dev)
	}
	for _, dev := range devices {
		failure = errors.Join(failure, dev.idle())
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
