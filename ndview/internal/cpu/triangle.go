package cpu

import "unsafe"

// Triangle is what of matrices of Rows x Columns, one after the other, is kept:
// elements from the diagonal on if Upper is not 0, else up to it. Kernels take it
// by value, and do Vectors of so many elements each.
type Triangle struct {
	Vectors       int64
	Rows, Columns int64
	Diagonal      int64 // the column of it in the first row, -Rows to Columns
	Upper, Vector int32
}

// WriteTriangle writes what is kept of src to dst, and 0 elsewhere. Elements are
// of size bytes; dst may be src.
func WriteTriangle(dst, src unsafe.Pointer, size int64, t *Triangle) {
	width := t.Columns * size
	rows := t.Vectors * int64(t.Vector) / t.Columns
	Parallel(rows, grain/width, func(lo, hi int64) {
		for i := lo; i < hi; i++ {
			out := unsafe.Slice((*byte)(unsafe.Add(dst, i*width)), width)
			in := unsafe.Slice((*byte)(unsafe.Add(src, i*width)), width)
			edge := i%t.Rows + t.Diagonal
			if t.Upper != 0 {
				cut := max(0, min(edge, t.Columns)) * size
				clear(out[:cut])
				copy(out[cut:], in[cut:])
			} else {
				cut := max(0, min(edge+1, t.Columns)) * size
				copy(out[:cut], in[:cut])
				clear(out[cut:])
			}
		}
	})
}
