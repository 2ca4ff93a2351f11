package cudabuf

import (
	"fmt"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

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
	err := scratch.do(func() (err error) { handle, err = d.api.CtxGetDevice(); return err })
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
