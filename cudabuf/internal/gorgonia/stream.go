//go:build linux && gorgonia

package gorgonia

import (
	"errors"

	"gorgonia.org/cu"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

func (d *Driver) StreamCreateWithPriority(flags uint32, priority int) (driver.Stream, error) {
	s, err := cu.MakeStreamWithPriority(priority, cu.StreamFlags(flags))
	return driver.Stream(handle(s)), check("cuStreamCreateWithPriority", err)
}

func (d *Driver) StreamDestroy(s driver.Stream) error {
	theirs := stream(s)
	return check("cuStreamDestroy", theirs.Destroy())
}

func (d *Driver) StreamSynchronize(s driver.Stream) error {
	return check("cuStreamSynchronize", stream(s).Synchronize())
}

func (d *Driver) StreamQuery(s driver.Stream) (bool, error) {
	return done("cuStreamQuery", stream(s).Query())
}

func (d *Driver) StreamWaitEvent(s driver.Stream, e driver.Event) error {
	return check("cuStreamWaitEvent", stream(s).Wait(event(e), 0))
}

func (d *Driver) StreamGetPriority(s driver.Stream) (int, error) {
	p, err := stream(s).Priority()
	return p, check("cuStreamGetPriority", err)
}

func (d *Driver) EventCreate(flags uint32) (driver.Event, error) {
	e, err := cu.MakeEvent(cu.EventFlags(flags))
	return driver.Event(handle(e)), check("cuEventCreate", err)
}

func (d *Driver) EventDestroy(e driver.Event) error {
	theirs := event(e)
	return check("cuEventDestroy", cu.DestroyEvent(&theirs))
}

func (d *Driver) EventRecord(e driver.Event, s driver.Stream) error {
	return check("cuEventRecord", event(e).Record(stream(s)))
}

func (d *Driver) EventQuery(e driver.Event) (bool, error) {
	return done("cuEventQuery", event(e).Query())
}

func (d *Driver) EventSynchronize(e driver.Event) error {
	return check("cuEventSynchronize", event(e).Synchronize())
}

func (d *Driver) EventElapsedTime(start, end driver.Event) (float32, error) {
	ms, err := event(start).Elapsed(event(end))
	return float32(ms), check("cuEventElapsedTime", err)
}

// done makes an answer of a query's error.
func done(call string, err error) (bool, error) {
	err = check(call, err)
	var e *driver.Error
	if errors.As(err, &e) && e.Code == driver.NotReady {
		return false, nil
	}
	return err == nil, err
}
