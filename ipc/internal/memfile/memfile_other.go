//go:build !linux

package memfile

import (
	"errors"
	"fmt"
	"os"
)

var errLinux = fmt.Errorf("sharing memory of the host needs Linux: %w", errors.ErrUnsupported)

// Create is an error that is errors.ErrUnsupported.
func Create(string, int64) (*os.File, []byte, error) { return nil, nil, errLinux }

// Map is an error that is errors.ErrUnsupported.
func Map(*os.File, int64) ([]byte, error) { return nil, errLinux }

// Unmap is an error that is errors.ErrUnsupported.
func Unmap([]byte) error { return errLinux }
