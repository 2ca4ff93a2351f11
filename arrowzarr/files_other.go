//go:build !unix

package arrowzarr

import (
	"errors"
	"os"
)

// tryLock does nothing: files are not locked on this system.
func tryLock(*os.File, bool) error { return nil }

// Files are read, not mapped.
const canMapFiles = false

func mapFile(*os.File, int64) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmapFile([]byte) error { return nil }

func releasePages([]byte) {}
