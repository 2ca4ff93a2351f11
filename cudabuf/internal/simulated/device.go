//go:build linux

package simulated

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// device is one simulated GPU.
type device struct {
	ordinal int
	context driver.Context // handle of the primary context
	primary *context
	deviceMemory

	retained int // references to the primary context; guarded by Driver.mu
	lost     atomic.Pointer[driver.Error]
}

// lose marks the device as lost if err contains a sticky result.
func (dev *device) lose(err error) {
	var e *driver.Error
	if errors.As(err, &e) && e.Code.Sticky() {
		dev.lost.CompareAndSwap(nil, e)
	}
}

// alive returns an error if the device is lost. The error holds the result that
// lost it.
func (dev *device) alive(call string) error {
	if lost := dev.lost.Load(); lost != nil {
		return &driver.Error{Call: call, Code: lost.Code, Detail: "lost: " + lost.Error()}
	}
	return nil
}

func (d *Driver) DeviceGetCount() (int, error) {
	return len(d.devices), d.enter("cuDeviceGetCount")
}

func (d *Driver) DeviceGet(ordinal int) (driver.Device, error) {
	_, err := d.enterDevice("cuDeviceGet", driver.Device(ordinal))
	return driver.Device(ordinal), err
}

func (d *Driver) DeviceGetName(h driver.Device) (string, error) {
	_, err := d.enterDevice("cuDeviceGetName", h)
	return "Simulated CUDA device", err
}

// DeviceGetUUID returns the same UUID in every process, because another process
// can open memory of the device.
func (d *Driver) DeviceGetUUID(h driver.Device) (id driver.UUID, err error) {
	dev, err := d.enterDevice("cuDeviceGetUuid", h)
	if err == nil {
		copy(id[:], "quiver-sim--")
		binary.BigEndian.PutUint32(id[12:], uint32(dev.ordinal))
	}
	return id, err
}

// DeviceGetPCIBusID returns a different bus for each device.
func (d *Driver) DeviceGetPCIBusID(h driver.Device) (string, error) {
	dev, err := d.enterDevice("cuDeviceGetPCIBusId", h)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%04x:%02x:00.0", dev.ordinal>>8, dev.ordinal&0xff), nil
}

func (d *Driver) DeviceGetAttribute(a driver.Attribute, h driver.Device) (int, error) {
	const call = "cuDeviceGetAttribute"
	if _, err := d.enterDevice(call, h); err != nil {
		return 0, err
	}
	if v := d.config.ComputeCapability; v != [2]int{} {
		switch a {
		case driver.ComputeCapabilityMajor:
			return v[0], nil
		case driver.ComputeCapabilityMinor:
			return v[1], nil
		}
	}
	v, ok := attributes[a]
	if !ok {
		return 0, &driver.Error{Call: call, Code: driver.InvalidValue, Detail: fmt.Sprintf("the simulated driver has no attribute %d", a)}
	}
	return v, nil
}

func (d *Driver) DeviceTotalMem(h driver.Device) (int64, error) {
	dev, err := d.enterDevice("cuDeviceTotalMem", h)
	if err != nil {
		return 0, err
	}
	return dev.arena.size, nil
}

func (d *Driver) DeviceCanAccessPeer(h, peer driver.Device) (bool, error) {
	const call = "cuDeviceCanAccessPeer"
	dev, err := d.enterDevice(call, h)
	if err != nil {
		return false, err
	}
	other, err := d.lookupDevice(call, peer)
	return err == nil && d.canReach(dev, other), err
}

// enterDevice begins a call that needs a device but no context.
func (d *Driver) enterDevice(call string, h driver.Device) (*device, error) {
	if err := d.enter(call); err != nil {
		return nil, err
	}
	return d.lookupDevice(call, h)
}

func (d *Driver) lookupDevice(call string, h driver.Device) (*device, error) {
	if h < 0 || int(h) >= len(d.devices) {
		return nil, driver.ResultError(call, driver.InvalidDevice)
	}
	return d.devices[h], nil
}

// Limits of compute capability 9.0, from the table of technical specifications
// in NVIDIA's CUDA C++ Programming Guide. SM is a multiprocessor.
const (
	multiprocessors        = 2
	warpSize               = 32
	maxThreadsPerBlock     = 1024
	maxThreadsPerSM        = 2048
	maxBlocksPerSM         = 32
	registersPerSM         = 64 << 10
	registerUnit           = 256 // the registers of a warp are rounded up to a multiple
	sharedPerBlock         = 48 << 10
	sharedPerBlockOptin    = 227 << 10
	sharedPerSM            = 228 << 10
	sharedReservedPerBlock = 1 << 10
)

var (
	maxBlockDim = driver.Dim3{X: 1024, Y: 1024, Z: 64}
	maxGridDim  = driver.Dim3{X: 1<<31 - 1, Y: 65535, Z: 65535}
)

var attributes = map[driver.Attribute]int{
	driver.MaxThreadsPerBlock:           maxThreadsPerBlock,
	driver.MaxBlockDimX:                 int(maxBlockDim.X),
	driver.MaxBlockDimY:                 int(maxBlockDim.Y),
	driver.MaxBlockDimZ:                 int(maxBlockDim.Z),
	driver.MaxGridDimX:                  int(maxGridDim.X),
	driver.MaxGridDimY:                  int(maxGridDim.Y),
	driver.MaxGridDimZ:                  int(maxGridDim.Z),
	driver.MaxSharedMemoryPerBlock:      sharedPerBlock,
	driver.WarpSize:                     warpSize,
	driver.ClockRate:                    1_000_000,
	driver.MultiprocessorCount:          multiprocessors,
	driver.CanMapHostMemory:             1,
	driver.L2CacheSize:                  4 << 20,
	driver.MaxThreadsPerMultiprocessor:  maxThreadsPerSM,
	driver.AsyncEngineCount:             2,
	driver.UnifiedAddressing:            1,
	driver.ComputeCapabilityMajor:       9,
	driver.ComputeCapabilityMinor:       0,
	driver.MaxSharedMemoryPerBlockOptin: sharedPerBlockOptin,
	driver.ConcurrentManagedAccess:      1,
	driver.VirtualMemoryManagement:      1,
	driver.PosixFileDescriptorHandles:   1,
	driver.MemoryPoolsSupported:         1,
	driver.MemPoolHandleTypes:           1, // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
	driver.IPCEventSupported:            1,
}

// enterNamedDevice begins a call that names a device and also needs a current
// context.
func (d *Driver) enterNamedDevice(call string, h driver.Device) (*device, error) {
	if _, err := d.enterCurrentDevice(call); err != nil {
		return nil, err
	}
	return d.lookupDevice(call, h)
}
