package main

import (
	"errors"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/cmd/internal/device"
	"github.com/quiver-gpu/quiver/cudabuf"
)

// openDriver opens the CUDA driver. Tests put a driver in software here.
var openDriver = cudabuf.Open

// openDevice is device.Open, whose failures are the device's but for a name that
// is none.
func openDevice(name string) (dev arrowbuf.Device, why string, closing func() error, err error) {
	dev, why, closing, err = device.Open(name, openDriver)
	if err != nil && !errors.Is(err, device.ErrInvalidName) {
		err = &arrowzarr.Error{Part: arrowzarr.PartDevice, Err: err}
	}
	return dev, why, closing, err
}
