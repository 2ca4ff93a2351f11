//go:build unix

package unixsocket

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// Closed reports whether the peer of a socket has closed it and all data has been
// read.
func Closed(c syscall.Conn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return true
	}
	closed := true
	_ = raw.Control(func(fd uintptr) {
		n, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		closed = n <= 0 && !errors.Is(err, unix.EAGAIN)
	})
	return closed
}
