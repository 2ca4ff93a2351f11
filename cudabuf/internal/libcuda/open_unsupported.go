//go:build !linux

package libcuda

import (
	"fmt"
	"runtime"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// Open answers driver.ErrNoDriver: CUDA devices are supported on Linux.
func Open() (driver.API, error) {
	return nil, fmt.Errorf("%w: not supported on %s, only on linux", driver.ErrNoDriver, runtime.GOOS)
}
