// Package simulated is a CUDA device in software. It enforces what CUDA enforces,
// so that code which passes on it has a chance on a GPU: a call needs a current
// context on its thread, the host cannot touch device memory, asynchronous work
// runs later on its stream, memory ends.
//
// Where CUDA leaves something undefined that is always a mistake, such as an
// overlapping copy, it answers an error.
package simulated

import (
	"time"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// Config says what machine to play. Package cudatest documents the fields.
type Config struct {
	Devices           int
	MemoryBytes       int64
	ComputeCapability [2]int
	PeerAccess        func(dev, peer int) bool
	CopyLatency       time.Duration
	Fail              func(call string, n int) driver.Result
}
