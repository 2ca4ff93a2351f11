package soft

import "github.com/quiver-gpu/quiver/cudabuf/internal/driver"

func (d *Driver) DevicePrimaryCtxRetain(h driver.Device) (driver.Context, error) {
	dev, err := d.query("cuDevicePrimaryCtxRetain", h)
	if err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if dev.retained++; dev.retained == 1 {
		dev.primary.begin()
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
	if dev.retained == 0 {
		d.mu.Unlock()
		return driver.Check(call, driver.InvalidContext)
	}
	var streams []*stream
	var left []*block
	if dev.retained--; dev.retained == 0 {
		streams, left = d.end(dev.primary), dev.arena.owned(dev.primary)
	}
	d.mu.Unlock()
	drain(streams)
	d.abandon(dev, left)
	return nil
}

func (d *Driver) retained(dev *device) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return dev.retained
}

func (d *Driver) DevicePrimaryCtxGetState(h driver.Device) (flags uint32, active bool, err error) {
	dev, err := d.query("cuDevicePrimaryCtxGetState", h)
	if err != nil {
		return 0, false, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return dev.primary.flags, dev.retained > 0, nil
}

// DevicePrimaryCtxSetFlags works on a live context too, as from CUDA 11 on.
func (d *Driver) DevicePrimaryCtxSetFlags(h driver.Device, flags uint32) error {
	const call = "cuDevicePrimaryCtxSetFlags"
	dev, err := d.query(call, h)
	if err != nil {
		return err
	}
	if !schedules(flags) {
		return driver.Check(call, driver.InvalidValue)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	dev.primary.flags = flags
	return nil
}

// schedules tells whether flags are one of CU_CTX_SCHED_, the only flags of a
// context that the soft driver knows. None of them changes what it does.
func schedules(flags uint32) bool {
	switch flags {
	case driver.CtxSchedAuto, driver.CtxSchedSpin, driver.CtxSchedYield, driver.CtxSchedBlockingSync:
		return true
	}
	return false
}
