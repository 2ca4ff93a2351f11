//go:build !linux

package memfile

import (
	"errors"
	"fmt"
	"os"
)

var errLinux = fmt.Errorf("memfile: sharing host memory requires Linux: %w", errors.ErrUnsupported)

// Create returns an error that wraps errors.ErrUnsupported.
func Create(string, int64) (*os.File, []byte, error) { return nil, nil, errLinux }

// Map returns an error that wraps errors.ErrUnsupported.
func Map(*os.File, int64) ([]byte, error) { return nil, errLinux }

// Unmap returns an error that wraps errors.ErrUnsupported.
func Unmap([]byte) error { return errLinux }
