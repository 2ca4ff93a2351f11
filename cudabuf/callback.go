package cudabuf

import (
	"errors"
	"fmt"
	"sync"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// What arrowbuf.Stream asks for.
var _ arrowbuf.Stream = (*Stream)(nil)

// After runs f, in a goroutine, when all work given to the stream so far is done.
// Unlike that of Do, f may use devices, and later work of the stream does not wait
// for it. Where the driver cannot tell (a stream that is closed, or a device that
// was lost), f runs before After returns; what has not run when the Driver is
// closed runs then. Of a graph's work nothing is known to be done ever: f of a
// stream that captures one runs at once.
func (s *Stream) After(f func()) {
	all := &s.dev.callbacks
	a := all.add(f)
	err := errors.ErrUnsupported
	if s.capture == nil {
		if err = s.withContext(func() error { return s.dev.api.LaunchHostFunc(s.handle, func() { go all.run(a) }) }); err != nil {
			_ = s.synchronize() // what it reports was reported, or the device is lost
		}
	}
	if err != nil {
		all.run(a)
	}
}

// callbackSet are the functions that a device's streams have yet to run.
type callbackSet struct {
	mu  sync.Mutex
	all map[*callback]struct{}
}

type callback struct {
	once sync.Once
	f    func()
}

func (x *callbackSet) add(f func()) *callback {
	a := &callback{f: f}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.all == nil {
		x.all = map[*callback]struct{}{}
	}
	x.all[a] = struct{}{}
	return a
}

// run runs the function, or waits for who does, so that it has run once.
func (x *callbackSet) run(a *callback) {
	a.once.Do(a.f)
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.all, a)
}

// runAll waits for the device, and leaves none to run.
func (x *callbackSet) runAll(d *Device) {
	x.mu.Lock()
	var left []*callback
	for a := range x.all {
		left = append(left, a)
	}
	x.mu.Unlock()
	if len(left) == 0 {
		return
	}
	_ = d.Synchronize() // on a lost device nothing goes on
	for _, a := range left {
		x.run(a)
	}
}

// Do runs f on the host when all earlier work of the stream is done, and lets
// later work wait for its return (cuLaunchHostFunc). f must not use a device:
// CUDA would lock up. It does not run where earlier work of the stream failed.
func (s *Stream) Do(f func()) error {
	if s.capture != nil {
		return fmt.Errorf("%v: a host function in a graph: %w", s.dev, errors.ErrUnsupported)
	}
	return s.withContext(func() error { return s.dev.api.LaunchHostFunc(s.handle, f) })
}
