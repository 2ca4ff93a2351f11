//go:build !linux

package arrowipc

import (
	"io"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// minMapped is the size from which a body is written through a mapping.
const minMapped = 8 << 20

// tmpfsFile is a file on tmpfs, which exists on Linux only.
type tmpfsFile struct{}

func newTmpfsFile(io.Writer) *tmpfsFile { return nil }

func (*tmpfsFile) writeBody(*Message, arrowbuf.Device) error {
	panic("arrowipc: tmpfs exists on Linux only")
}
