//go:build !unix

package store

import "io/fs"

// fileNumber returns false: this system has no such number.
func fileNumber(fs.FileInfo) (uint64, bool) { return 0, false }
