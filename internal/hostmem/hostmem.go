// Package hostmem allocates large memory of the host quickly. Go clears what it allocates,
// and touches it in pages of 4 KiB, which takes longer than most work on it.
package hostmem

import (
	"slices"
	"strings"
	"unsafe"
)

// LargeBytes is the size in bytes from which the functions of this package are faster than
// Go's own allocation.
const LargeBytes = 4 << 20

// Undefined returns n undefined bytes, in large pages if the system supports them. Go's
// garbage collector frees them.
func Undefined(n int) []byte {
	var b strings.Builder // Go clears the memory of any other allocation
	b.Grow(n + 64)        // a pointer to the end must point into the allocation
	undefined := unsafe.Slice(unsafe.StringData(b.String()), n)
	useLargePages(undefined)
	return undefined
}

// Grow returns dst with room for n more bytes, like [slices.Grow], which it is for less
// than LargeBytes. Larger memory is that of [Undefined], and has no more room than n bytes.
func Grow(dst []byte, n int) []byte {
	if size := len(dst) + n; size > cap(dst) && size >= LargeBytes {
		return append(Undefined(size)[:0], dst...)
	}
	return slices.Grow(dst, n)
}
