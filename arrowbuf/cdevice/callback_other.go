//go:build !linux && !darwin

package cdevice

import (
	"errors"
	"fmt"
	"runtime"
)

// callbacks are addresses of C functions for the exported structs. C may call them
// on any thread.
type callbacks struct {
	releaseSchema, releaseArray                          uintptr
	getSchema, getNext, getLastError, finish             uintptr
	getCPUSchema, getCPUNext, getCPULastError, finishCPU uintptr
}

// functions returns the callbacks. They are registered once, because a process can
// have only a limited number.
func functions() callbacks { return callbacks{} }

// checkSupported returns an error: C functions cannot be called. No other function
// of this file is reached.
func checkSupported() error {
	return fmt.Errorf("the C data interface on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

// call calls a C function.
func call(uintptr, ...uintptr) uintptr { return 0 }
