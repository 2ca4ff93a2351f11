//go:build !unix

package source

import (
	"errors"
	"os"
)

// CanMapFiles reports whether the system maps files. Otherwise, they are read.
const CanMapFiles = false

func mapFile(*os.File, int64) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmapFile([]byte) error { return nil }

func releasePages([]byte) {}
