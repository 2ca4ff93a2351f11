package shuffle

// All processors of this architecture have SSE2.

//go:noescape
func shuffle4SSE2(dst, src *byte, n, steps int)

//go:noescape
func unshuffle4SSE2(dst, src *byte, n, steps int)

// fast4 shuffles elements of 4 bytes and returns the number that it moved.
func fast4(dst, src []byte, n int) int {
	steps := n / 16
	if steps > 0 {
		_, _ = dst[4*n-1], src[4*n-1]
		shuffle4SSE2(&dst[0], &src[0], n, steps)
	}
	return 16 * steps
}

// fastUnshuffle4 is the inverse of fast4.
func fastUnshuffle4(dst, src []byte, n int) int {
	steps := n / 16
	if steps > 0 {
		_, _ = dst[4*n-1], src[4*n-1]
		unshuffle4SSE2(&dst[0], &src[0], n, steps)
	}
	return 16 * steps
}
