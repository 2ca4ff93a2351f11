package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/cudabuf"
)

// openDriver opens the CUDA driver. Tests put a driver in software here.
var openDriver = cudabuf.Open

// openDevice opens a device by the name that the user gave. It returns, with
// the device, a word on why it was chosen where the user left that open, and a
// function that gives the device back.
func openDevice(name string) (dev arrowbuf.Device, why string, closing func() error, err error) {
	nothing := func() error { return nil }
	switch {
	case name == "cpu":
		return arrowbuf.CPU(), "", nothing, nil
	case name == "auto":
		dev, closing, err := openCUDA(0)
		if errors.Is(err, cudabuf.ErrNoDriver) || errors.Is(err, cudabuf.ErrNoDevice) {
			return arrowbuf.CPU(), "no GPU: " + err.Error(), nothing, nil
		}
		return dev, "a GPU is there", closing, err
	case name == "cuda" || strings.HasPrefix(name, "cuda:"):
		ordinal := 0
		if digits, ok := strings.CutPrefix(name, "cuda:"); ok {
			if ordinal, err = strconv.Atoi(digits); err != nil || ordinal < 0 {
				return nil, "", nil, fmt.Errorf("--device %s: expected auto, cpu, cuda or cuda:N", name)
			}
		}
		dev, closing, err := openCUDA(ordinal)
		return dev, "", closing, err
	}
	return nil, "", nil, fmt.Errorf("--device %s: expected auto, cpu, cuda or cuda:N", name)
}

func openCUDA(ordinal int) (arrowbuf.Device, func() error, error) {
	driver, err := openDriver()
	if err != nil {
		return nil, nil, &arrowzarr.Error{Part: arrowzarr.PartDevice, Err: err}
	}
	dev, err := driver.Device(ordinal)
	if err != nil {
		return nil, nil, &arrowzarr.Error{Part: arrowzarr.PartDevice, Err: errors.Join(err, driver.Close())}
	}
	return dev, driver.Close, nil
}
