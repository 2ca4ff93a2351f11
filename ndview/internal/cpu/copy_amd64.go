//go:build !noasm

package cpu

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// hasAVX2 reports whether the assembly for AVX2 is used, other than that of casts.
var hasAVX2 = cpu.X86.HasAVX2

// reverseBlocks copies blocks of 32 bytes in reverse order, at least one. The first
// block ends with the unit of width bytes at src; the others are before it. order is
// the shuffle of each half of a block. It is 4.5 to 6.8 times as fast as Go.
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
// orders says. For step 2 it is 5.5 and 2.8 times as fast as Go for units of 1 and 2
// bytes, and less for greater steps: see maxEveryStep.
//
//go:noescape
func takeEvery(dst, src unsafe.Pointer, blocks int64, orders unsafe.Pointer, step int64)

// maxEveryStep is the greatest step of takeEvery, by the width of units. Above it, and for
// wider units, it was less than 1.3 times as fast as Go in one of two measurements. The
// time of the Go loop does not depend on the step.
var maxEveryStep = [...]int64{1: maxPieces, 2: 3}

// maxPieces is the greatest number of pieces of a half block.
const maxPieces = 4

// everyShuffles are, for each width and step, the shuffles of the pieces of a half
// block, twice. 0x80 clears a byte that is in another piece.
var everyShuffles = func() (orders [3][maxPieces + 1][maxPieces][32]byte) {
	for width := 1; width <= 2; width *= 2 {
		for step := 2; step <= int(maxEveryStep[width]); step++ {
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

// takeEveryNth copies every step-th unit of 1 or 2 bytes, as far as they fill whole
// blocks. It does not read past the last unit, and returns the number of units copied.
func takeEveryNth(dst, src unsafe.Pointer, width, step, n int64) int64 {
	if width > 2 || step < 2 || step > maxEveryStep[width] || !hasAVX2 {
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
// lines, with non-temporal stores. Copies that exceed the caches are 2.0 times as fast.
//
//go:noescape
func streamLines(dst, src unsafe.Pointer, n int64)

// StreamFence orders streamed writes before all later writes.
func StreamFence()

// swapVectors reverses the bytes of numbers of size bytes, in blocks of 128 bytes. It is
// 8.8 to 9.7 times as fast as Go.
//
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
