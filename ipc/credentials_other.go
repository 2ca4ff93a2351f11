//go:build !linux

package ipc

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

func credentials(*net.UnixConn) (int32, uint32, error) {
	return 0, 0, fmt.Errorf("credentials of a peer need Linux: %w", errors.ErrUnsupported)
}

func private(string, string, syscall.RawConn) error {
	return fmt.Errorf("a private socket needs Linux: %w", errors.ErrUnsupported)
}
