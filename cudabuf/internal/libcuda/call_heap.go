//go:build linux && (gorgonia || !amd64)

package libcuda

import "sync"

// argumentBuffers hold the arguments of running calls, because purego and cgo
// need them on the heap.
var argumentBuffers = sync.Pool{New: func() any { return new([maxArguments]uintptr) }}

// invoke calls a C function with integer and pointer arguments. It returns the
// low 32 bits of the result, which hold a CUresult.
func invoke(function uintptr, args ...uintptr) int32 {
	b := argumentBuffers.Get().(*[maxArguments]uintptr)
	copy(b[:len(args)], args) // panics if there are too many
	r := invokeBuffer(function, b[:len(args)])
	argumentBuffers.Put(b)
	return r
}
