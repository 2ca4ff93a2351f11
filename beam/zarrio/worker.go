package zarrio

import (
	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/device"
)

// Worker says what each partition may use where it is written. A worker may write several
// at once, so the zero value is right only if a worker has one slot.
type Worker struct {
	// Device is cpu, cuda, cuda:N or auto. Empty is cpu.
	Device string
	// Jobs, MaxMemory and StoreConcurrency are those of arrowzarr.Options.
	Jobs             int
	MaxMemory        int64
	StoreConcurrency int
}

// options returns options with those of the worker, except for the device.
func (w Worker) options(o arrowzarr.Options) arrowzarr.Options {
	o.Jobs, o.MaxMemory, o.StoreConcurrency = w.Jobs, w.MaxMemory, w.StoreConcurrency
	return o
}

// workerDevice is the open device of a worker.
type workerDevice struct {
	arrowbuf.Device
	closing func() error
}

func (d *workerDevice) open(name string) (err error) {
	if name == "" {
		name = "cpu"
	}
	d.Device, _, d.closing, err = device.Open(name, cudabuf.Open)
	return err
}

func (d *workerDevice) close() error {
	if d.closing == nil {
		return nil
	}
	closing := d.closing
	d.Device, d.closing = nil, nil
	return closing()
}
