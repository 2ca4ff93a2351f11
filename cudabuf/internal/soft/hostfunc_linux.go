package soft

import (
	"runtime"
	"sync"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"golang.org/x/sys/unix"
)

// hostThreads are the threads that run host functions now; they may not call
// the driver.
type hostThreads struct{ ids sync.Map }

func (h *hostThreads) run(f func()) {
	done := make(chan struct{})
	go func() { // a goroutine of its own, so that f may end it
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		id := unix.Gettid()
		h.ids.Store(id, nil)
		defer h.ids.Delete(id)
		f()
	}()
	<-done
}

func (h *hostThreads) has(id int) bool {
	_, ok := h.ids.Load(id)
	return ok
}

func (d *Driver) LaunchHostFunc(h driver.Stream, f func()) error {
	const call = "cuLaunchHostFunc"
	_, s, err := d.stream(call, h)
	if err != nil {
		return err
	}
	if f == nil {
		return driver.Check(call, driver.InvalidValue)
	}
	return s.issue(call, func() error { d.hosting.run(f); return nil })
}
