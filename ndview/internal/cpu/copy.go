package cpu

import (
	"encoding/binary"
	"math/bits"
	"sync"
	"unsafe"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// Copy copies units of width bytes, 1, 2, 4, 8 or 16, along a nest of a destination and
// a source, which must not overlap. dst and src already include the nest's Offsets.
func Copy(dst, src unsafe.Pointer, width int64, n layout.Nest) {
	switch width {
	case 1:
		copyNest[uint8](dst, src, n)
	case 2:
		copyNest[uint16](dst, src, n)
	case 4:
		copyNest[uint32](dst, src, n)
	case 8:
		copyNest[uint64](dst, src, n)
	default:
		copyNest[[2]uint64](dst, src, n)
	}
}

// plane is the two innermost loops of a copy.
type plane struct{ outer, inner line }

func copyNest[T unit](dst, src unsafe.Pointer, n layout.Nest) {
	width := int64(unsafe.Sizeof(*new(T)))
	outer, p := splitPlane(n)
	blocks, pieces := (p.outer.n-1)/tileSide+1, (p.inner.n-1)/tileLength+1
	total := layout.Product(outer.Shape) * blocks * pieces
	cost := width * min(tileLength, p.inner.n) * min(tileSide, p.outer.n)
	streams := p.inner.dst == width && ShouldStream(2*width*layout.Product(n.Shape))
	Parallel(total, max(grain/cost, 1), func(lo, hi int64) {
		buffer := &rowBuffer{streams: streams}
		defer buffer.flush()
		for i := lo; i < hi; i++ {
			d, s := dst, src
			rest, column := i/pieces, i%pieces*tileLength
			rest, row := rest/blocks, rest%blocks*tileSide
			for k := len(outer.Shape) - 1; k >= 0; k-- {
				at := rest % outer.Shape[k]
				rest /= outer.Shape[k]
				d, s = unsafe.Add(d, at*outer.Strides[0][k]), unsafe.Add(s, at*outer.Strides[1][k])
			}
			d = unsafe.Add(d, row*p.outer.dst+column*p.inner.dst)
			s = unsafe.Add(s, row*p.outer.src+column*p.inner.src)
			part := p
			part.outer.n, part.inner.n = min(tileSide, p.outer.n-row), min(tileLength, p.inner.n-column)
			copyPlane[T](d, s, part, buffer)
		}
	})
}

const (
	// tileSide is the number of lines of a plane per tile: cache lines of the source
	// are then used completely before they are evicted.
	tileSide = 64
	// tileLength is the number of units of a line per tile. A single line is still
	// divided among goroutines.
	tileLength = 256 * tileSide
)

// splitPlane selects two axes of a nest as the plane: the destination's fastest axis,
// and of the others the source's fastest.
func splitPlane(n layout.Nest) (outer layout.Nest, p plane) {
	outer = layout.Nest{Strides: [][]int64{nil, nil}}
	p = plane{line{n: 1}, line{n: 1}}
	last := len(n.Shape) - 1
	if last < 0 {
		return outer, p
	}
	at := func(k int) line { return line{n.Shape[k], n.Strides[0][k], n.Strides[1][k]} }
	p.inner = at(last)
	second := -1
	for k := last - 1; k >= 0; k-- {
		s := n.Strides[1][k]
		if second < 0 || s != 0 && abs(s) < abs(n.Strides[1][second]) {
			second = k
		}
	}
	for k := range last {
		if k == second {
			p.outer = at(k)
			continue
		}
		outer.Shape = append(outer.Shape, n.Shape[k])
		outer.Strides[0] = append(outer.Strides[0], n.Strides[0][k])
		outer.Strides[1] = append(outer.Strides[1], n.Strides[1][k])
	}
	return outer, p
}

func abs(n int64) int64 { return max(n, -n) }

func copyPlane[T unit](dst, src unsafe.Pointer, p plane, buffer *rowBuffer) {
	if p.outer.src != 0 && abs(p.outer.src) < abs(p.inner.src) {
		transpose[T](dst, src, p, buffer)
		return
	}
	for i := range p.outer.n {
		to, from := unsafe.Add(dst, i*p.outer.dst), unsafe.Add(src, i*p.outer.src)
		if buffer.streams && p.inner.n*p.inner.dst >= minStreamedRow {
			streamLine[T](to, from, p.inner, buffer)
		} else {
			copyLine[T](to, from, p.inner)
		}
	}
}

func copyLines[T unit](dst, src unsafe.Pointer, lines, each line) {
	for k := range lines.n {
		copyLine[T](unsafe.Add(dst, k*lines.dst), unsafe.Add(src, k*lines.src), each)
	}
}

// CopyBytes copies bytes; the slices may overlap.
func CopyBytes(dst, src []byte) {
	if len(dst) == 0 || overlap(dst, src) {
		copy(dst, src)
		return
	}
	Parallel(int64(len(dst)), 16*grain, func(lo, hi int64) { copy(dst[lo:hi], src[lo:hi]) })
}

func overlap(a, b []byte) bool {
	x, y := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0]))
	return x < y+uintptr(len(b)) && y < x+uintptr(len(a))
}

// line is a loop over n units; dst and src are the bytes between units.
type line struct{ n, dst, src int64 }

// copyLine copies the units of a line.
func copyLine[T unit](dst, src unsafe.Pointer, l line) {
	width := int64(unsafe.Sizeof(*new(T)))
	switch {
	case l.dst == width && l.src == width:
		copy(unsafe.Slice((*T)(dst), l.n), unsafe.Slice((*T)(src), l.n))
	case l.dst == width:
		done := int64(0)
		if l.src > 0 && l.src%width == 0 {
			done = takeEveryNth(dst, src, width, l.src/width, l.n)
		} else if width <= 8 && l.src == -width {
			done = reverseUnits(dst, src, width, l.n)
		}
		gatherLine(unsafe.Slice((*T)(dst), l.n), src, l.src, done)
	case l.src == width:
		scatterLine(dst, l.dst, unsafe.Slice((*T)(src), l.n))
	default:
		for i := range l.n {
			*(*T)(unsafe.Add(dst, i*l.dst)) = *(*T)(unsafe.Add(src, i*l.src))
		}
	}
}

// gatherLine copies strided units from the i-th on. It computes no address outside the
// units.
func gatherLine[T unit](dst []T, src unsafe.Pointer, step, i int64) {
	for ; i+4 <= int64(len(dst)); i += 4 {
		to, from := dst[i:i+4], unsafe.Add(src, i*step)
		to[0] = *(*T)(from)
		to[1] = *(*T)(unsafe.Add(from, step))
		to[2] = *(*T)(unsafe.Add(from, 2*step))
		to[3] = *(*T)(unsafe.Add(from, 3*step))
	}
	for ; i < int64(len(dst)); i++ {
		dst[i] = *(*T)(unsafe.Add(src, i*step))
	}
}

func scatterLine[T unit](dst unsafe.Pointer, step int64, src []T) {
	i := int64(0)
	for ; i+4 <= int64(len(src)); i += 4 {
		to, from := unsafe.Add(dst, i*step), src[i:i+4]
		*(*T)(to) = from[0]
		*(*T)(unsafe.Add(to, step)) = from[1]
		*(*T)(unsafe.Add(to, 2*step)) = from[2]
		*(*T)(unsafe.Add(to, 3*step)) = from[3]
	}
	for ; i < int64(len(src)); i++ {
		*(*T)(unsafe.Add(dst, i*step)) = src[i]
	}
}

// reverseUnits copies units of up to 8 bytes in reverse order, as far as they fill
// whole words. It returns the number of units copied.
func reverseUnits(dst, src unsafe.Pointer, width, n int64) int64 {
	words := n * width / 8
	for w := reverseVectors(dst, src, width, n) * width / 8; w < words; w++ {
		x := load(src, -8*w-8+width)
		switch width {
		case 1:
			x = bits.ReverseBytes64(x)
		case 2:
			x = bits.ReverseBytes64(x)
			x = x>>8&0x00ff00ff00ff00ff | x&0x00ff00ff00ff00ff<<8
		case 4:
			x = bits.RotateLeft64(x, 32)
		}
		store(dst, 8*w, x)
	}
	return words * 8 / width
}

// minStreamed is the number of bytes, read and written, from which a result is written
// with non-temporal stores. Such a result would not stay in the cache, and each of its
// cache lines would first be read from memory.
var minStreamed = int64(36 << 20)

// ShouldStream reports whether the result of an operation that reads and writes that
// many bytes should be written with Stream.
func ShouldStream(bytes int64) bool { return canStream && bytes >= minStreamed }

// Stream copies n bytes with non-temporal stores. Other goroutines may read them only
// after StreamFence.
func Stream(dst, src unsafe.Pointer, n int64) {
	head := min(-int64(uintptr(dst))&(cacheLine-1), n)
	if head > 0 {
		copyBytes(dst, src, head)
	}
	if lines := (n - head) / cacheLine; lines > 0 {
		streamLines(unsafe.Add(dst, head), unsafe.Add(src, head), lines)
		head += lines * cacheLine
	}
	if head < n {
		copyBytes(unsafe.Add(dst, head), unsafe.Add(src, head), n-head)
	}
}

func copyBytes(dst, src unsafe.Pointer, n int64) {
	copy(unsafe.Slice((*byte)(dst), n), unsafe.Slice((*byte)(src), n))
}

// StreamBlockBytes is the size of a block that is computed in the cache and then
// streamed. Small blocks let the processor compute the next one while the previous ones
// go to memory.
const StreamBlockBytes = 2 << 10

var streamBlockPool = sync.Pool{New: func() any { return new([StreamBlockBytes / 8]uint64) }}

// SwapBytes reverses the bytes of each number of size bytes, 2, 4 or 8. n is the total
// number of bytes. dst may equal src.
func SwapBytes(dst, src unsafe.Pointer, n, size int64) {
	Parallel(n/size, grain/size, func(lo, hi int64) {
		to, from, n := unsafe.Add(dst, lo*size), unsafe.Add(src, lo*size), (hi-lo)*size
		done := swapAssembly(to, from, n, size)
		swapWords(unsafe.Slice((*byte)(to), n)[done:], unsafe.Slice((*byte)(from), n)[done:], size)
	})
}

// swapWords is the portable loop of SwapBytes.
func swapWords(out, in []byte, size int64) {
	i := 0
	for ; i+8 <= len(in); i += 8 {
		binary.LittleEndian.PutUint64(out[i:], swapWord(binary.LittleEndian.Uint64(in[i:]), size))
	}
	if i < len(in) { // fewer than 8 bytes
		var word [8]byte
		copy(word[:], in[i:])
		binary.LittleEndian.PutUint64(word[:], swapWord(binary.LittleEndian.Uint64(word[:]), size))
		copy(out[i:], word[:])
	}
}

func swapWord(v uint64, size int64) uint64 {
	switch size {
	case 2:
		const low = 0x00ff00ff00ff00ff
		return v>>8&low | v&low<<8
	case 4:
		return bits.RotateLeft64(bits.ReverseBytes64(v), 32)
	default:
		return bits.ReverseBytes64(v)
	}
}
