package cudabuf

import (
	"errors"
	"fmt"
	"sync"
)

// LaunchHostFunc runs f on the host when all earlier work of the stream is done
// (cuLaunchHostFunc). Later work of the stream waits until f returns. f must not
// use a device, or CUDA deadlocks. f does not run if earlier work of the stream
// failed.
func (s *Stream) LaunchHostFunc(f func()) error {
	if f == nil {
		return fmt.Errorf("cudabuf.Stream.LaunchHostFunc: nil function: %w", ErrNil)
	}
	if s.capture != nil {
		return fmt.Errorf("%v: host function while capturing a graph: %w", s.dev, errors.ErrUnsupported)
	}
	return s.withContext(func() error { return s.dev.api.LaunchHostFunc(s.handle, f) })
}

// After runs f in a goroutine when all earlier work of the stream is done. Unlike a
// host function of the stream, f may use devices, and later work does not wait for it.
//
// If the driver cannot notify (the stream is closed or the device is lost), f runs
// before After returns. The same holds for a stream that captures a graph, whose
// work has no known end. Driver.Close runs all functions that have not run yet.
//
// Nothing happens if f is nil.
func (s *Stream) After(f func()) {
	if f == nil {
		return
	}
	all := &s.dev.callbacks
	a := all.add(f)
	err := errors.ErrUnsupported
	if s.capture == nil {
		if err = s.withContext(func() error { return s.dev.api.LaunchHostFunc(s.handle, func() { go all.run(a) }) }); err != nil {
			_ = s.synchronize() // the error is known already, or the device is lost
		}
	}
	if err != nil {
		all.run(a)
	}
}

// callbackSet holds the functions of Stream.After that have not run yet.
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

// run runs the function once. It waits if another goroutine is running it.
func (x *callbackSet) run(a *callback) {
	a.once.Do(a.f)
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.all, a)
}

// runAll waits for the device, and then runs all functions that are left.
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
	_ = d.Synchronize() // on a lost device no work runs any more
	for _, a := range left {
		x.run(a)
	}
}
