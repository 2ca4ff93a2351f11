package cpu

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// streams tells whether Stream is more than a copy.
var streams = cpu.X86.HasAVX2

// streamLines copies n lines of the cache, n > 0, to where a line begins, but not
// through the cache.
//
//go:noescape
func streamLines(dst, src unsafe.Pointer, n int64)

// StreamEnd lets others see what was streamed before what is written later.
func StreamEnd()
