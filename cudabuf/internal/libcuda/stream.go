//go:build linux

package libcuda

import (
	"unsafe"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

func (d *Driver) StreamCreateWithPriority(flags uint32, priority int) (driver.Stream, error) {
	var s driver.Stream
	err := d.call(cuStreamCreateWithPriority, uintptr(unsafe.Pointer(&s)), uintptr(flags), uintptr(priority))
	return s, err
}

func (d *Driver) StreamDestroy(s driver.Stream) error { return d.call(cuStreamDestroy, uintptr(s)) }

func (d *Driver) StreamSynchronize(s driver.Stream) error {
	return d.plain(cuStreamSynchronize, uintptr(s))
}

func (d *Driver) StreamQuery(s driver.Stream) (bool, error) {
	return done("cuStreamQuery", d.result(cuStreamQuery, uintptr(s)))
}

func (d *Driver) StreamWaitEvent(s driver.Stream, e driver.Event) error {
	return d.plain(cuStreamWaitEvent, uintptr(s), uintptr(e), 0)
}

func (d *Driver) StreamGetPriority(s driver.Stream) (int, error) {
	var p int32
	err := d.call(cuStreamGetPriority, uintptr(s), uintptr(unsafe.Pointer(&p)))
	return int(p), err
}

func (d *Driver) StreamGetCtx(s driver.Stream) (driver.Context, error) {
	var c driver.Context
	err := d.call(cuStreamGetCtx, uintptr(s), uintptr(unsafe.Pointer(&c)))
	return c, err
}

func (d *Driver) EventCreate(flags uint32) (driver.Event, error) {
	var e driver.Event
	err := d.call(cuEventCreate, uintptr(unsafe.Pointer(&e)), uintptr(flags))
	return e, err
}

func (d *Driver) EventDestroy(e driver.Event) error { return d.call(cuEventDestroy, uintptr(e)) }

func (d *Driver) EventRecord(e driver.Event, s driver.Stream) error {
	return d.plain(cuEventRecord, uintptr(e), uintptr(s))
}

func (d *Driver) EventQuery(e driver.Event) (bool, error) {
	return done("cuEventQuery", d.result(cuEventQuery, uintptr(e)))
}

func (d *Driver) EventSynchronize(e driver.Event) error {
	return d.plain(cuEventSynchronize, uintptr(e))
}

func (d *Driver) EventElapsedTime(start, end driver.Event) (float32, error) {
	var ms float32
	err := d.call(cuEventElapsedTime, uintptr(unsafe.Pointer(&ms)), uintptr(start), uintptr(end))
	return ms, err
}
