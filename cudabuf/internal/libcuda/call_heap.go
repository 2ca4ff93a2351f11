//go:build linux && (gorgonia || !amd64)

package libcuda

import "sync"

// argumentBuffers hold the words of calls while they run: purego and cgo want them on the
// heap.
var argumentBuffers = sync.Pool{New: func() any { return new([maxArguments]uintptr) }}

// invoke calls a function with integers and pointers, and answers the low half of
// its result, the one that a CUresult has.
func invoke(function uintptr, words ...uintptr) int32 {
	b := argumentBuffers.Get().(*[maxArguments]uintptr)
	copy(b[:len(words)], words) // or it panics
	r := invokeBuffer(function, b[:len(words)])
	argumentBuffers.Put(b)
	return r
}
