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

// listBlock is how many bytes of a mask vectors take at a time.
const listBlock = 64

var listsInVectors = cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasPOPCNT && cpu.X86.HasBMI1

// countBlocks returns how many bytes are not 0 of whole blocks of a mask, and how
// many bytes those have.
func countBlocks(mask []byte) (trues, done int) {
	blocks := len(mask) / listBlock
	if blocks == 0 || !cpu.X86.HasAVX2 || !cpu.X86.HasPOPCNT {
		return 0, 0
	}
	return int(countVectors(unsafe.Pointer(unsafe.SliceData(mask)), int64(blocks))), blocks * listBlock
}

// atMost1Blocks tells whether the bytes of whole blocks are 0 or 1, and how many
// those are.
func atMost1Blocks(x []byte) (done int, ok bool) {
	const each = 128
	blocks := len(x) / each
	if blocks == 0 || !cpu.X86.HasAVX2 {
		return 0, true
	}
	return blocks * each, orVectors(unsafe.Pointer(unsafe.SliceData(x)), int64(blocks)) <= 1
}

// listBlocks is list of whole blocks. It returns how many positions it wrote, and
// of how many bytes.
func listBlocks(mask []byte, base int64, out []uint64) (n, done int) {
	blocks := len(mask) / listBlock
	if blocks == 0 || !listsInVectors {
		return 0, 0
	}
	to, from := unsafe.Pointer(unsafe.SliceData(out)), unsafe.Pointer(unsafe.SliceData(mask))
	return int(listVectors(to, from, int64(blocks), base, int64(len(out)))), blocks * listBlock
}
