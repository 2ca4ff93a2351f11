//go:build linux

package simulated

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNullStreamAndBlockingStreamsSynchronize(t *testing.T) {
	for name, tt := range map[string]struct {
		first, second uint32 // flags of a stream, or null, legacy or perThread
		waits         bool
	}{
		"null after blocking":      {driver.StreamDefault, null, true},
		"blocking after null":      {null, driver.StreamDefault, true},
		"null after non-blocking":  {driver.StreamNonBlocking, null, false},
		"non-blocking after null":  {null, driver.StreamNonBlocking, false},
		"blocking after blocking":  {driver.StreamDefault, driver.StreamDefault, false},
		"null after this thread's": {perThread, null, true},
		"this thread's after null": {null, perThread, true},
		"legacy is the same as 0":  {driver.StreamDefault, legacy, true},
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := openMachine(t, Config{})
			open := map[uint32]driver.Stream{null: 0, legacy: driver.LegacyStream, perThread: driver.PerThreadStream}
			stream := func(kind uint32) driver.Stream {
				if h, ok := open[kind]; ok {
					return h
				}
				return newStreamOf(t, d, kind)
			}
			first, second := stream(tt.first), stream(tt.second)
			release := blockStream(t, d, first)
			var ran atomic.Bool
			require.NoError(t, d.LaunchHostFunc(second, func() { ran.Store(true) }))
			if tt.waits {
				assert.False(t, must[bool](t)(d.StreamQuery(second)))
				assert.False(t, ran.Load())
				release()
				require.NoError(t, d.StreamSynchronize(second))
			} else {
				require.NoError(t, d.StreamSynchronize(second))
				release()
			}
			assert.True(t, ran.Load())
			require.NoError(t, d.CtxSynchronize())
		})
	}
}

const (
	null uint32 = 100 + iota
	legacy
	perThread
)

func TestNullStreamWaitsForDestroyedBlockingStream(t *testing.T) {
	d, _ := openMachine(t, Config{})
	s := newStreamOf(t, d, driver.StreamDefault)
	open := blockStream(t, d, s)
	require.NoError(t, d.StreamDestroy(s))
	assert.False(t, must[bool](t)(d.StreamQuery(0)))
	open()
	require.NoError(t, d.StreamSynchronize(0))
	assert.True(t, must[bool](t)(d.StreamQuery(0)))
}

func TestDestroyedStreamFinishesItsOperations(t *testing.T) {
	d, _ := openMachine(t, Config{})
	s, e := newStreamOf(t, d, driver.StreamNonBlocking), must[driver.Event](t)(d.EventCreate(0))
	open := blockStream(t, d, s)
	var ran atomic.Bool
	require.NoError(t, d.LaunchHostFunc(s, func() { ran.Store(true) }))
	require.NoError(t, d.EventRecord(e, s))
	require.NoError(t, d.StreamDestroy(s))
	open()
	require.NoError(t, d.EventSynchronize(e))
	assert.True(t, ran.Load())
	wantCode(t, driver.InvalidHandle, d.EventRecord(e, s))
}

func TestPrioritiesAreClamped(t *testing.T) {
	d, _ := openMachine(t, Config{})
	least, greatest, err := d.CtxGetStreamPriorityRange()
	require.NoError(t, err)
	assert.Equal(t, []int{0, -5}, []int{least, greatest})
	for ask, want := range map[int]int{0: 0, -3: -3, -5: -5, -6: -5, 1: 0} {
		s := must[driver.Stream](t)(d.StreamCreateWithPriority(driver.StreamNonBlocking, ask))
		assert.Equal(t, want, must[int](t)(d.StreamGetPriority(s)))
	}
	_, err = d.StreamCreateWithPriority(2, 0)
	wantCode(t, driver.InvalidValue, err)
	wantCode(t, driver.InvalidHandle, d.StreamDestroy(0))
}

func TestHostFunctionsMustNotCallDriver(t *testing.T) {
	d, contexts := openMachine(t, Config{})
	s := newStreamOf(t, d, driver.StreamNonBlocking)
	var inside []error
	require.NoError(t, d.LaunchHostFunc(s, func() {
		_, err := d.DeviceGetCount()
		inside = append(inside, err, d.CtxSetCurrent(contexts[0]), d.CtxSynchronize())
	}))
	require.NoError(t, d.StreamSynchronize(s))
	require.Len(t, inside, 3)
	for _, err := range inside {
		wantCode(t, notPermitted, err)
	}
	wantCode(t, driver.InvalidValue, d.LaunchHostFunc(s, nil))

	require.NoError(t, d.LaunchHostFunc(s, func() { runtime.Goexit() }))
	require.NoError(t, d.StreamSynchronize(s), "it ends its own goroutine, not the stream's")
}

func TestCopiesButNotKernelsRunOnStreamsOfOtherContexts(t *testing.T) {
	d, contexts := openMachine(t, Config{Devices: 2})
	s := newStreamOf(t, d, driver.StreamNonBlocking)
	require.NoError(t, d.CtxSetCurrent(contexts[1]))
	address := must[uintptr](t)(d.MemAlloc(8))
	f := loadKernel(t, d, "nothing", func(*driver.HostLaunch) {})
	e := must[driver.Event](t)(d.EventCreate(0))
	require.NoError(t, d.StreamSynchronize(s))
	require.NoError(t, d.StreamWaitEvent(s, e))
	wantCode(t, driver.InvalidHandle, d.EventRecord(e, s))
	one := driver.Dim3{X: 1, Y: 1, Z: 1}
	wantCode(t, driver.InvalidHandle, d.LaunchKernel(&driver.Launch{Function: f, Grid: one, Block: one, Stream: s}))
	require.NoError(t, d.LaunchKernel(&driver.Launch{Function: f, Grid: one, Block: one}))
	assert.Equal(t, contexts[0], must[driver.Context](t)(d.StreamGetCtx(s)))
	assert.Equal(t, contexts[1], must[driver.Context](t)(d.StreamGetCtx(0)))
	require.NoError(t, d.MemFree(address))
}

func TestLostDeviceRunsNothing(t *testing.T) {
	d, _ := openMachine(t, Config{})
	s := newStreamOf(t, d, driver.StreamNonBlocking)
	f := loadKernel(t, d, "wild", func(l *driver.HostLaunch) { l.Memory(1, 1) })
	open := blockStream(t, d, s)
	one := driver.Dim3{X: 1, Y: 1, Z: 1}
	require.NoError(t, d.LaunchKernel(&driver.Launch{Function: f, Grid: one, Block: one, Stream: s}))
	ran := false
	require.NoError(t, d.LaunchHostFunc(s, func() { ran = true }))
	open()
	err := d.StreamSynchronize(s)
	wantCode(t, driver.IllegalAddress, err)
	assert.False(t, ran)
	_, err = d.EventCreate(0)
	wantCode(t, driver.IllegalAddress, err)
	assert.ErrorContains(t, err, "lost: cuLaunchKernel")
	require.NoError(t, d.DevicePrimaryCtxRelease(0))
	require.NoError(t, d.Close(), "a lost device reports no leaks")
}

var single = driver.Dim3{X: 1, Y: 1, Z: 1}

// A lost device runs nothing, so waits for its operations must end.
func TestWaitsEndWhenTheDeviceIsLost(t *testing.T) {
	for name, wait := range map[string]func(t *testing.T, d *Driver, lost, s driver.Stream, memory uintptr){
		"for memory that is freed": func(t *testing.T, d *Driver, lost, s driver.Stream, memory uintptr) {
			require.NoError(t, d.MemFreeAsync(memory, lost))
			must[uintptr](t)(d.MemAllocAsync(2*unit, s))
		},
		"for an event": func(t *testing.T, d *Driver, lost, s driver.Stream, _ uintptr) {
			e := must[driver.Event](t)(d.EventCreate(0))
			require.NoError(t, d.EventRecord(e, lost))
			require.NoError(t, d.StreamWaitEvent(s, e))
		},
		"for an event of several processes": func(t *testing.T, d *Driver, lost, s driver.Stream, _ uintptr) {
			e := must[driver.Event](t)(d.EventCreate(driver.EventDisableTiming | driver.EventInterprocess))
			must[driver.IPCEventHandle](t)(d.IpcGetEventHandle(e))
			require.NoError(t, d.EventRecord(e, lost))
			require.NoError(t, d.StreamWaitEvent(s, e))
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := openMachine(t, Config{MemoryBytes: 2 * unit})
			s := newStreams(t, d, 2)
			memory := must[uintptr](t)(d.MemAllocAsync(2*unit, s[0]))
			wild := loadKernel(t, d, "wild", func(l *driver.HostLaunch) { l.Memory(1, 1) })
			open := gateStream(t, d, s[0])
			require.NoError(t, d.LaunchKernel(&driver.Launch{Function: wild, Grid: single, Block: single, Stream: s[0]}))
			wait(t, d, s[0], s[1], memory)
			open()
			require.NoError(t, d.DevicePrimaryCtxRelease(0), "it waits for the streams")
			require.NoError(t, d.Close())
		})
	}
}

func TestSynchronizationIncludesDestroyedStreams(t *testing.T) {
	for name, wait := range map[string]func(d *Driver) error{
		"by its context":       (*Driver).CtxSynchronize,
		"by memory that ends":  func(d *Driver) error { return d.MemFreeHost(0) },
		"by the context's end": func(d *Driver) error { return d.DevicePrimaryCtxRelease(0) },
		"by the machine's end": func(d *Driver) error { d.destroyContexts(d.devices[0]); return nil },
		"by another one's end": func(d *Driver) error { d.freeOwned(d.devices[0], []*allocation{{}}); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := openMachine(t, Config{})
			for _, flags := range []uint32{driver.StreamDefault, driver.StreamNonBlocking} {
				s, gate := newStreamOf(t, d, flags), make(chan struct{})
				var ran atomic.Bool
				require.NoError(t, d.LaunchHostFunc(s, func() { <-gate; ran.Store(true) }))
				require.NoError(t, d.StreamDestroy(s))
				require.NoError(t, d.StreamDestroy(newStreamOf(t, d, flags)), "it forgets only what is done")
				go close(gate)
				_ = wait(d)
				assert.True(t, ran.Load())
				if name == "by the context's end" || name == "by the machine's end" {
					return
				}
			}
		})
	}
}

func TestStreamsRunConcurrently(t *testing.T) {
	d, _ := openMachine(t, Config{})
	a := must[driver.Stream](t)(d.StreamCreateWithPriority(driver.StreamNonBlocking, 0))
	b := must[driver.Stream](t)(d.StreamCreateWithPriority(driver.StreamNonBlocking, 0))
	gate := make(chan struct{})
	require.NoError(t, d.streams[a].submit("", func() error { <-gate; return nil }))
	require.NoError(t, d.streams[b].submit("", func() error { close(gate); return nil }))
	require.NoError(t, d.StreamSynchronize(a))
	require.NoError(t, d.StreamDestroy(a))
	wantCode(t, driver.InvalidHandle, d.StreamSynchronize(a))
	wantCode(t, driver.InvalidHandle, d.StreamDestroy(a))
}
