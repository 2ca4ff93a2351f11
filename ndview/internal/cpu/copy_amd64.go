package cpu

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

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

// everyBlocks makes blocks of 32 bytes, more than none, of 32*step bytes each: for
// both halves of a block, it puts step pieces of 16 bytes in their orders, and takes
// them together.
//
//go:noescape
func everyBlocks(dst, src unsafe.Pointer, blocks int64, orders unsafe.Pointer, step int64)

// mostStep is the greatest step of everyNth.
const mostStep = 8

// everyOrders has, for each width and step, where in a piece of 16 bytes each byte of
// a half of a block is, twice, or that it is in another.
var everyOrders = func() (orders [5][mostStep + 1][mostStep][32]byte) {
	for width := 1; width <= 4; width *= 2 {
		for step := 2; step <= mostStep; step++ {
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

// everyNth copies units of 1, 2 or 4 bytes, the first of each step of them, as far as
// whole vectors go, the last unit being the last byte of memory. It returns how many
// were copied.
func everyNth(dst, src unsafe.Pointer, width, step, n int64) int64 {
	if step < 2 || step > mostStep || width > 4 || !cpu.X86.HasAVX2 {
		return 0
	}
	blocks := ((n-1)*step + 1) * width / (32 * step)
	if blocks <= 0 {
		return 0
	}
	everyBlocks(dst, src, blocks, unsafe.Pointer(&everyOrders[width][step]), step)
	return blocks * 32 / width
}

// streams tells whether Stream is more than a copy.
var streams = cpu.X86.HasAVX2

// streamLines copies n lines of the cache, n > 0, to where a line begins, but not
// through the cache.
//
//go:noescape
func streamLines(dst, src unsafe.Pointer, n int64)

// StreamEnd lets others see what was streamed before what is written later.
func StreamEnd()

//go:noescape
func swapVectors(dst, src unsafe.Pointer, blocks, size int64)

// swapMany turns around the numbers of as many of n bytes as vectors do, which it
// returns.
func swapMany(dst, src unsafe.Pointer, n, size int64) int64 {
	const each = 128
	if !cpu.X86.HasAVX2 || n < each {
		return 0
	}
	swapVectors(dst, src, n/each, size)
	return n / each * each
}
