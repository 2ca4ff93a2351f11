//go:build linux

package simulated

import (
	"runtime"
	"testing"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// beginCapture begins a capture on a new stream.
func beginCapture(t *testing.T, d *Driver, mode driver.CaptureMode) driver.Stream {
	t.Helper()
	s := newStreamOf(t, d, driver.StreamNonBlocking)
	require.NoError(t, d.StreamBeginCapture(s, mode))
	return s
}

// add launches a host function that appends name to the log.
func (l *callLog) add(t *testing.T, d *Driver, s driver.Stream, name string) {
	t.Helper()
	require.NoError(t, d.LaunchHostFunc(s, func() { *l = append(*l, name) }))
}

type callLog []string

func instantiate(t *testing.T, d *Driver, s driver.Stream) driver.GraphExec {
	t.Helper()
	g := must[driver.Graph](t)(d.StreamEndCapture(s))
	e := must[driver.GraphExec](t)(d.GraphInstantiate(g))
	require.NoError(t, d.GraphDestroy(g))
	return e
}

func TestGraphRunsOnlyWhenLaunched(t *testing.T) {
	d, _ := openMachine(t, Config{})
	var done callLog
	s := beginCapture(t, d, driver.CaptureRelaxed)
	done.add(t, d, s, "a")
	done.add(t, d, s, "b")
	e := instantiate(t, d, s)
	require.NoError(t, d.StreamSynchronize(s))
	assert.Empty(t, done)
	require.NoError(t, d.GraphLaunch(e, s))
	require.NoError(t, d.GraphLaunch(e, newStreamOf(t, d, driver.StreamNonBlocking)))
	require.NoError(t, d.GraphExecDestroy(e), "launches go on")
	require.NoError(t, d.CtxSynchronize())
	assert.Equal(t, callLog{"a", "b", "a", "b"}, done)
	wantCode(t, driver.InvalidValue, d.GraphLaunch(e, s))
	wantCode(t, driver.InvalidValue, d.GraphExecDestroy(e))
}

func TestGraphMayBeEmptyOrNested(t *testing.T) {
	d, _ := openMachine(t, Config{})
	var done callLog
	empty := instantiate(t, d, beginCapture(t, d, driver.CaptureGlobal))
	s := beginCapture(t, d, driver.CaptureThreadLocal)
	done.add(t, d, s, "inner")
	inner := instantiate(t, d, s)
	require.NoError(t, d.StreamBeginCapture(s, driver.CaptureGlobal))
	require.NoError(t, d.GraphLaunch(empty, s))
	require.NoError(t, d.GraphLaunch(inner, s))
	done.add(t, d, s, "outer")
	require.NoError(t, d.GraphLaunch(instantiate(t, d, s), s))
	require.NoError(t, d.StreamSynchronize(s))
	assert.Equal(t, callLog{"inner", "outer"}, done)
}

func TestStreamsJoinCapture(t *testing.T) {
	d, _ := openMachine(t, Config{})
	var done callLog
	s, other := beginCapture(t, d, driver.CaptureRelaxed), newStreamOf(t, d, driver.StreamNonBlocking)
	fork, join := newEvent(t, d, 0), newEvent(t, d, 0)
	done.add(t, d, s, "a")
	require.NoError(t, d.EventRecord(fork, s))
	require.NoError(t, d.StreamWaitEvent(other, fork))
	done.add(t, d, other, "b")
	require.NoError(t, d.EventRecord(join, other))
	require.NoError(t, d.StreamWaitEvent(s, join))
	done.add(t, d, s, "c")
	e := instantiate(t, d, s)
	require.NoError(t, d.StreamSynchronize(other), "it is out of the capture")
	require.NoError(t, d.GraphLaunch(e, other))
	require.NoError(t, d.StreamSynchronize(other))
	assert.Equal(t, callLog{"a", "b", "c"}, done)
	wantCode(t, capturedEvent, d.StreamWaitEvent(s, join)) // of a capture that has ended
}

func TestCaptureRejectsInvalidCalls(t *testing.T) {
	type fixture struct {
		*Driver
		t        *testing.T
		captured driver.Stream // by a relaxed capture
		other    driver.Stream
		inside   driver.Event // recorded in the capture
		outside  driver.Event // recorded elsewhere
	}
	for name, tt := range map[string]struct {
		do   func(f fixture) error
		want driver.Result
		end  driver.Result // of EndCapture
	}{
		"waiting for the stream":         {func(f fixture) error { return f.StreamSynchronize(f.captured) }, captureUnsupported, captureInvalidated},
		"asking the stream":              {func(f fixture) error { _, err := f.StreamQuery(f.captured); return err }, captureUnsupported, captureInvalidated},
		"waiting for the context":        {func(f fixture) error { return f.CtxSynchronize() }, captureUnsupported, captureInvalidated},
		"waiting for an event of it":     {func(f fixture) error { return f.EventSynchronize(f.inside) }, capturedEvent, captureInvalidated},
		"asking an event of it":          {func(f fixture) error { _, err := f.EventQuery(f.inside); return err }, capturedEvent, captureInvalidated},
		"time between events of it":      {func(f fixture) error { _, err := f.EventElapsedTime(f.inside, f.inside); return err }, capturedEvent, captureInvalidated},
		"an event from outside":          {func(f fixture) error { return f.StreamWaitEvent(f.captured, f.outside) }, captureIsolation, captureInvalidated},
		"work on an invalidated capture": {func(f fixture) error { _ = f.CtxSynchronize(); return f.LaunchHostFunc(f.captured, func() {}) }, captureInvalidated, captureInvalidated},
		"the null stream joining":        {func(f fixture) error { return f.StreamWaitEvent(0, f.inside) }, captureImplicit, captureInvalidated},
		"another capture joining": {func(f fixture) error {
			must[any](f.t)(nil, f.StreamBeginCapture(f.other, driver.CaptureRelaxed))
			return f.StreamWaitEvent(f.other, f.inside)
		}, captureMerge, captureInvalidated},
		"ending it on another stream": {func(f fixture) error {
			must[any](f.t)(nil, f.StreamWaitEvent(f.other, f.inside))
			_, err := f.StreamEndCapture(f.other)
			return err
		}, captureUnmatched, captureInvalidated},
		"beginning it twice":        {func(f fixture) error { return f.StreamBeginCapture(f.captured, driver.CaptureRelaxed) }, illegalState, driver.Success},
		"ending what did not begin": {func(f fixture) error { _, err := f.StreamEndCapture(f.other); return err }, illegalState, driver.Success},
		"the null stream":           {func(f fixture) error { return f.StreamBeginCapture(0, driver.CaptureRelaxed) }, captureUnsupported, driver.Success},
		"no such mode":              {func(f fixture) error { return f.StreamBeginCapture(f.other, 3) }, driver.InvalidValue, driver.Success},
		"a stream that is not joined": {func(f fixture) error {
			must[any](f.t)(nil, f.StreamWaitEvent(f.other, f.inside))
			return f.LaunchHostFunc(f.other, func() {})
		}, driver.Success, captureUnjoined},
		"nothing of a stream that only waits": {func(f fixture) error { return f.StreamWaitEvent(f.other, f.inside) }, driver.Success, driver.Success},
		"nothing of memory when relaxed":      {func(f fixture) error { p, err := f.MemAlloc(8); must[any](f.t)(nil, f.MemFree(p)); return err }, driver.Success, driver.Success},
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := openMachine(t, Config{})
			f := fixture{d, t, 0, newStreamOf(t, d, driver.StreamNonBlocking), newEvent(t, d, 0), newEvent(t, d, 0)}
			require.NoError(t, d.EventRecord(f.outside, f.other))
			f.captured = beginCapture(t, d, driver.CaptureRelaxed)
			require.NoError(t, d.LaunchHostFunc(f.captured, func() {}))
			require.NoError(t, d.EventRecord(f.inside, f.captured))
			wantResult(t, tt.want, tt.do(f))
			_, err := d.StreamEndCapture(f.captured)
			wantResult(t, tt.end, err)
			require.NoError(t, d.StreamSynchronize(f.captured), "the stream works on")
		})
	}
}

func TestNullStreamRejectsWorkWhileBlockingStreamCaptures(t *testing.T) {
	d, _ := openMachine(t, Config{})
	s := newStreamOf(t, d, driver.StreamDefault)
	for name, use := range map[string]func() error{
		"work":  func() error { return d.LaunchHostFunc(0, func() {}) },
		"wait":  func() error { return d.StreamSynchronize(0) },
		"query": func() error { _, err := d.StreamQuery(0); return err },
	} {
		require.NoError(t, d.StreamBeginCapture(s, driver.CaptureRelaxed))
		wantCode(t, captureImplicit, use())
		_, err := d.StreamEndCapture(s)
		wantCode(t, captureInvalidated, err)
		assert.NoError(t, use(), name)
	}
}

func TestCaptureModesForbidImplicitSynchronization(t *testing.T) {
	for name, tt := range map[string]struct {
		mode        driver.CaptureMode
		here, there driver.Result // on the thread of the capture, and on another
	}{
		"global":  {driver.CaptureGlobal, captureUnsupported, captureUnsupported},
		"thread":  {driver.CaptureThreadLocal, captureUnsupported, driver.Success},
		"relaxed": {driver.CaptureRelaxed, driver.Success, driver.Success},
	} {
		t.Run(name, func(t *testing.T) {
			d, contexts := openMachine(t, Config{})
			alloc := func() error { _, err := d.MemAlloc(8); return err }
			s := beginCapture(t, d, tt.mode)
			done := make(chan error)
			go func() {
				runtime.LockOSThread()
				err := d.CtxSetCurrent(contexts[0])
				if err == nil {
					err = alloc()
				}
				done <- err
			}()
			wantResult(t, tt.there, <-done)
			_, err := d.StreamEndCapture(s)
			wantResult(t, map[bool]driver.Result{true: captureInvalidated}[tt.there != driver.Success], err)
			s = beginCapture(t, d, tt.mode)
			wantResult(t, tt.here, alloc())
			_, err = d.StreamEndCapture(s)
			wantResult(t, map[bool]driver.Result{true: captureInvalidated}[tt.here != driver.Success], err)
		})
	}
}

func TestCaptureEndsOnItsThreadUnlessRelaxed(t *testing.T) {
	for mode, want := range map[driver.CaptureMode]driver.Result{
		driver.CaptureGlobal: captureWrongThread, driver.CaptureThreadLocal: captureWrongThread, driver.CaptureRelaxed: driver.Success,
	} {
		d, contexts := openMachine(t, Config{})
		s := beginCapture(t, d, mode)
		done := make(chan error)
		go func() {
			runtime.LockOSThread()
			err := d.CtxSetCurrent(contexts[0])
			if err == nil {
				_, err = d.StreamEndCapture(s)
			}
			done <- err
		}()
		wantResult(t, want, <-done)
	}
}

func TestCaptureEndsWithItsStream(t *testing.T) {
	d, _ := openMachine(t, Config{})
	s, other, e := beginCapture(t, d, driver.CaptureGlobal), newStreamOf(t, d, driver.StreamNonBlocking), newEvent(t, d, 0)
	require.NoError(t, d.EventRecord(e, s))
	require.NoError(t, d.StreamWaitEvent(other, e))
	require.NoError(t, d.StreamDestroy(s))
	require.NoError(t, d.StreamSynchronize(other), "it captures no longer")
	must[uintptr](t)(d.MemAlloc(8))

	s, other = beginCapture(t, d, driver.CaptureRelaxed), newStreamOf(t, d, driver.StreamNonBlocking)
	require.NoError(t, d.EventRecord(e, s))
	require.NoError(t, d.StreamWaitEvent(other, e))
	require.NoError(t, d.StreamDestroy(other))
	_, err := d.StreamEndCapture(s)
	wantCode(t, captureInvalidated, err)
}

func TestGraphFailsIfItsMemoryIsFreed(t *testing.T) {
	for name, tt := range map[string]struct {
		capture func(t *testing.T, d *Driver, s driver.Stream) (free func() error)
	}{
		"device memory": {func(t *testing.T, d *Driver, s driver.Stream) func() error {
			a, b := must[uintptr](t)(d.MemAlloc(100)), must[uintptr](t)(d.MemAlloc(100))
			require.NoError(t, d.MemcpyDtoDAsync(a, b, 100, s))
			return func() error { return d.MemFree(b) }
		}},
		"memory to set": {func(t *testing.T, d *Driver, s driver.Stream) func() error {
			a := must[uintptr](t)(d.MemAlloc(100))
			require.NoError(t, d.MemsetD8Async(a, 1, 100, s))
			return func() error { return d.MemFree(a) }
		}},
		"pinned memory": {func(t *testing.T, d *Driver, s driver.Stream) func() error {
			a, h := must[uintptr](t)(d.MemAlloc(100)), pinned(t, d, 100)
			require.NoError(t, d.MemcpyHtoDAsync(a, h, s))
			return func() error { return d.MemFreeHost(addressOf(h)) }
		}},
		"registered memory": {func(t *testing.T, d *Driver, s driver.Stream) func() error {
			a, h := must[uintptr](t)(d.MemAlloc(100)), make([]byte, 100)
			require.NoError(t, d.MemHostRegister(h, 0))
			require.NoError(t, d.MemcpyDtoHAsync(h, a, s))
			return func() error { return d.MemHostUnregister(addressOf(h)) }
		}},
		"a mapping": {func(t *testing.T, d *Driver, s driver.Stream) func() error {
			a := newMapping(t, d, must[driver.Physical](t)(d.MemCreate(page, 0, false)), page)
			require.NoError(t, d.MemsetD8Async(a, 1, page, s))
			return func() error { return d.MemUnmap(a, page) }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := openMachine(t, Config{MemoryBytes: 8 * page})
			s := newStreamOf(t, d, driver.StreamNonBlocking)
			require.NoError(t, d.StreamBeginCapture(s, driver.CaptureRelaxed))
			free := tt.capture(t, d, s)
			e := instantiate(t, d, s)
			require.NoError(t, d.GraphLaunch(e, s))
			require.NoError(t, d.StreamSynchronize(s))
			require.NoError(t, free())
			require.NoError(t, d.GraphLaunch(e, s))
			err := d.StreamSynchronize(s)
			wantCode(t, driver.IllegalAddress, err)
			assert.ErrorContains(t, err, "freed before the operation ran")
		})
	}
}

func TestCapturedLaunchKeepsOrderOfLaunches(t *testing.T) {
	d, _ := openMachine(t, Config{})
	s := beginCapture(t, d, driver.CaptureRelaxed)
	gate := make(chan struct{})
	require.NoError(t, d.LaunchHostFunc(s, func() { <-gate }))
	e := instantiate(t, d, s)
	require.NoError(t, d.GraphLaunch(e, s))
	c := beginCapture(t, d, driver.CaptureRelaxed)
	require.NoError(t, d.GraphLaunch(e, c))
	instantiate(t, d, c)
	assert.False(t, d.execs[e].lastLaunch.done(), "the next launch comes after the one that runs")
	close(gate)
	require.NoError(t, d.CtxSynchronize())
}

func TestCaptureRejectsPageableMemory(t *testing.T) {
	for name, use := range map[string]func(d *Driver, a uintptr, s driver.Stream) error{
		"read":    func(d *Driver, a uintptr, s driver.Stream) error { return d.MemcpyHtoDAsync(a, make([]byte, 8), s) },
		"written": func(d *Driver, a uintptr, s driver.Stream) error { return d.MemcpyDtoHAsync(make([]byte, 8), a, s) },
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := openMachine(t, Config{})
			a := must[uintptr](t)(d.MemAlloc(8))
			s := beginCapture(t, d, driver.CaptureRelaxed)
			wantCode(t, captureUnsupported, use(d, a, s))
			_, err := d.StreamEndCapture(s)
			wantCode(t, captureInvalidated, err)
		})
	}
}
