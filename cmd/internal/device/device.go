// Package device opens devices by the names that users type.
package device

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
)

// ErrInvalidName: what the user typed names no device.
var ErrInvalidName = errors.New("expected auto, cpu, cuda or cuda:N")

// Open opens a device by name, with a driver that open opens when a GPU is
// asked for. It returns, with the device, a word on why it was chosen where the
// user left that open, and a function that gives the device back.
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
		return dev, "a GPU is there", closing, err
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
