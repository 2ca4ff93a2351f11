//go:build !linux

package arrowipc

import (
	"io"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// leastMapped is from where on a body is written through a mapping.
const leastMapped = 8 << 20

// ramFile is a file of a RAM disk that can be written through a mapping, which
// other systems have differently.
type ramFile struct{}

func newRAMFile(io.Writer) *ramFile { return nil }

func (*ramFile) body(*Message, arrowbuf.Device) error { panic("arrowipc: there are no such files") }
