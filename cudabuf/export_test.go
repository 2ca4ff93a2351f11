package cudabuf

import (
	"testing"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// NewContext creates a context as another library would, and returns a function that
// destroys it.
func (d *Driver) NewContext(ordinal int) (handle uintptr, destroy func() error, err error) {
	dev, err := d.Device(ordinal)
	if err != nil {
		return 0, nil, err
	}
	var context driver.Context
	err = dev.withContext(func() (err error) { context, err = d.api.CtxCreate(0, dev.handle); return err })
	return uintptr(context), func() error { return dev.withContext(func() error { return d.api.CtxDestroy(context) }) }, err
}

// SubmitsWithoutContext reports whether work on streams is enqueued without a current
// context. SetSubmitsWithoutContext sets it.
func (d *Device) SubmitsWithoutContext() bool     { return d.submitsWithoutContext.Load() }
func (d *Device) SetSubmitsWithoutContext(v bool) { d.submitsWithoutContext.Store(v) }

// SortAndMerge is sortAndMerge for accesses to allocations with the given ids. It returns
// the remaining ids and which of them are written.
func SortAndMerge(ids []uint64, write []bool) (left []uint64, writing []bool) {
	memory := map[uint64]*allocation{}
	var list []access
	for i, id := range ids {
		if memory[id] == nil {
			memory[id] = &allocation{id: id}
		}
		list = append(list, access{memory[id], accessMode(write[i])})
	}
	for _, u := range sortAndMerge(list) {
		left, writing = append(left, u.memory.id), append(writing, bool(u.mode))
	}
	return left, writing
}

// DriverCall makes the cheapest driver call that needs no context.
func (d *Device) DriverCall() error {
	_, err := d.api.DriverGetVersion()
	return err
}

// SetStaging sets the parameters of staged copies: the threshold, the minimum part, the
// buffer size, all in bytes, and the number of workers, each of which has two buffers. No
// copy may be running.
func (d *Device) SetStaging(threshold, minPart, bufferSize int64, workers int) error {
	err := d.staging.trim()
	d.staging = newStagingPool(d, stagingConfig{threshold: threshold, workers: workers, readers: workers, bufferSize: bufferSize, buffers: 2 * workers, minPart: minPart, minSlice: minPart / 2, undivided: bufferSize})
	return err
}

// HostRanges returns the number of known ranges of pinned memory, those of allocators and
// those of HostBuffers.
func (d *Device) HostRanges() (allocators, hostBuffers int) {
	return len(d.driver.pinnedBlocks.ranges), len(d.driver.hostBuffers.ranges)
}

// PinElsewhere allocates pinned memory as another library would.
func (d *Device) PinElsewhere(n int64) (memory []byte, free func(), err error) {
	address, err := d.allocPinned(n, driver.HostAllocPortable)
	if err != nil {
		return nil, nil, err
	}
	return hostSlice(address, n), func() { _ = d.freePinned(address) }, nil
}

// SetSharedOpen replaces the function by which OpenDevice opens a driver, until the test
// ends.
func SetSharedOpen(t *testing.T, open func() (*Driver, error)) {
	before := shared.open
	shared.open = open
	t.Cleanup(func() { shared.open = before })
}

// PrimaryContext returns the handle of the primary context of a device.
func (d *Driver) PrimaryContext(ordinal int) (uintptr, error) {
	h, err := d.api.DeviceGet(ordinal)
	if err != nil {
		return 0, err
	}
	context, err := d.api.DevicePrimaryCtxRetain(h)
	if err != nil {
		return 0, err
	}
	return uintptr(context), d.api.DevicePrimaryCtxRelease(h)
}

// ScheduleOf returns the schedule in the flags of a primary context.
func (d *Driver) ScheduleOf(ordinal int) (Schedule, error) {
	h, err := d.api.DeviceGet(ordinal)
	if err != nil {
		return 0, err
	}
	const mask = 7 // CU_CTX_SCHED_MASK
	flags, _, err := d.api.DevicePrimaryCtxGetState(h)
	return Schedule(flags & mask), err
}
