//go:build unix

package unixsocket

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// Closed tells whether the peer of a socket of any kind has closed it, and all
// that it had sent was read.
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
