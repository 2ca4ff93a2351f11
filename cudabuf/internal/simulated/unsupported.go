//go:build !linux

package simulated

import (
	"fmt"
	"runtime"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// Open answers an error: device memory that faults when the host touches it
// needs Linux's memfd.
func Open(Config) (driver.API, error) {
	return nil, fmt.Errorf("the soft CUDA driver needs linux, not %s", runtime.GOOS)
}

// Describe knows no addresses where there are no devices.
func Describe(uintptr) (string, bool) { return "", false }
