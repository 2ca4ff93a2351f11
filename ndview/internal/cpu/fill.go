package cpu

import "unsafe"

// Fill repeats a pattern over n bytes, from byte phase of the pattern on.
func Fill(dst unsafe.Pointer, n int64, pattern []byte, phase int64) {
	zero := true
	for _, b := range pattern {
		zero = zero && b == 0
	}
	if zero { // processors write whole cache lines of zeros faster
		pattern, phase = pattern[:1], 0
	}
	write := fillBlocks
	switch fits := cacheLine%len(pattern) == 0; {
	case fits && ShouldStream(n):
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

// fillLines repeats a pattern whose length divides a cache line.
func fillLines(out, pattern []byte, phase int) {
	head := min(-int(uintptr(unsafe.Pointer(unsafe.SliceData(out))))&(cacheLine-1), len(out))
	var words [cacheLine / 8]uint64
	line := unsafe.Slice((*byte)(unsafe.Pointer(&words)), cacheLine)
	for i := range line {
		line[i] = pattern[(phase+head+i)%len(pattern)]
	}
	copy(out[:head], line[cacheLine-head:]) // continues the pattern before the first cache line
	out = out[head:]
	lines := unsafe.Slice((*[cacheLine / 8]uint64)(unsafe.Pointer(unsafe.SliceData(out))), len(out)/cacheLine)
	for i := range lines {
		lines[i] = words
	}
	copy(out[len(lines)*cacheLine:], line)
}

// fillStream is fillLines with non-temporal stores from a cached block.
func fillStream(out, pattern []byte, phase int) {
	block := streamBlockPool.Get().(*[StreamBlockBytes / 8]uint64)
	defer streamBlockPool.Put(block)
	lines := unsafe.Slice((*byte)(unsafe.Pointer(block)), StreamBlockBytes)
	fillLines(lines, pattern, phase)
	for len(out) > 0 {
		n := min(StreamBlockBytes, len(out))
		Stream(unsafe.Pointer(unsafe.SliceData(out)), unsafe.Pointer(block), int64(n))
		out = out[n:]
	}
	StreamFence()
}

// fillBlocks repeats any pattern: it doubles what is written while that fits the cache,
// and copies it from then on.
func fillBlocks(out, pattern []byte, phase int) {
	filled := copy(out, pattern[phase:])
	filled += copy(out[filled:], pattern[:phase]) // the rest of the first period
	const cached = 16 << 10
	for filled < min(cached, len(out)) {
		filled += copy(out[filled:], out[:filled])
	}
	for block := filled; filled < len(out); {
		filled += copy(out[filled:], out[:block])
	}
}

// Triangle describes the triangle of Rows x Columns matrices that is kept: elements
// from the diagonal on if Upper is not 0, otherwise up to it. Kernels take it by value.
// A kernel thread writes a vector of Vector elements.
type Triangle struct {
	Vectors       int64
	Rows, Columns int64
	Diagonal      int64 // its column in the first row, from -Rows to Columns
	Upper, Vector int32
}

// WriteTriangle copies the triangle of src to dst and writes 0 elsewhere. Elements have
// size bytes; dst may equal src.
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
