//go:build unix

package source

import (
	"os"

	"golang.org/x/sys/unix"
)

// CanMapFiles reports whether the system maps files. Otherwise, they are read.
const CanMapFiles = true

// mapFile maps the first size bytes of a file, to read them.
func mapFile(f *os.File, size int64) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
}

func unmapFile(mapped []byte) error { return unix.Munmap(mapped) }

// releasePages unmaps pages of a mapped file until they are touched again.
func releasePages(mapped []byte) {
	_ = unix.Madvise(mapped, unix.MADV_DONTNEED) // advice that fails costs memory, not correctness
}
