package cpu

import "unsafe"

// The functions of transpose_amd64.s.

//go:noescape
func transposeBytes(dst unsafe.Pointer, dstStep int64, src unsafe.Pointer, srcStep, columns, rows int64)

//go:noescape
func transposeWords(dst unsafe.Pointer, dstStep int64, src unsafe.Pointer, srcStep, columns, rows int64)

//go:noescape
func transposeDwords(dst unsafe.Pointer, dstStep int64, src unsafe.Pointer, srcStep, columns, rows int64)

//go:noescape
func transposeQwords(dst unsafe.Pointer, dstStep int64, src unsafe.Pointer, srcStep, columns, rows int64)

//go:noescape
func transposeOwords(dst unsafe.Pointer, dstStep int64, src unsafe.Pointer, srcStep, columns, rows int64)

// copyRows copies contiguous rows of whole cache lines to rows that are step bytes
// apart.
//
//go:noescape
func copyRows(dst unsafe.Pointer, step int64, src unsafe.Pointer, lines, rows int64)

func init() {
	if hasAVX2 {
		registerTransposes = [...]registerTranspose{
			1: {8, 16, transposeBytes}, 2: {8, 8, transposeWords}, 4: {4, 8, transposeDwords}, 8: {2, 4, transposeQwords}, 16: {1, 4, transposeOwords},
		}
	}
}
