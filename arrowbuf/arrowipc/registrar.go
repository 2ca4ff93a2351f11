package arrowipc

import "github.com/quiver-gpu/quiver/arrowbuf"

// Registrar is a device that copies memory of the host by itself once that is
// page-locked. A *cudabuf.Device is one.
type Registrar interface {
	// RegisterReadOnly page-locks memory that nobody writes to, until the last
	// Release of the result, and copies from it.
	RegisterReadOnly(b []byte) (arrowbuf.Buffer, error)
}
