//go:build !linux

package blas

import (
	"errors"
	"fmt"
	"runtime"
)

// openLibrary reports that cuBLAS is supported only on Linux.
func openLibrary(string, function, function) (l *library, missing, err error) {
	return nil, nil, fmt.Errorf("cuBLAS is not supported on %s: want linux: %w", runtime.GOOS, errors.ErrUnsupported)
}

// call is never reached, since no library opens.
func (l *library) call(function, ...uintptr) error { return errors.ErrUnsupported }
