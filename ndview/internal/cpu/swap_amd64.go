package cpu

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

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
