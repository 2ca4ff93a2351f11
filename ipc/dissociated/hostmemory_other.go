//go:build !linux

package dissociated

import (
	"errors"
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

var errNoMemfd = fmt.Errorf("shared memory of the host needs Linux: %w", errors.ErrUnsupported)

func shareHostMemory(int64) (data, handle []byte, unmap func() error, err error) {
	return nil, nil, nil, errNoMemfd
}

func openHostMemory(memfd) (arrowbuf.Buffer, error) { return nil, errNoMemfd }
