//go:build linux && !race

package libcuda

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// This does not run under the race detector, in which a sync.Pool drops items
// at random.
func TestFrequentCallsDoNotAllocate(t *testing.T) {
	f := openFake(t)
	args := []driver.Arg{{Kind: driver.Pointer, Bits: 1}, {Kind: driver.Int32, Bits: 2}}
	one, host := driver.Dim3{X: 1, Y: 1, Z: 1}, make([]byte, 16)
	launch := &driver.Launch{Function: 8, Grid: one, Block: one, Stream: 9, Args: args}
	for name, call := range map[string]func() error{
		"set the context":   func() error { return f.CtxSetCurrent(7) },
		"launch":            func() error { return f.LaunchKernel(launch) },
		"launch a graph":    func() error { return f.GraphLaunch(8, 9) },
		"copy in":           func() error { return f.MemcpyHtoDAsync(7, host, 9) },
		"copy out":          func() error { return f.MemcpyDtoHAsync(host, 7, 9) },
		"copy":              func() error { return f.MemcpyDtoDAsync(7, 8, 16, 9) },
		"fill":              func() error { return f.MemsetD8Async(7, 1, 16, 9) },
		"record an event":   func() error { return f.EventRecord(7, 9) },
		"wait in a stream":  func() error { return f.StreamWaitEvent(9, 7) },
		"query an event":    func() error { _, err := f.EventQuery(7); return err },
		"query a stream":    func() error { _, err := f.StreamQuery(9); return err },
		"wait for a stream": func() error { return f.StreamSynchronize(9) },
		"free on a stream":  func() error { return f.MemFreeAsync(7, 9) },
	} {
		// The garbage collector may empty the pool once.
		assert.Less(t, testing.AllocsPerRun(100, func() {
			if err := call(); err != nil {
				t.Error(err)
			}
		}), 0.5, name)
	}
}
