//go:build !amd64

package cpu

import "unsafe"

// streams tells whether Stream is more than a copy.
const streams = false

func streamLines(dst, src unsafe.Pointer, n int64) {
	copy(unsafe.Slice((*[block]byte)(dst), n), unsafe.Slice((*[block]byte)(src), n))
}

// StreamEnd lets others see what was streamed before what is written later.
func StreamEnd() {}
