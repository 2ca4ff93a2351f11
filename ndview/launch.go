package ndview

import (
	"math"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
)

// address is that of the first element, for its alignment.
func (a *NDBuffer) address() uint64 {
	if p, ok := a.hostAt(); ok {
		return uint64(uintptr(p))
	}
	return uint64(a.buf.Address()) + uint64(a.offset)
}

// allocate takes memory that the default stream of a GPU uses first: what earlier
// work of that stream still uses is good enough, so that results which come and
// go take no more from the driver. Any other stream's first use waits for that
// work; memory for what the host sends at once had better be the device's Alloc.
func allocate(device arrowbuf.Device, n int64) (arrowbuf.Buffer, error) {
	cuda, ok := device.(*cudabuf.Device)
	if !ok {
		return device.Alloc(n)
	}
	stream, err := cuda.DefaultStream()
	if err != nil {
		return nil, err
	}
	b, err := cuda.Pool().AllocOn(n, stream)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// in and inOut are arguments of a launch: pointers to an array's first element,
// for a kernel that reads it and for one that writes it.
func (a *NDBuffer) in() any { return a.at(0) }

func (a *NDBuffer) inOut() any { return a.atOut(0) }

// at and atOut are those some bytes behind it.
func (a *NDBuffer) at(behind int64) any { return launch.In(a.buf, a.offset+behind) }

func (a *NDBuffer) atOut(behind int64) any { return launch.InOut(a.buf, a.offset+behind) }

// maxItems is how many items a walk of a kernel has at most, which counts them
// in 32 bits. Longer walks are cut.
var maxItems int64 = math.MaxInt32

// perThread is how many items of a walk a thread does.
const perThread = 2

// hostAt is the address of a byte of a buffer, if the host reaches it.
func hostAt(b arrowbuf.Buffer, offset int64) (unsafe.Pointer, bool) {
	raw, ok := arrowbuf.HostBytes(b)
	if !ok || offset >= int64(len(raw)) {
		return nil, false
	}
	return unsafe.Pointer(&raw[offset]), true
}

// hostAt is the address of the array's first element.
func (a *NDBuffer) hostAt() (unsafe.Pointer, bool) { return hostAt(a.buf, a.offset) }

// hostSlice are the elements of a gapless array in the host's memory.
func hostSlice[T Element](a *NDBuffer) []T {
	raw, _ := a.HostBytes()
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(raw))), a.Size())
}
