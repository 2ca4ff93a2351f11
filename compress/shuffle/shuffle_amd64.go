package shuffle

import "unsafe"

// All processors of this architecture have SSE2.

//go:noescape
func shuffle4SSE2(dst, src *byte, n, steps int)

//go:noescape
func unshuffle4SSE2(dst, src *byte, n, steps int)

// unshuffle4Stream writes past the caches to an address that is a multiple of 16.
//
//go:noescape
func unshuffle4Stream(dst, src *byte, n, steps int)

// fast4 shuffles elements of 4 bytes and returns the number that it moved.
func fast4(dst, src []byte, n int) int {
	steps := n / 16
	if steps > 0 {
		_, _ = dst[4*n-1], src[4*n-1]
		shuffle4SSE2(&dst[0], &src[0], n, steps)
	}
	return 16 * steps
}

// fastUnshuffle4 is the inverse of fast4. If stream is true, dst is written past the
// caches, which takes an aligned address.
func fastUnshuffle4(dst, src []byte, n int, stream bool) int {
	steps := n / 16
	if steps > 0 {
		_, _ = dst[4*n-1], src[4*n-1]
		if stream && uintptr(unsafe.Pointer(&dst[0]))%16 == 0 {
			unshuffle4Stream(&dst[0], &src[0], n, steps)
		} else {
			unshuffle4SSE2(&dst[0], &src[0], n, steps)
		}
	}
	return 16 * steps
}
