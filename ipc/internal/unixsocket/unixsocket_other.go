//go:build !linux

package unixsocket

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// Credentials is an error that is errors.ErrUnsupported.
func Credentials(*net.UnixConn) (int32, uint32, error) {
	return 0, 0, fmt.Errorf("credentials of a peer need Linux: %w", errors.ErrUnsupported)
}

func private(string, string, syscall.RawConn) error {
	return fmt.Errorf("a private socket needs Linux: %w", errors.ErrUnsupported)
}
