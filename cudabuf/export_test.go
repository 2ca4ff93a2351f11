package cudabuf

import "github.com/quiver-gpu/quiver/cudabuf/internal/driver"

// NewContext makes a context as another library in the process would, and what
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

// Contextless tells whether work for streams is issued without a current
// context; SetContextless says so.
func (d *Device) Contextless() bool        { return d.submitsWithoutContext.Load() }
func (d *Device) SetContextless(free bool) { d.submitsWithoutContext.Store(free) }

// InOrder is inOrder of uses of allocations with such ids: which are left, and
// which of them write.
func InOrder(ids []uint64, write []bool) (left []uint64, writing []bool) {
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

// DriverCall makes the cheapest call that needs no context, for benchmarks of
// what a call costs by itself.
func (d *Device) DriverCall() error {
	_, err := d.api.DriverGetVersion()
	return err
}

// SetStaging chooses how a device copies ordinary memory: from threshold bytes
// on, in parts of least to piece bytes, by so many workers. No copy may be under
// way.
func (d *Device) SetStaging(threshold, least, piece int64, workers int) error {
	err := d.staging.trim()
	d.staging = newStagingPool(d, stagingConfig{threshold: threshold, workers: workers, bufferSize: piece, minPart: least})
	return err
}

// HostRanges is how many ranges of pinned memory the device's driver knows, of
// allocators and of HostBuffers.
func (d *Device) HostRanges() (pinned, hosted int) {
	return len(d.driver.pinnedBlocks.ranges), len(d.driver.hostBuffers.ranges)
}

// PinElsewhere takes pinned memory of the driver as another library would.
func (d *Device) PinElsewhere(n int64) (memory []byte, free func(), err error) {
	address, err := d.allocPinned(n, driver.HostAllocPortable)
	if err != nil {
		return nil, nil, err
	}
	return hostSlice(address, n), func() { _ = d.freePinned(address) }, nil
}
