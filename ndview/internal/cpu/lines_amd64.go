package cpu

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

//go:noescape
func everyOther1(dst, src unsafe.Pointer, blocks int64)

//go:noescape
func everyOther2(dst, src unsafe.Pointer, blocks int64)

//go:noescape
func everyOther4(dst, src unsafe.Pointer, blocks int64)

// everyOther copies units of 1, 2 or 4 bytes of which every other is left out, as
// far as whole vectors go, the last unit being the last byte of memory. It returns
// how many were copied.
func everyOther(dst, src unsafe.Pointer, width, n int64) int64 {
	const each = 64 // bytes of the source
	blocks := (2*n - 1) * width / each
	if blocks <= 0 || !cpu.X86.HasAVX2 {
		return 0
	}
	switch width {
	case 1:
		everyOther1(dst, src, blocks)
	case 2:
		everyOther2(dst, src, blocks)
	case 4:
		everyOther4(dst, src, blocks)
	default:
		return 0
	}
	return blocks * each / (2 * width)
}
