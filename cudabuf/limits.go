package cudabuf

import (
	"fmt"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// Limits are a GPU's, in bytes, threads and blocks (cuDeviceGetAttribute).
type Limits struct {
	Multiprocessors             int
	WarpSize                    int    // threads
	MaxThreadsPerBlock          int    // threads
	MaxThreadsPerMultiprocessor int    // threads
	MaxBlock                    [3]int // threads in X, Y, Z
	MaxGrid                     [3]int // blocks in X, Y, Z
	SharedPerBlock              int64  // bytes, without opting in
	SharedPerBlockOptin         int64  // bytes, what Kernel.SetMaxDynamicShared may reach
	L2Bytes                     int64
	CopyEngines                 int
}

// Limits are the GPU's.
func (d *Device) Limits() Limits { return d.limits }

// Arch is the architecture as compilers name it: "sm_90" for 9.0, "sm_100" for
// 10.0.
func (d *Device) Arch() string { return fmt.Sprintf("sm_%d%d", d.major, d.minor) }

// LargestBlock is the most that one allocation can get now, in bytes: what is
// free on the GPU, or one idle block of the device's own that is larger. It is
// an estimate, since free memory may be in pieces.
func (d *Device) LargestBlock() (int64, error) {
	free, _, err := d.MemInfo()
	if largest := d.Pool().kind.largest; err == nil && largest != nil {
		free = max(free, largest())
	}
	return free, err
}

// readLimits asks for what every driver knows.
func (d *Device) readLimits() error {
	l := &d.limits
	var shared, optin, l2 int
	for _, ask := range []func() error{
		d.attribute(&l.Multiprocessors, driver.MultiprocessorCount),
		d.attribute(&l.WarpSize, driver.WarpSize),
		d.attribute(&l.MaxThreadsPerBlock, driver.MaxThreadsPerBlock),
		d.attribute(&l.MaxThreadsPerMultiprocessor, driver.MaxThreadsPerMultiprocessor),
		d.attribute(&l.MaxBlock[0], driver.MaxBlockDimX),
		d.attribute(&l.MaxBlock[1], driver.MaxBlockDimY),
		d.attribute(&l.MaxBlock[2], driver.MaxBlockDimZ),
		d.attribute(&l.MaxGrid[0], driver.MaxGridDimX),
		d.attribute(&l.MaxGrid[1], driver.MaxGridDimY),
		d.attribute(&l.MaxGrid[2], driver.MaxGridDimZ),
		d.attribute(&shared, driver.MaxSharedMemoryPerBlock),
		d.attribute(&optin, driver.MaxSharedMemoryPerBlockOptin),
		d.attribute(&l2, driver.L2CacheSize),
		d.attribute(&l.CopyEngines, driver.AsyncEngineCount),
	} {
		if err := ask(); err != nil {
			return err
		}
	}
	l.SharedPerBlock, l.SharedPerBlockOptin, l.L2Bytes = int64(shared), int64(optin), int64(l2)
	return nil
}

func (d *Device) attribute(v *int, a driver.Attribute) func() error {
	return func() (err error) { *v, err = d.api.DeviceGetAttribute(a, d.handle); return err }
}
