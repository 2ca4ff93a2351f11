package shuffle

import (
	"encoding/binary"
	"errors"
	"fmt"
)

var le = binary.LittleEndian

// Bytes shuffles elements of size bytes: byte b of element i moves to position b*n+i,
// where n = len(src)/size. Bytes after the last whole element are copied. dst must have
// the length of src and must not overlap it. Bytes returns an error if it has another
// length or if size is less than 1.
func Bytes(dst, src []byte, size int) error {
	n, err := elements("Bytes", dst, src, size)
	if err != nil {
		return err
	}
	if size == 1 {
		copy(dst, src)
		return nil
	}
	done := shuffleVector(dst, src, n, size) // elements
	switch size {
	case 2:
		done = bytes2(dst, src, n, done)
	case 4:
		done = bytes4(dst, src, n, done)
	case 8:
		done = bytes8(dst, src, n, done)
	}
	for b := range size {
		plane := dst[b*n : (b+1)*n]
		for i := done; i < n; i++ {
			plane[i] = src[i*size+b]
		}
	}
	copy(dst[n*size:], src[n*size:])
	return nil
}

// UnshuffleBytes is the inverse of [Bytes].
func UnshuffleBytes(dst, src []byte, size int) error {
	return unshuffleBytes("UnshuffleBytes", dst, src, size, false)
}

// UnshuffleBytesUncached is [UnshuffleBytes] for a large dst that is not read soon. It is
// written past the caches where that is faster.
func UnshuffleBytesUncached(dst, src []byte, size int) error {
	return unshuffleBytes("UnshuffleBytesUncached", dst, src, size, true)
}

func unshuffleBytes(function string, dst, src []byte, size int, stream bool) error {
	n, err := elements(function, dst, src, size)
	if err != nil {
		return err
	}
	if size == 1 {
		copy(dst, src)
		return nil
	}
	var few [8][]byte
	planes := few[:0]
	for b := range size {
		planes = append(planes, src[b*n:(b+1)*n])
	}
	unshufflePlanes(dst, planes, stream)
	copy(dst[n*size:], src[n*size:])
	return nil
}

// UnshufflePlanes joins planes that do not follow each other: byte b of each element is in
// planes[b]. They have one length, and dst their bytes. It is [UnshuffleBytesUncached] if
// uncached is true, otherwise [UnshuffleBytes].
func UnshufflePlanes(dst []byte, planes [][]byte, uncached bool) error {
	if len(planes) == 0 {
		return errors.New("shuffle.UnshufflePlanes: no planes")
	}
	n := len(planes[0])
	for b, plane := range planes {
		if len(plane) != n {
			return fmt.Errorf("shuffle.UnshufflePlanes: plane %d of %d bytes, want %d", b, len(plane), n)
		}
	}
	if len(dst) != n*len(planes) {
		return fmt.Errorf("shuffle.UnshufflePlanes: destination of %d bytes for %d planes of %d", len(dst), len(planes), n)
	}
	unshufflePlanes(dst, planes, uncached)
	return nil
}

func unshufflePlanes(dst []byte, planes [][]byte, stream bool) {
	size := len(planes)
	done := unshuffleVector(dst, planes, stream)
	switch size {
	case 2:
		done = unshuffle2(dst, planes, done)
	case 4:
		done = unshuffle4(dst, planes, done)
	case 8:
		done = unshuffle8(dst, planes, done)
	}
	for b, plane := range planes {
		for i := done; i < len(plane); i++ {
			dst[i*size+b] = plane[i]
		}
	}
}

// elements returns the number of whole elements, or an error for invalid arguments.
func elements(function string, dst, src []byte, size int) (int, error) {
	if size < 1 {
		return 0, fmt.Errorf("shuffle.%s: elements of %d bytes, want at least 1", function, size)
	}
	if len(dst) != len(src) {
		return 0, fmt.Errorf("shuffle.%s: destination of %d bytes for %d", function, len(dst), len(src))
	}
	return len(src) / size, nil
}

// The functions below move 8 elements per step, from element i on. They return the number
// of the first element that they did not move.

func bytes2(dst, src []byte, n, i int) int {
	for ; i+8 <= n; i += 8 {
		a, b := le.Uint64(src[2*i:]), le.Uint64(src[2*i+8:])
		le.PutUint64(dst[i:], evenBytes(a)|evenBytes(b)<<32)
		le.PutUint64(dst[n+i:], evenBytes(a>>8)|evenBytes(b>>8)<<32)
	}
	return i
}

func unshuffle2(dst []byte, planes [][]byte, i int) int {
	for ; i+8 <= len(planes[0]); i += 8 {
		low, high := le.Uint64(planes[0][i:]), le.Uint64(planes[1][i:])
		le.PutUint64(dst[2*i:], spreadBytes(low)|spreadBytes(high)<<8)
		le.PutUint64(dst[2*i+8:], spreadBytes(low>>32)|spreadBytes(high>>32)<<8)
	}
	return i
}

// evenBytes packs bytes 0, 2, 4 and 6 into 4 bytes.
func evenBytes(x uint64) uint64 {
	x &= 0x00ff00ff00ff00ff
	x = (x | x>>8) & 0x0000ffff0000ffff
	return (x | x>>16) & 0x00000000ffffffff
}

// spreadBytes is the inverse of evenBytes. It ignores the upper 4 bytes.
func spreadBytes(x uint64) uint64 {
	x &= 0x00000000ffffffff
	x = (x | x<<16) & 0x0000ffff0000ffff
	return (x | x<<8) & 0x00ff00ff00ff00ff
}

func bytes4(dst, src []byte, n, i int) int {
	for ; i+8 <= n; i += 8 {
		s := src[4*i : 4*i+32]
		a, b, c, d := transpose4(pair(s, 0), pair(s, 4), pair(s, 8), pair(s, 12))
		le.PutUint64(dst[i:], a)
		le.PutUint64(dst[n+i:], b)
		le.PutUint64(dst[2*n+i:], c)
		le.PutUint64(dst[3*n+i:], d)
	}
	return i
}

func unshuffle4(dst []byte, planes [][]byte, i int) int {
	for ; i+8 <= len(planes[0]); i += 8 {
		a, b, c, d := transpose4(le.Uint64(planes[0][i:]), le.Uint64(planes[1][i:]), le.Uint64(planes[2][i:]), le.Uint64(planes[3][i:]))
		out := dst[4*i : 4*i+32]
		putPair(out, 0, a)
		putPair(out, 4, b)
		putPair(out, 8, c)
		putPair(out, 12, d)
	}
	return i
}

// pair joins an element of 4 bytes and the one 4 elements after it.
func pair(s []byte, at int) uint64 {
	return uint64(le.Uint32(s[at:])) | uint64(le.Uint32(s[at+16:]))<<32
}

func putPair(s []byte, at int, x uint64) {
	le.PutUint32(s[at:], uint32(x))
	le.PutUint32(s[at+16:], uint32(x>>32))
}

// transpose4 transposes a matrix of 4 by 4 bytes in the lower halves of its arguments,
// and another in the upper halves.
func transpose4(a, b, c, d uint64) (uint64, uint64, uint64, uint64) {
	a, b = swap(a, b, 8, 0x00ff00ff00ff00ff)
	c, d = swap(c, d, 8, 0x00ff00ff00ff00ff)
	a, c = swap(a, c, 16, 0x0000ffff0000ffff)
	b, d = swap(b, d, 16, 0x0000ffff0000ffff)
	return a, b, c, d
}

// swap exchanges the fields of x above each field of mask with those of y in the mask.
func swap(x, y uint64, shift uint, mask uint64) (uint64, uint64) {
	t := (x>>shift ^ y) & mask
	return x ^ t<<shift, y ^ t
}

func bytes8(dst, src []byte, n, i int) int {
	var m [8]uint64
	for ; i+8 <= n; i += 8 {
		s := src[8*i : 8*i+64]
		for j := range m {
			m[j] = le.Uint64(s[8*j:])
		}
		transpose8(&m)
		for b, word := range m {
			le.PutUint64(dst[b*n+i:], word)
		}
	}
	return i
}

func unshuffle8(dst []byte, planes [][]byte, i int) int {
	var m [8]uint64
	for ; i+8 <= len(planes[0]); i += 8 {
		for b := range m {
			m[b] = le.Uint64(planes[b][i:])
		}
		transpose8(&m)
		out := dst[8*i : 8*i+64]
		for j, word := range m {
			le.PutUint64(out[8*j:], word)
		}
	}
	return i
}

// transpose8 transposes a matrix of 8 by 8 bytes.
func transpose8(m *[8]uint64) {
	for i := 0; i < 8; i += 2 {
		m[i], m[i+1] = swap(m[i], m[i+1], 8, 0x00ff00ff00ff00ff)
	}
	for _, i := range [4]int{0, 1, 4, 5} {
		m[i], m[i+2] = swap(m[i], m[i+2], 16, 0x0000ffff0000ffff)
	}
	for i := range 4 {
		m[i], m[i+4] = swap(m[i], m[i+4], 32, 0x00000000ffffffff)
	}
}
