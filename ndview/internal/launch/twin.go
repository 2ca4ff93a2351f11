package launch

import (
	"fmt"
	"unsafe"

	"github.com/quiver-gpu/quiver/cudabuf"
)

// Parameters is argument i, a struct.
func Parameters[T any](l interface{ Struct(i, n int) []byte }, i int) (p T) {
	copy(StructOf(&p), l.Struct(i, int(unsafe.Sizeof(p))))
	return p
}

// Reached is what a kernel reaches of pointer i, [low, high) from it on.
func Reached(l *cudabuf.HostLaunch, i int, low, high int64) unsafe.Pointer {
	part := l.Memory(uintptr(int64(l.Pointer(i))+low), high-low)
	return unsafe.Add(unsafe.Pointer(unsafe.SliceData(part)), -low)
}

// MustAlign ends a twin where a GPU would: at pointer i, or steps from it, that are no
// multiples of the width of what the kernel moves at once.
func MustAlign(l interface{ Pointer(i int) uintptr }, i int, width int64, steps ...int64) {
	MustAlignAt(l, i, 0, width, steps...)
}

// MustAlignAt is MustAlign so many bytes behind the pointer.
func MustAlignAt(l interface{ Pointer(i int) uintptr }, i int, behind, width int64, steps ...int64) {
	all := int64(l.Pointer(i)) + behind
	for _, s := range steps {
		all |= s
	}
	if all&(width-1) != 0 {
		panic(fmt.Sprintf("argument %d at %#x, %d bytes behind it and with steps of %d, is not a multiple of %d", i, l.Pointer(i), behind, steps, width))
	}
}
