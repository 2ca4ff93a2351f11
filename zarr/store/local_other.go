//go:build !unix

package store

import (
	"io/fs"
	"os"
)

// fileNumber returns false: this system has no such number.
func fileNumber(fs.FileInfo) (uint64, bool) { return 0, false }

// openFile is os.OpenFile.
func openFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(name, flag, perm)
}

// rename is os.Rename.
func rename(from, to string) error { return os.Rename(from, to) }
