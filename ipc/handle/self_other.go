//go:build !linux

package handle

import (
	"errors"
	"fmt"
)

// Self is this process.
func Self() (Process, error) {
	return Process{}, fmt.Errorf("sharing memory between processes needs Linux: %w", errors.ErrUnsupported)
}
