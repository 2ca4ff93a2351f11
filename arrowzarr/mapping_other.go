//go:build !unix

package arrowzarr

import (
	"errors"
	"os"
)

// Files are read, not mapped.
const canMapFiles = false

func mapFile(*os.File, int64) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmapFile([]byte) error { return nil }

func releasePages([]byte) {}
