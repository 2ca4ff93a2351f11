//go:build unix

package store

import (
	"io/fs"
	"syscall"
)

// fileNumber returns the number of a file, which a file that replaces it does not have.
func fileNumber(info fs.FileInfo) (uint64, bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return uint64(stat.Ino), true //nolint:unconvert // its type depends on the system
}
