//go:build !linux

package nvrtc

import (
	"fmt"
	"runtime"
)

// openLibrary reports that NVRTC is missing: it is supported only on Linux.
func openLibrary(string) (c compiler, missing, err error) {
	return nil, fmt.Errorf("not supported on %s: want linux", runtime.GOOS), nil
}
