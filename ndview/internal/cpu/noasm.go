//go:build !amd64

package cpu

import "unsafe"

func addVectors(*[Types][Types]cast, map[Type]cast) {}

func everyNth(_, _ unsafe.Pointer, _, _, _ int64) int64 { return 0 }

func reverseVectors(_, _ unsafe.Pointer, _, _ int64) int64 { return 0 }

func countBlocks([]byte) (trues, done int) { return 0, 0 }

func listBlocks([]byte, int64, []uint64) (n, done int) { return 0, 0 }

func atMost1Blocks([]byte) (done int, ok bool) { return 0, true }

// streams tells whether Stream is more than a copy.
const streams = false

func streamLines(dst, src unsafe.Pointer, n int64) {
	copy(unsafe.Slice((*[block]byte)(dst), n), unsafe.Slice((*[block]byte)(src), n))
}

// StreamEnd lets others see what was streamed before what is written later.
func StreamEnd() {}

func swapMany(_, _ unsafe.Pointer, _, _ int64) int64 { return 0 }

func copyRows(dst unsafe.Pointer, step int64, src unsafe.Pointer, lines, rows int64) {
	for i := range rows {
		copyBytes(unsafe.Add(dst, i*step), unsafe.Add(src, i*lines*block), lines*block)
	}
}
