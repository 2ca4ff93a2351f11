package hostmem

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// useLargePages asks for pages of 2 MiB. Faulting in a large page costs far less
// than 512 small ones.
func useLargePages(memory []byte) {
	const page = 2 << 20
	start := uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
	from, to := (start+page-1)/page*page-start, (start+uintptr(len(memory)))/page*page-start
	if from < to {
		_ = unix.Madvise(memory[from:to], unix.MADV_HUGEPAGE) // the kernel may be built without them
	}
}
