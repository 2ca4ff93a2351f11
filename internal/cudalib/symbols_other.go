//go:build !linux

package cudalib

import (
	"errors"
	"fmt"
	"runtime"
)

// Symbols reports that libraries of CUDA are opened on Linux only.
func Symbols(string, []string, []uintptr, string) (missing, err error) {
	return fmt.Errorf("not supported on %s: want linux: %w", runtime.GOOS, errors.ErrUnsupported), nil
}
