package ndview

import (
	"math"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
)

// in returns the launch argument of a kernel that reads the array: the address of its
// first element.
func (a *NDBuffer) in() any { return a.at(0) }

// inOut is in for a kernel that writes the array.
func (a *NDBuffer) inOut() any { return a.atOut(0) }

// at is in for the address n bytes after the first element.
func (a *NDBuffer) at(n int64) any { return launch.In(a.buf, a.offset+n) }

// atOut is inOut for the address n bytes after the first element.
func (a *NDBuffer) atOut(n int64) any { return launch.InOut(a.buf, a.offset+n) }

// maxItems is the most items that a kernel walks per launch, because it counts them in
// 32 bits. Longer walks are cut.
var maxItems int64 = math.MaxInt32

// perThread is the number of items of a walk per thread.
const perThread = 2

// hostAt returns the address of a byte of a buffer, and false if the host cannot
// access it.
func hostAt(b arrowbuf.Buffer, offset int64) (unsafe.Pointer, bool) {
	raw, ok := arrowbuf.HostBytes(b)
	if !ok || offset >= int64(len(raw)) {
		return nil, false
	}
	return unsafe.Pointer(&raw[offset]), true
}

// hostAt returns the address of the first element, and false if the host cannot access
// it.
func (a *NDBuffer) hostAt() (unsafe.Pointer, bool) { return hostAt(a.buf, a.offset) }

// address returns the address of the first element, on the host if it can access the
// array, otherwise on the device.
func (a *NDBuffer) address() uint64 {
	if p, ok := a.hostAt(); ok {
		return uint64(uintptr(p))
	}
	return uint64(a.buf.Address()) + uint64(a.offset)
}

// hostSlice returns the elements of a contiguous array in host memory.
func hostSlice[T Element](a *NDBuffer) []T {
	raw, _ := a.HostBytes()
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(raw))), a.Size())
}

// allocate returns memory that must be used on a GPU's default stream first. It may
// still be in use by earlier work of that stream, so results that are soon released
// reuse memory without waiting. Memory that the host or another stream writes first
// should come from the device's Alloc.
func allocate(device arrowbuf.Device, n int64) (arrowbuf.Buffer, error) {
	cuda, ok := device.(*cudabuf.Device) // a device that wraps one allocates by itself
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
