package equal

import (
	"bytes"
	"unsafe"
)

func rows[T any](same func(x, y T, nanEqual bool) bool) func(x, y unsafe.Pointer, n int64, nanEqual bool) bool {
	return func(x, y unsafe.Pointer, n int64, nanEqual bool) bool {
		xs, ys := unsafe.Slice((*T)(x), n), unsafe.Slice((*T)(y), n)
		for i, v := range xs {
			if !same(v, ys[i], nanEqual) {
				return false
			}
		}
		return true
	}
}

// inCache is how many elements are looked at twice.
const inCache = 1024

// prefix tells of how many of so many bytes, from the first on, the elements are
// equal, and no NaN or NaT is equal to itself: of all whole vectors, or of none.
type prefix func(x, y unsafe.Pointer, bytes int64) int64

// floats compares by bits first where NaNs are to be equal: what has the same bits
// is.
func floats[T any](vectors prefix, same func(x, y T, nanEqual bool) bool) func(x, y unsafe.Pointer, n int64, nanEqual bool) bool {
	size, strict := int64(unsafe.Sizeof(*(*T)(nil))), inPieces(vectors, same)
	return func(x, y unsafe.Pointer, n int64, nanEqual bool) bool {
		for first := int64(0); first < n; first += inCache {
			n := min(n-first, inCache)
			x, y := unsafe.Add(x, first*size), unsafe.Add(y, first*size)
			sameBits := nanEqual && bytes.Equal(unsafe.Slice((*byte)(x), n*size), unsafe.Slice((*byte)(y), n*size))
			if !sameBits && !strict(x, y, n, nanEqual) {
				return false
			}
		}
		return true
	}
}

// inPieces compares in vectors, and one by one what they do not find to be equal.
func inPieces[T any](vectors prefix, same func(x, y T, nanEqual bool) bool) func(x, y unsafe.Pointer, n int64, nanEqual bool) bool {
	size, oneByOne := int64(unsafe.Sizeof(*(*T)(nil))), rows(same)
	return func(x, y unsafe.Pointer, n int64, nanEqual bool) bool {
		for first := int64(0); first < n; first += inCache {
			n := min(n-first, inCache)
			x, y := unsafe.Add(x, first*size), unsafe.Add(y, first*size)
			done := vectors(x, y, n*size) / size
			if done < n && !oneByOne(unsafe.Add(x, done*size), unsafe.Add(y, done*size), n-done, nanEqual) {
				return false
			}
		}
		return true
	}
}

func same[T float32 | float64 | complex64 | complex128](x, y T, nanEqual bool) bool {
	return x == y || nanEqual && x != x && y != y
}

// sameHalf compares floats of 16 bits with these bits for infinity.
func sameHalf(infinity uint16) func(x, y uint16, nanEqual bool) bool {
	return func(x, y uint16, nanEqual bool) bool {
		switch isNaN := x&0x7fff > infinity; {
		case isNaN || y&0x7fff > infinity:
			return nanEqual && isNaN && y&0x7fff > infinity
		default:
			return x == y || (x|y)&0x7fff == 0
		}
	}
}
