package unixsocket

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// Credentials returns the process and user of a peer as the kernel reports them
// (SO_PEERCRED). pid is 0 if the peer's PID namespace is not visible to this process.
func Credentials(c *net.UnixConn) (pid int32, uid uint32, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var cred *unix.Ucred
	failure := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(failure, err); err != nil {
		return 0, 0, err
	}
	return cred.Pid, cred.Uid, nil
}

// private sets the mode of an unbound socket, so that its file has mode 0600 from the
// start.
func private(_, _ string, raw syscall.RawConn) error {
	var err error
	return errors.Join(raw.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) }), err)
}
