//go:build !linux && !darwin

package cdevice

import (
	"errors"
	"fmt"
	"runtime"
)

type callbacks struct {
	releaseSchema, releaseArray                          uintptr
	getSchema, getNext, getLastError, finish             uintptr
	getCPUSchema, getCPUNext, getCPULastError, finishCPU uintptr
}

func functions() callbacks { return callbacks{} }

// checkSupported is nil where C code can be called. Nothing below is reached where it
// is not.
func checkSupported() error {
	return fmt.Errorf("the C data interface on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

func call(uintptr, ...uintptr) uintptr { return 0 }
