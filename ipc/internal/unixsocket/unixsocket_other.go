//go:build !linux

package unixsocket

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// Credentials returns an error that wraps errors.ErrUnsupported.
func Credentials(*net.UnixConn) (int32, uint32, error) {
	return 0, 0, fmt.Errorf("unixsocket.Credentials requires Linux: %w", errors.ErrUnsupported)
}

func private(string, string, syscall.RawConn) error {
	return fmt.Errorf("unixsocket.Listen requires Linux: %w", errors.ErrUnsupported)
}
