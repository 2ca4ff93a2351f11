//go:build unix

package store

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// fileNumber returns the number of a file, which a file that replaces it does not have.
func fileNumber(info fs.FileInfo) (uint64, bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return uint64(stat.Ino), true //nolint:unconvert // its type depends on the system
}

// openFile is os.OpenFile without the system calls that ask whether reads can wait for a
// poller, which regular files have none of.
func openFile(name string, flag int, perm uint32) (*os.File, error) {
	for {
		fd, err := unix.Open(name, flag|unix.O_CLOEXEC, perm)
		switch err {
		case nil:
			return os.NewFile(uintptr(fd), name), nil
		case unix.EINTR:
		default:
			return nil, &os.PathError{Op: "open", Path: name, Err: err}
		}
	}
}

// rename is os.Rename without its look at the old file.
func rename(from, to string) error {
	for {
		err := unix.Rename(from, to)
		switch err {
		case nil:
			return nil
		case unix.EINTR:
		case unix.EISDIR:
			return &os.LinkError{Op: "rename", Old: from, New: to, Err: unix.EEXIST}
		default:
			return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
		}
	}
}
