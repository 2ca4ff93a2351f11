// Package device opens a device by the name that a command's --device flag has.
package device

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
)

// ErrInvalidName is the error for a name that is not one of those of Open.
var ErrInvalidName = errors.New("expected auto, cpu, cuda or cuda:N")

// Open opens the device named auto, cpu, cuda or cuda:N. For a GPU, open opens the
// driver. The reason for the choice of auto is returned in why, which is empty for other
// names. The caller must call closing when it no longer uses the device.
func Open(name string, open func() (*cudabuf.Driver, error)) (dev arrowbuf.Device, why string, closing func() error, err error) {
	nothing := func() error { return nil }
	switch {
	case name == "cpu":
		return arrowbuf.CPU(), "", nothing, nil
	case name == "auto":
		dev, closing, err := openCUDA(0, open)
		if errors.Is(err, cudabuf.ErrNoDriver) || errors.Is(err, cudabuf.ErrNoDevice) {
			return arrowbuf.CPU(), "no GPU: " + err.Error(), nothing, nil
		}
		return dev, "a GPU was found", closing, err
	case name == "cuda" || strings.HasPrefix(name, "cuda:"):
		ordinal := 0
		if digits, ok := strings.CutPrefix(name, "cuda:"); ok {
			if ordinal, err = strconv.Atoi(digits); err != nil || ordinal < 0 {
				return nil, "", nil, fmt.Errorf("--device %s: %w", name, ErrInvalidName)
			}
		}
		dev, closing, err := openCUDA(ordinal, open)
		return dev, "", closing, err
	}
	return nil, "", nil, fmt.Errorf("--device %s: %w", name, ErrInvalidName)
}

func openCUDA(ordinal int, open func() (*cudabuf.Driver, error)) (arrowbuf.Device, func() error, error) {
	driver, err := open()
	if err != nil {
		return nil, nil, err
	}
	dev, err := driver.Device(ordinal)
	if err != nil {
		return nil, nil, errors.Join(err, driver.Close())
	}
	return dev, driver.Close, nil
}
