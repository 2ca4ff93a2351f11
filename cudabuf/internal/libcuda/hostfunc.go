//go:build linux

package libcuda

import (
	"sync"
	"sync/atomic"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// Functions that streams have yet to run, by the number that the driver hands
// back. C cannot hold a Go function, and callbacks are never freed, so all go
// through one.
var (
	pending     sync.Map // uintptr -> func()
	lastPending atomic.Uintptr
)

func (d *Driver) LaunchHostFunc(s driver.Stream, f func()) error {
	number := lastPending.Add(1)
	pending.Store(number, f)
	err := d.call(cuLaunchHostFunc, uintptr(s), hostFuncEntry(), number)
	if err != nil {
		pending.Delete(number)
	}
	return err
}

// runPending runs one of them, on a thread of the driver.
func runPending(number uintptr) {
	if f, ok := pending.LoadAndDelete(number); ok {
		f.(func())()
	}
}
