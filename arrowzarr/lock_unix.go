//go:build unix

package arrowzarr

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// tryLock locks an open file, or returns errLocked if another process has the lock. The
// lock ends with the process, however it ends.
func tryLock(f *os.File, exclusive bool) error {
	how := unix.LOCK_SH
	if exclusive {
		how = unix.LOCK_EX
	}
	err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return errLocked
	case errors.Is(err, unix.ENOLCK), errors.Is(err, unix.EOPNOTSUPP):
		return nil // a file system without locks
	}
	return err
}
