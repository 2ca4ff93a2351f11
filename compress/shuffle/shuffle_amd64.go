package shuffle

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

//go:noescape
func shuffle2AVX2(dst, src *byte, n, steps int)

//go:noescape
func shuffle4AVX2(dst, src *byte, n, steps int)

//go:noescape
func shuffle8AVX2(dst, src *byte, n, steps int)

//go:noescape
func unshuffle2AVX2(dst *byte, planes *[8]*byte, steps int)

//go:noescape
func unshuffle4AVX2(dst *byte, planes *[8]*byte, steps int)

//go:noescape
func unshuffle8AVX2(dst *byte, planes *[8]*byte, steps int)

//go:noescape
func unshuffle2Stream(dst *byte, planes *[8]*byte, steps int)

//go:noescape
func unshuffle4Stream(dst *byte, planes *[8]*byte, steps int)

//go:noescape
func unshuffle8Stream(dst *byte, planes *[8]*byte, steps int)

// vectorStep is the number of elements that the functions above move per step.
const vectorStep = 32

// shuffleVector shuffles the first of n elements of size bytes, if that is 2, 4 or 8, and
// returns their number.
func shuffleVector(dst, src []byte, n, size int) int {
	steps := n / vectorStep
	if steps == 0 || !cpu.X86.HasAVX2 {
		return 0
	}
	_, _ = dst[size*n-1], src[size*n-1]
	switch size {
	case 2:
		shuffle2AVX2(&dst[0], &src[0], n, steps)
	case 4:
		shuffle4AVX2(&dst[0], &src[0], n, steps)
	case 8:
		shuffle8AVX2(&dst[0], &src[0], n, steps)
	default:
		return 0
	}
	return steps * vectorStep
}

// unshuffleVector is the inverse of shuffleVector for the planes of elements. If stream is
// true, it writes past the caches, which takes an aligned address.
func unshuffleVector(dst []byte, planes [][]byte, stream bool) int {
	n := len(planes[0])
	steps := n / vectorStep
	if steps == 0 || !cpu.X86.HasAVX2 {
		return 0
	}
	var move [2]func(dst *byte, planes *[8]*byte, steps int)
	switch len(planes) {
	case 2:
		move = [2]func(*byte, *[8]*byte, int){unshuffle2AVX2, unshuffle2Stream}
	case 4:
		move = [2]func(*byte, *[8]*byte, int){unshuffle4AVX2, unshuffle4Stream}
	case 8:
		move = [2]func(*byte, *[8]*byte, int){unshuffle8AVX2, unshuffle8Stream}
	default:
		return 0
	}
	_ = dst[len(planes)*n-1]
	var starts [8]*byte
	for b, plane := range planes {
		_ = plane[n-1]
		starts[b] = &plane[0]
	}
	if stream && uintptr(unsafe.Pointer(&dst[0]))%32 == 0 {
		move[1](&dst[0], &starts, steps)
	} else {
		move[0](&dst[0], &starts, steps)
	}
	return steps * vectorStep
}
