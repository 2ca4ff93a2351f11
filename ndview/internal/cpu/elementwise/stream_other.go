//go:build !amd64

package elementwise

import "unsafe"

const (
	canStream       = false
	streamAlignment = 1
)

func streamBlocks(to, from unsafe.Pointer, n int) { panic("elementwise: no streams") }

func streamed() {}
