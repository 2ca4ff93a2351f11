// Package device opens a device by the name that a command's --device flag has.
package device

import (
	"errors"
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
)

// Open opens the device of a name, see cudabuf.OpenDevice. For a GPU, open opens the
// driver. The reason for the choice of auto is returned in why, which is empty for other
// names. The caller must call closing when it no longer uses the device. The error is
// cudabuf.ErrInvalidName for a name of another form.
func Open(name string, open func() (*cudabuf.Driver, error)) (dev arrowbuf.Device, why string, closing func() error, err error) {
	nothing := func() error { return nil }
	if err := cudabuf.CheckDeviceName(name); err != nil {
		return nil, "", nil, fmt.Errorf("--device: %w", err)
	}
	if name == "cpu" {
		return arrowbuf.CPU(), "", nothing, nil
	}
	driver, err := open()
	if err == nil {
		if dev, err = driver.DeviceByName(name); err != nil {
			err = errors.Join(err, driver.Close())
		}
	}
	switch noGPU := errors.Is(err, cudabuf.ErrNoDriver) || errors.Is(err, cudabuf.ErrNoDevice); {
	case name == "auto" && noGPU:
		return arrowbuf.CPU(), "no GPU: " + err.Error(), nothing, nil
	case err != nil:
		return nil, "", nil, err
	case name == "auto":
		why = "a GPU was found"
	}
	return dev, why, driver.Close, nil
}
