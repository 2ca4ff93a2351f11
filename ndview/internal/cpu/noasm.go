//go:build !amd64 || noasm

package cpu

import "unsafe"

func addAssembly(*[Types][Types]cast, map[Type]cast) {}

func takeEveryNth(_, _ unsafe.Pointer, _, _, _ int64) int64 { return 0 }

func reverseVectors(_, _ unsafe.Pointer, _, _ int64) int64 { return 0 }

func countBlocks([]byte) (trues, done int) { return 0, 0 }

func listTrueBlocks([]byte, int64, []uint64) (n, done int) { return 0, 0 }

func atMost1Blocks([]byte) (done int, ok bool) { return 0, true }

// canStream reports whether Stream uses non-temporal stores.
const canStream = false

func streamLines(dst, src unsafe.Pointer, n int64) {
	copy(unsafe.Slice((*[cacheLine]byte)(dst), n), unsafe.Slice((*[cacheLine]byte)(src), n))
}

// StreamFence orders streamed writes before all later writes.
func StreamFence() {}

func swapAssembly(_, _ unsafe.Pointer, _, _ int64) int64 { return 0 }

func copyRows(dst unsafe.Pointer, step int64, src unsafe.Pointer, lines, rows int64) {
	for i := range rows {
		copyBytes(unsafe.Add(dst, i*step), unsafe.Add(src, i*lines*cacheLine), lines*cacheLine)
	}
}
