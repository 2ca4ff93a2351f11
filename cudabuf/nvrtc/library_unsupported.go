//go:build !linux

package nvrtc

import (
	"fmt"
	"runtime"
)

// openLibrary answers that there is no NVRTC: it is supported on Linux.
func openLibrary(string) (c compiler, missing, err error) {
	return nil, fmt.Errorf("not supported on %s, only on linux", runtime.GOOS), nil
}
