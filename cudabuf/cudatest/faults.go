package cudatest

import (
	"sync/atomic"

	"github.com/quiver-gpu/quiver/cudabuf"
)

// Results for faults. All but OutOfMemory lose the device.
const (
	OutOfMemory    cudabuf.Result = 2   // CUDA_ERROR_OUT_OF_MEMORY
	ECCError       cudabuf.Result = 214 // CUDA_ERROR_ECC_UNCORRECTABLE
	IllegalAddress cudabuf.Result = 700 // CUDA_ERROR_ILLEGAL_ADDRESS
	LaunchFailed   cudabuf.Result = 719 // CUDA_ERROR_LAUNCH_FAILED
)

// FailNth is a Config.Fail: the n-th call of a function fails, counted from 1
// over the life of the machine.
func FailNth(call string, n int, r cudabuf.Result) func(string, int) cudabuf.Result {
	return func(c string, i int) cudabuf.Result {
		if c == call && i == n {
			return r
		}
		return 0
	}
}

// FailFrom is a Config.Fail: the n-th call of a function fails, and every one
// after it.
func FailFrom(call string, n int, r cudabuf.Result) func(string, int) cudabuf.Result {
	return func(c string, i int) cudabuf.Result {
		if c == call && i >= n {
			return r
		}
		return 0
	}
}

// FailAt is a Config.Fail: the n-th driver call of the machine fails, whichever
// it is, counted from 1. A test that counts n up until it passes without a fault
// has tried each call in turn. The function serves one machine, since it counts.
func FailAt(n int, r cudabuf.Result) func(string, int) cudabuf.Result {
	var calls atomic.Int64
	return func(string, int) cudabuf.Result {
		if calls.Add(1) == int64(n) {
			return r
		}
		return 0
	}
}

// Faults puts several functions for Config.Fail together. A call fails with what
// the first of them says that says anything; the later ones are not asked.
func Faults(all ...func(call string, n int) cudabuf.Result) func(string, int) cudabuf.Result {
	return func(call string, n int) cudabuf.Result {
		for _, fail := range all {
			if r := fail(call, n); r != 0 {
				return r
			}
		}
		return 0
	}
}
