package cpu

import (
	"math/bits"
	"unsafe"
)

// line is a loop: so many units at steps of bytes.
type line struct{ n, dst, src int64 }

// copyLine copies units one by one.
func copyLine[T unit](dst, src unsafe.Pointer, l line) {
	width := int64(unsafe.Sizeof(*new(T)))
	switch {
	case l.dst == width && l.src == width:
		copy(unsafe.Slice((*T)(dst), l.n), unsafe.Slice((*T)(src), l.n))
	case l.dst == width:
		done := int64(0)
		if l.src > 0 && l.src%width == 0 {
			done = everyNth(dst, src, width, l.src/width, l.n)
		} else if width <= 8 && l.src == -width {
			done = reverse(dst, src, width, l.n)
		}
		readLine(unsafe.Slice((*T)(dst), l.n), src, l.src, done)
	case l.src == width:
		writeLine(dst, l.dst, unsafe.Slice((*T)(src), l.n))
	default:
		for i := range l.n {
			*(*T)(unsafe.Add(dst, i*l.dst)) = *(*T)(unsafe.Add(src, i*l.src))
		}
	}
}

// readLine copies units from the i-th on. Addresses are made of those of units
// only, none beyond the last.
func readLine[T unit](dst []T, src unsafe.Pointer, step, i int64) {
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

func writeLine[T unit](dst unsafe.Pointer, step int64, src []T) {
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

// reverse copies units of up to 8 bytes that lie backwards, in vectors and words, as
// far as whole words go. It returns how many were copied.
func reverse(dst, src unsafe.Pointer, width, n int64) int64 {
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
