//go:build !amd64

package cpu

import "unsafe"

func copyRows(dst unsafe.Pointer, step int64, src unsafe.Pointer, lines, rows int64) {
	for i := range rows {
		copyBytes(unsafe.Add(dst, i*step), unsafe.Add(src, i*lines*block), lines*block)
	}
}
