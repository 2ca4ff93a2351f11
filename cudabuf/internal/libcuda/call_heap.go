//go:build linux && (gorgonia || !amd64)

package libcuda

import "sync"

// blocks hold the words of calls while they run: purego and cgo want them on the
// heap.
var blocks = sync.Pool{New: func() any { return new([maxWords]uintptr) }}

// invoke calls a function with integers and pointers, and answers the low half of
// its result, the one that a CUresult has.
func invoke(function uintptr, words ...uintptr) int32 {
	b := blocks.Get().(*[maxWords]uintptr)
	copy(b[:len(words)], words) // or it panics
	r := invokeBlock(function, b[:len(words)])
	blocks.Put(b)
	return r
}
