//go:build !linux

package arrowipc

import (
	"io"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// minMapped is from where on a body is written through a mapping.
const minMapped = 8 << 20

// tmpfsFile is a file of a RAM disk that can be written through a mapping, which
// other systems have differently.
type tmpfsFile struct{}

func newTmpfsFile(io.Writer) *tmpfsFile { return nil }

func (*tmpfsFile) writeBody(*Message, arrowbuf.Device) error {
	panic("arrowipc: there are no such files")
}
