package ndview

import (
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// MayShareMemory tells whether some byte belongs to elements of both arrays. The
// answer is exact, as NumPy's shares_memory: the even and the odd columns of a
// matrix share none. It goes by addresses, so two buffers over one allocation
// are seen to be so. Released arrays share nothing. (The "may" is for layouts
// that are contrived so that the answer would take seconds to find.)
func MayShareMemory(a, b *NDBuffer) bool {
	release, err := holdAll(a, b)
	if err != nil {
		return false
	}
	defer release()
	inA, hostA := a.addresses()
	inB, hostB := b.addresses()
	// Pinned memory may be the CPU's, seen by two devices.
	if (!hostA || !hostB) && a.Device() != b.Device() {
		return false
	}
	return layout.Overlap(inA, inB)
}

// addresses are where the elements lie in the memory of the host, or of a device.
func (a *NDBuffer) addresses() (run layout.Run, onHost bool) {
	run = a.run()
	if data, ok := arrowbuf.HostBytes(a.buf); ok {
		run.Offset += int64(uintptr(unsafe.Pointer(unsafe.SliceData(data))))
		return run, true
	}
	run.Offset += int64(a.buf.Address())
	return run, false
}
