package cudatest

import (
	"sync/atomic"

	"github.com/quiver-gpu/quiver/cudabuf"
)

// Results for faults. All except OutOfMemory lose the device.
const (
	OutOfMemory    cudabuf.Result = 2   // CUDA_ERROR_OUT_OF_MEMORY
	ECCError       cudabuf.Result = 214 // CUDA_ERROR_ECC_UNCORRECTABLE
	IllegalAddress cudabuf.Result = 700 // CUDA_ERROR_ILLEGAL_ADDRESS
	LaunchFailed   cudabuf.Result = 719 // CUDA_ERROR_LAUNCH_FAILED
)

// FailNth returns a Config.Fail with which the n-th call of a function fails,
// counted from 1 over the life of the driver.
func FailNth(call string, n int, r cudabuf.Result) func(string, int) cudabuf.Result {
	return func(c string, i int) cudabuf.Result {
		if c == call && i == n {
			return r
		}
		return 0
	}
}

// FailFrom returns a Config.Fail with which the n-th call of a function and
// every later one fail.
func FailFrom(call string, n int, r cudabuf.Result) func(string, int) cudabuf.Result {
	return func(c string, i int) cudabuf.Result {
		if c == call && i >= n {
			return r
		}
		return 0
	}
}

// FailAt returns a Config.Fail with which the n-th driver call of any function
// fails, counted from 1, for New from the first call after it. A test that
// increments n until it passes without a fault has failed each call once: see the
// example. The function counts calls, so it serves one driver.
func FailAt(n int, r cudabuf.Result) func(string, int) cudabuf.Result {
	var calls atomic.Int64
	return func(string, int) cudabuf.Result {
		if calls.Add(1) == int64(n) {
			return r
		}
		return 0
	}
}

// Faults combines several functions for Config.Fail. It calls them in order
// until one returns a result other than 0.
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
