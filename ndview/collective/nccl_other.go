//go:build !linux

package collective

import (
	"fmt"
	"runtime"
)

// NCCL exists only on Linux. openLibrary reports so, and nothing else here is reached.

type library struct{ version int }

func openLibrary(string) (l *library, missing, err error) {
	return nil, errUnsupported(), nil
}

func errUnsupported() error {
	return fmt.Errorf("not supported on %s: want linux", runtime.GOOS)
}

type ncclEngine struct{ engine }

func newNCCL(*setup, *comm) (engine, error) { return nil, errUnsupported() }

func runNCCL([]*operation) error { return errUnsupported() }
