package unixsocket

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// Credentials are a peer's, as the kernel knows them (SO_PEERCRED). The pid is 0
// where the peer is of a PID namespace that this process does not see.
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

// private makes the file of a socket that is not yet bound one of mode 0600, from
// its first moment.
func private(_, _ string, raw syscall.RawConn) error {
	var err error
	return errors.Join(raw.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) }), err)
}
