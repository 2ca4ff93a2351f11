//go:build linux && !gorgonia

package libcuda

import "unsafe"

// frame is a call: the function, and the words that it gets. call_amd64.s knows
// where they lie.
type frame struct {
	function uintptr
	words    [maxArguments]uintptr
}

// enterAddress is the address of the function in call_amd64.s that does a frame's call.
var enterAddress uintptr

// cgocall calls a C function on the thread's own stack, as calls of cgo do. The
// runtime keeps this name for purego, which does without cgo in the same way; a
// call by purego.SyscallN, which copies 32 words three times, takes twice as long.
//
//go:linkname cgocall runtime.cgocall
//go:noescape
func cgocall(function uintptr, argument unsafe.Pointer) int32

// invoke calls a function with integers and pointers, and answers the low half of
// its result, the one that a CUresult has. The frame is on the stack, which a call
// back into Go may move: nothing reads it once the function has been called.
func invoke(function uintptr, words ...uintptr) int32 {
	f := frame{function: function}
	copy(f.words[:len(words)], words) // or it panics
	return cgocall(enterAddress, unsafe.Pointer(&f))
}
