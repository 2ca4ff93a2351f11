package arrowbuf

import "golang.org/x/sys/unix"

// useLargePages asks for pages of 2 MiB where they fit between others.
func useLargePages(memory []byte) {
	const page = 2 << 20
	start := sliceAddress(memory)
	from, to := (start+page-1)/page*page-start, (start+uintptr(len(memory)))/page*page-start
	if from < to {
		_ = unix.Madvise(memory[from:to], unix.MADV_HUGEPAGE) // a kernel may have none
	}
}
