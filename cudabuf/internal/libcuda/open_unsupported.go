//go:build !linux

package libcuda

import (
	"fmt"
	"runtime"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// Open returns an error wrapping driver.ErrNoDriver: CUDA devices are supported
// only on Linux.
func Open() (driver.API, error) {
	return nil, fmt.Errorf("%w: CUDA is not supported on %s: want linux", driver.ErrNoDriver, runtime.GOOS)
}
