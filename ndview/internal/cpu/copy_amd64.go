package cpu

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// hasAVX2 reports whether the assembly for AVX2 is used, other than that of casts.
var hasAVX2 = cpu.X86.HasAVX2

// reverseBlocks copies blocks of 32 bytes in reverse order, at least one. The first
// block ends with the unit of width bytes at src; the others are before it. order is
// the shuffle of each half of a block.
//
//go:noescape
func reverseBlocks(dst, src unsafe.Pointer, blocks int64, order unsafe.Pointer, width int64)

// reverseShuffles are the shuffles that reverse units of each width in 16 bytes.
var reverseShuffles = func() (orders [9][16]byte) {
	for width := 1; width <= 8; width *= 2 {
		for b := range 16 {
			orders[width][b] = byte(16 - width - b + 2*(b%width))
		}
	}
	return orders
}()

// reverseVectors is reverseUnits for whole blocks.
func reverseVectors(dst, src unsafe.Pointer, width, n int64) int64 {
	blocks := n * width / 32
	if blocks == 0 || !hasAVX2 {
		return 0
	}
	reverseBlocks(dst, src, blocks, unsafe.Pointer(&reverseShuffles[width]), width)
	return blocks * 32 / width
}

// takeEvery copies every step-th unit to blocks of 32 bytes, at least one, from 32*step
// bytes each. Each half of a block is the OR of step pieces of 16 bytes, shuffled as
// orders says.
//
//go:noescape
func takeEvery(dst, src unsafe.Pointer, blocks int64, orders unsafe.Pointer, step int64)

// maxEveryStep is the greatest step of takeEveryNth.
const maxEveryStep = 8

// everyShuffles are, for each width and step, the shuffles of the pieces of a half
// block, twice. 0x80 clears a byte that is in another piece.
var everyShuffles = func() (orders [5][maxEveryStep + 1][maxEveryStep][32]byte) {
	for width := 1; width <= 4; width *= 2 {
		for step := 2; step <= maxEveryStep; step++ {
			for piece := range step {
				for b := range 32 {
					from := b%16/width*step*width + b%width
					at := &orders[width][step][piece][b]
					if *at = byte(from % 16); from/16 != piece {
						*at = 0x80
					}
				}
			}
		}
	}
	return orders
}()

// takeEveryNth copies every step-th unit of 1, 2 or 4 bytes, as far as they fill whole
// blocks. It does not read past the last unit, and returns the number of units copied.
func takeEveryNth(dst, src unsafe.Pointer, width, step, n int64) int64 {
	if step < 2 || step > maxEveryStep || width > 4 || !hasAVX2 {
		return 0
	}
	blocks := ((n-1)*step + 1) * width / (32 * step)
	if blocks <= 0 {
		return 0
	}
	takeEvery(dst, src, blocks, unsafe.Pointer(&everyShuffles[width][step]), step)
	return blocks * 32 / width
}

// canStream reports whether Stream uses non-temporal stores.
var canStream = cpu.X86.HasAVX2

// streamLines copies n cache lines, n > 0, to an address that is aligned to cache
// lines, with non-temporal stores.
//
//go:noescape
func streamLines(dst, src unsafe.Pointer, n int64)

// StreamFence orders streamed writes before all later writes.
func StreamFence()

//go:noescape
func swapVectors(dst, src unsafe.Pointer, blocks, size int64)

// swapAssembly swaps the numbers in whole blocks, and returns their number of bytes.
func swapAssembly(dst, src unsafe.Pointer, n, size int64) int64 {
	const each = 128
	if !hasAVX2 || n < each {
		return 0
	}
	swapVectors(dst, src, n/each, size)
	return n / each * each
}
