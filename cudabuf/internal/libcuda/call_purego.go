//go:build linux && !gorgonia && !amd64

package libcuda

import "github.com/ebitengine/purego"

func invokeBuffer(function uintptr, words []uintptr) int32 {
	r, _, _ := purego.SyscallN(function, words...)
	return int32(r)
}
