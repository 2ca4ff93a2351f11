//go:build !linux

package simulated

import (
	"fmt"
	"runtime"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// Open returns an error. Device memory that faults when the host touches it
// needs memfd, which only Linux has.
func Open(Config) (driver.API, error) {
	return nil, fmt.Errorf("simulated CUDA devices need linux, not %s", runtime.GOOS)
}

// Describe reports false: this system has no simulated devices.
func Describe(uintptr) (string, bool) { return "", false }
