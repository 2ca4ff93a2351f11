package cpu

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// The loops of turn_amd64.s.

//go:noescape
func turnBytes(dst unsafe.Pointer, dstStep int64, src unsafe.Pointer, srcStep, columns, rows int64)

//go:noescape
func turnWords(dst unsafe.Pointer, dstStep int64, src unsafe.Pointer, srcStep, columns, rows int64)

//go:noescape
func turnDoubleWords(dst unsafe.Pointer, dstStep int64, src unsafe.Pointer, srcStep, columns, rows int64)

//go:noescape
func turnQuadWords(dst unsafe.Pointer, dstStep int64, src unsafe.Pointer, srcStep, columns, rows int64)

//go:noescape
func turnPairs(dst unsafe.Pointer, dstStep int64, src unsafe.Pointer, srcStep, columns, rows int64)

// copyRows copies rows of whole lines of the cache, at steps of bytes, from where
// they have no gaps.
//
//go:noescape
func copyRows(dst unsafe.Pointer, step int64, src unsafe.Pointer, lines, rows int64)

func init() {
	if cpu.X86.HasAVX2 {
		squares = [...]square{
			1: {8, 16, turnBytes}, 2: {8, 8, turnWords}, 4: {4, 8, turnDoubleWords}, 8: {2, 4, turnQuadWords}, 16: {1, 4, turnPairs},
		}
	}
}
