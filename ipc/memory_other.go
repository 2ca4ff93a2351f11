//go:build !linux

package ipc

import (
	"errors"
	"fmt"
	"os"
)

func newMemoryBlock(int64) (*block, error) {
	return nil, fmt.Errorf("memory files need Linux: %w", errors.ErrUnsupported)
}

func mapMemory(*os.File, int64) ([]byte, func(), error) {
	return nil, nil, fmt.Errorf("memory files need Linux: %w", errors.ErrUnsupported)
}
