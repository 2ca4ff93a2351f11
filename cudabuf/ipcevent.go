package cudabuf

import (
	"fmt"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// EventHandle names an event of this process for another one on the same
// machine (CUipcEventHandle).
type EventHandle [64]byte

// ExportIPC returns a handle by which another process opens the event, which
// has EventOptions.Interprocess (cuIpcGetEventHandle). Both then record it and
// wait for it. What CUDA does with those who have it open after Close here is
// undefined.
func (e *Event) ExportIPC() (EventHandle, error) {
	var h driver.IPCEventHandle
	err := e.do(func() (err error) { h, err = e.dev.api.IpcGetEventHandle(e.handle); return err })
	if err != nil {
		return EventHandle{}, fmt.Errorf("exporting an event: %w", err)
	}
	return EventHandle(h), nil
}

// OpenIPCEvent returns the event that a handle of another process names
// (cuIpcOpenEventHandle). It has no Timing. The caller closes it.
func (d *Device) OpenIPCEvent(h EventHandle) (*Event, error) {
	e := &Event{dev: d}
	err := d.do(func() (err error) { e.handle, err = d.api.IpcOpenEventHandle(driver.IPCEventHandle(h)); return err })
	if err != nil {
		return nil, fmt.Errorf("opening an event of another process: %w", ownHandle(err))
	}
	return e, nil
}
