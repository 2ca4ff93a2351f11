//go:build linux && !gorgonia && !amd64

package libcuda

import "github.com/ebitengine/purego"

// invokeBuffer calls a C function with arguments on the heap.
func invokeBuffer(function uintptr, args []uintptr) int32 {
	r, _, _ := purego.SyscallN(function, args...)
	return int32(r)
}
