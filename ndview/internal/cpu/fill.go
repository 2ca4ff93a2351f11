package cpu

import "unsafe"

// Fill writes a pattern over and over to n bytes, the first of which is byte
// phase of it.
func Fill(dst unsafe.Pointer, n int64, pattern []byte, phase int64) {
	zero := true
	for _, b := range pattern {
		zero = zero && b == 0
	}
	if zero { // any pattern of them; processors write whole lines of zeros faster
		pattern, phase = pattern[:1], 0
	}
	write := fillBlocks
	switch fits := lineBytes%len(pattern) == 0; {
	case fits && Streams(n):
		write = fillStream
	case zero:
		write = func(out, _ []byte, _ int) { clear(out) }
	case fits:
		write = fillLines
	}
	Parallel(n, 4*grain, func(lo, hi int64) {
		write(unsafe.Slice((*byte)(unsafe.Add(dst, lo)), hi-lo), pattern, int((lo+phase)%int64(len(pattern))))
	})
}

const lineBytes = 64

// fillLines writes a pattern that fits a line several times, line by line.
func fillLines(out, pattern []byte, phase int) {
	head := min(-int(uintptr(unsafe.Pointer(unsafe.SliceData(out))))&(lineBytes-1), len(out))
	var words [lineBytes / 8]uint64
	line := unsafe.Slice((*byte)(unsafe.Pointer(&words)), lineBytes)
	for i := range line {
		line[i] = pattern[(phase+head+i)%len(pattern)]
	}
	copy(out[:head], line[lineBytes-head:]) // a whole number of patterns before
	out = out[head:]
	lines := unsafe.Slice((*[lineBytes / 8]uint64)(unsafe.Pointer(unsafe.SliceData(out))), len(out)/lineBytes)
	for i := range lines {
		lines[i] = words
	}
	copy(out[len(lines)*lineBytes:], line)
}

// fillStream is fillLines past the caches: all is a copy of some lines that stay
// in them.
func fillStream(out, pattern []byte, phase int) {
	made := streamBlocks.Get().(*[StreamBlock / 8]uint64)
	defer streamBlocks.Put(made)
	lines := unsafe.Slice((*byte)(unsafe.Pointer(made)), StreamBlock)
	fillLines(lines, pattern, phase)
	for len(out) > 0 {
		n := min(StreamBlock, len(out))
		Stream(unsafe.Pointer(unsafe.SliceData(out)), unsafe.Pointer(made), int64(n))
		out = out[n:]
	}
	StreamEnd()
}

// fillBlocks writes any pattern: what is there is doubled as long as the cache
// holds it, and copied then.
func fillBlocks(out, pattern []byte, phase int) {
	filled := copy(out, pattern[phase:])
	filled += copy(out[filled:], pattern[:phase]) // once around
	const cached = 16 << 10
	for filled < min(cached, len(out)) {
		filled += copy(out[filled:], out[:filled])
	}
	for block := filled; filled < len(out); {
		filled += copy(out[filled:], out[:block])
	}
}

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
