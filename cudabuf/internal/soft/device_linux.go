package soft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"golang.org/x/sys/unix"
)

// device is a GPU and its primary context.
type device struct {
	ordinal int
	context driver.Context
	null    *stream
	deviceMemory

	retained int // guarded by Driver.mu, as the rest of the context's life
	leaked   int
	lost     atomic.Pointer[driver.Error]
}

// lose marks the context as lost where an error says so.
func (dev *device) lose(err error) {
	var e *driver.Error
	if errors.As(err, &e) && e.Code.Sticky() {
		dev.lost.CompareAndSwap(nil, e)
	}
}

func (d *Driver) DeviceGetCount() (int, error) {
	return len(d.devices), d.enter("cuDeviceGetCount")
}

func (d *Driver) DeviceGet(ordinal int) (driver.Device, error) {
	const call = "cuDeviceGet"
	if err := d.enter(call); err != nil {
		return 0, err
	}
	_, err := d.device(call, driver.Device(ordinal))
	return driver.Device(ordinal), err
}

func (d *Driver) DeviceGetName(h driver.Device) (string, error) {
	_, err := d.query("cuDeviceGetName", h)
	return "Soft CUDA device", err
}

// DeviceGetUUID counts devices through the process, so that those of two
// drivers differ.
func (d *Driver) DeviceGetUUID(h driver.Device) (id driver.UUID, err error) {
	dev, err := d.query("cuDeviceGetUuid", h)
	if err == nil {
		copy(id[:], "quiver-soft-")
		binary.BigEndian.PutUint32(id[12:], uint32(dev.context))
	}
	return id, err
}

func (d *Driver) DeviceGetAttribute(a driver.Attribute, h driver.Device) (int, error) {
	const call = "cuDeviceGetAttribute"
	if _, err := d.query(call, h); err != nil {
		return 0, err
	}
	v, ok := map[driver.Attribute]int{
		driver.MultiprocessorCount:          2,
		driver.WarpSize:                     32,
		driver.MaxThreadsPerBlock:           1024,
		driver.MaxThreadsPerMultiprocessor:  2048,
		driver.MaxBlockDimX:                 1024,
		driver.MaxBlockDimY:                 1024,
		driver.MaxBlockDimZ:                 64,
		driver.MaxGridDimX:                  1<<31 - 1,
		driver.MaxGridDimY:                  65535,
		driver.MaxGridDimZ:                  65535,
		driver.MaxSharedMemoryPerBlock:      48 << 10,
		driver.MaxSharedMemoryPerBlockOptin: 227 << 10,
		driver.L2CacheSize:                  4 << 20,
		driver.AsyncEngineCount:             2,
		driver.ComputeCapabilityMajor:       9,
		driver.ComputeCapabilityMinor:       0,
	}[a]
	if !ok {
		return 0, &driver.Error{Call: call, Code: driver.InvalidValue, Detail: fmt.Sprintf("the soft driver has no attribute %d", a)}
	}
	return v, nil
}

func (d *Driver) DeviceTotalMem(h driver.Device) (int64, error) {
	dev, err := d.query("cuDeviceTotalMem", h)
	if err != nil {
		return 0, err
	}
	return dev.arena.size, nil
}

func (d *Driver) DevicePrimaryCtxRetain(h driver.Device) (driver.Context, error) {
	dev, err := d.query("cuDevicePrimaryCtxRetain", h)
	if err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if dev.retained++; dev.retained == 1 {
		dev.null = newStream(dev)
	}
	return dev.context, nil
}

// DevicePrimaryCtxRelease ends the context with the last reference, and with
// it everything in it.
func (d *Driver) DevicePrimaryCtxRelease(h driver.Device) error {
	const call = "cuDevicePrimaryCtxRelease"
	dev, err := d.query(call, h)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if dev.retained == 0 {
		return driver.Check(call, driver.InvalidContext)
	}
	if dev.retained--; dev.retained > 0 {
		return nil
	}
	dev.null.close()
	for h, s := range d.streams {
		if s.dev == dev {
			s.close()
			delete(d.streams, h)
		}
	}
	if dev.lost.Load() == nil {
		_, blocks := dev.arena.info()
		dev.leaked += blocks
	}
	return nil
}

func (d *Driver) CtxSetCurrent(c driver.Context) error {
	const call = "cuCtxSetCurrent"
	if err := d.enter(call); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if c == 0 {
		delete(d.threads, unix.Gettid())
		return nil
	}
	for _, dev := range d.devices {
		if dev.context == c && dev.retained > 0 {
			d.threads[unix.Gettid()] = dev
			return nil
		}
	}
	return driver.Check(call, driver.InvalidContext)
}

func (d *Driver) CtxSynchronize() error {
	dev, err := d.current("cuCtxSynchronize")
	if err != nil {
		return err
	}
	d.synchronize(dev)
	if lost := dev.lost.Load(); lost != nil {
		return lost
	}
	return nil
}

// query is for calls that need no context.
func (d *Driver) query(call string, h driver.Device) (*device, error) {
	if err := d.enter(call); err != nil {
		return nil, err
	}
	return d.device(call, h)
}

func (d *Driver) device(call string, h driver.Device) (*device, error) {
	if h < 0 || int(h) >= len(d.devices) {
		return nil, driver.Check(call, driver.InvalidDevice)
	}
	return d.devices[h], nil
}
