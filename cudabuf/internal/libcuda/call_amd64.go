//go:build linux && !gorgonia

package libcuda

import "unsafe"

// frame is a call of a C function. call_amd64.s knows its layout.
type frame struct {
	function uintptr
	args     [maxArguments]uintptr
}

// enterAddress is the address of the assembly function that performs the call
// of a frame.
var enterAddress uintptr

// cgocall calls a C function on the thread's system stack, as cgo calls do. The
// runtime keeps this name for purego, which avoids cgo in the same way.
// purego.SyscallN takes twice as long, because it copies 32 words three times.
//
//go:linkname cgocall runtime.cgocall
//go:noescape
func cgocall(function uintptr, argument unsafe.Pointer) int32

// invoke calls a C function with integer and pointer arguments. It returns the
// low 32 bits of the result, which hold a CUresult. A callback into Go may move
// the stack with the frame, but nothing reads the frame after the function has
// been entered.
func invoke(function uintptr, args ...uintptr) int32 {
	f := frame{function: function}
	copy(f.args[:len(args)], args) // panics if there are too many
	return cgocall(enterAddress, unsafe.Pointer(&f))
}
