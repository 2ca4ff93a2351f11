// Package simulated implements driver.API with CUDA devices simulated in Go. It
// enforces the rules that CUDA enforces, so code that passes its tests can also
// run on a GPU:
//
//   - a call needs a current context on its thread;
//   - the host cannot touch device memory;
//   - asynchronous operations run later, in the order of their stream;
//   - device memory is limited.
//
// Where CUDA leaves the result of a mistake undefined, such as an overlapping
// copy, the call returns an error. The package needs Linux.
package simulated

import (
	"time"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// Config describes the simulated devices. Package cudatest documents the
// fields.
type Config struct {
	Devices           int
	MemoryBytes       int64
	ComputeCapability [2]int
	PeerAccess        func(dev, peer int) bool
	CopyLatency       time.Duration
	Fail              func(call string, n int) driver.Result
}
