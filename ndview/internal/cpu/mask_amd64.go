//go:build !noasm

package cpu

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

//go:noescape
func countVectors(mask unsafe.Pointer, blocks int64) int64

//go:noescape
func listVectors(out, mask unsafe.Pointer, blocks, base, room int64) int64

//go:noescape
func orVectors(x unsafe.Pointer, blocks int64) byte

// maskBlock is the number of bytes of a mask per block of the assembly.
const maskBlock = 64

var hasListVectors = cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasPOPCNT && cpu.X86.HasBMI1

// countBlocks counts nonzero bytes in whole blocks of a mask. It returns their number
// and the number of bytes counted.
func countBlocks(mask []byte) (trues, done int) {
	blocks := len(mask) / maskBlock
	if blocks == 0 || !hasAVX2 || !cpu.X86.HasPOPCNT {
		return 0, 0
	}
	return int(countVectors(unsafe.Pointer(unsafe.SliceData(mask)), int64(blocks))), blocks * maskBlock
}

// atMost1Blocks reports whether the bytes of whole blocks are 0 or 1, and the number of
// bytes checked.
func atMost1Blocks(x []byte) (done int, ok bool) {
	const each = 128
	blocks := len(x) / each
	if blocks == 0 || !hasAVX2 {
		return 0, true
	}
	return blocks * each, orVectors(unsafe.Pointer(unsafe.SliceData(x)), int64(blocks)) <= 1
}

// listTrueBlocks is listTrue for whole blocks. It returns the numbers of positions
// written and of bytes read.
func listTrueBlocks(mask []byte, base int64, out []uint64) (n, done int) {
	blocks := len(mask) / maskBlock
	if blocks == 0 || !hasListVectors {
		return 0, 0
	}
	to, from := unsafe.Pointer(unsafe.SliceData(out)), unsafe.Pointer(unsafe.SliceData(mask))
	return int(listVectors(to, from, int64(blocks), base, int64(len(out)))), blocks * maskBlock
}
