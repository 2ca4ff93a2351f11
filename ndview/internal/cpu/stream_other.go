//go:build !amd64

package cpu

import "unsafe"

const streams = false

func streamLines(dst, src unsafe.Pointer, n int64) {
	copy(unsafe.Slice((*[block]byte)(dst), n), unsafe.Slice((*[block]byte)(src), n))
}

func streamEnd() {}
