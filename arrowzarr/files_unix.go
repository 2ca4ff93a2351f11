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

const canMapFiles = true

// mapFile maps the first size bytes of a file, to read them.
func mapFile(f *os.File, size int64) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
}

func unmapFile(mapped []byte) error { return unix.Munmap(mapped) }

// releasePages unmaps pages of a mapped file until they are touched again.
func releasePages(mapped []byte) {
	_ = unix.Madvise(mapped, unix.MADV_DONTNEED) // advice that fails costs memory, not correctness
}
