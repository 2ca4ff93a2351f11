package elementwise

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// canStream tells whether there is streamBlocks.
var canStream = cpu.X86.HasAVX2

// streamAlignment is what addresses that streamBlocks writes to are multiples of.
const streamAlignment = 32

// streamBlocks copies n blocks of 64 bytes to memory without reading it first, and
// past the caches.
//
//go:noescape
func streamBlocks(to, from unsafe.Pointer, n int)

// streamed lets others see what was streamed before what is written later.
func streamed()
