package cpu

import "unsafe"

// streams tells whether stream is more than a copy.
const streams = true

// streamLines copies n lines of the cache, n > 0, to where a line begins, but not
// through the cache.
//
//go:noescape
func streamLines(dst, src unsafe.Pointer, n int64)

// streamEnd waits until what was streamed is in memory.
func streamEnd()
