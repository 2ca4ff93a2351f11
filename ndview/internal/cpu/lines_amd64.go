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

// reverseBlocks copies blocks of 32 bytes, more than none, of which the first ends
// with the unit of width bytes at src, and the others lie before it. Each half of a
// block is put in order.
//
//go:noescape
func reverseBlocks(dst, src unsafe.Pointer, blocks int64, order unsafe.Pointer, width int64)

// backwards has the bytes of units of each width in 16 bytes, the last unit first.
var backwards = func() (orders [9][16]byte) {
	for width := 1; width <= 8; width *= 2 {
		for b := range 16 {
			orders[width][b] = byte(16 - width - b + 2*(b%width))
		}
	}
	return orders
}()

// reverseVectors is reverse of units of up to 8 bytes, as far as whole vectors go.
func reverseVectors(dst, src unsafe.Pointer, width, n int64) int64 {
	blocks := n * width / 32
	if blocks == 0 || !cpu.X86.HasAVX2 {
		return 0
	}
	reverseBlocks(dst, src, blocks, unsafe.Pointer(&backwards[width]), width)
	return blocks * 32 / width
}

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
