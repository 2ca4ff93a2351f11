//go:build !linux

package collective

import (
	"fmt"
	"runtime"
)

// openLibrary reports that NCCL is missing: it is supported only on Linux.
func openLibrary(string) (l *library, missing, err error) {
	return nil, fmt.Errorf("not supported on %s: want linux", runtime.GOOS), nil
}
