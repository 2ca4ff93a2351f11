// Package drivertest is what every driver of package driver passes: one
// conformance suite, run against the soft driver everywhere and, with
// QUIVER_TEST_DEVICE=cuda, against the driver of the machine's GPU.
package drivertest

import (
	"errors"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// Suite is a driver under test. Open answers a new one, which the suite closes.
// Its first device has memory for a few hundred MiB.
type Suite struct {
	Open func(t *testing.T) driver.API
	// Image holds a kernel add_int32(int32 *values, int64 count, int32 addend),
	// for the driver to load; Twins do its work in Go.
	Image       []byte
	HostKernels map[string]driver.HostKernel
	// Child names the driver to a child process, which opens it by the same
	// name: see Child.
	Child string
}

// Run runs all of it, each test on a driver of its own.
func (s Suite) Run(t *testing.T) {
	for _, test := range []struct {
		name string
		run  func(*fixture)
	}{
		{"devices describe themselves", (*fixture).devices},
		{"contexts belong to threads", (*fixture).contexts},
		{"primary contexts count who retains them", (*fixture).primaryContexts},
		{"a context of one's own", (*fixture).createdContexts},
		{"memory is found by its addresses", (*fixture).memory},
		{"memory ends", (*fixture).outOfMemory},
		{"host memory is pinned", (*fixture).hostMemory},
		{"host memory is registered", (*fixture).registration},
		{"copies move bytes", (*fixture).copies},
		{"copies refuse what is not there", (*fixture).invalidCopies},
		{"streams keep order", (*fixture).streams},
		{"priorities are clamped", (*fixture).priorities},
		{"host functions run in order", (*fixture).hostFunctions},
		{"events mark work", (*fixture).events},
		{"events tell time", (*fixture).timing},
		{"a wait is for the record before it", (*fixture).eventWaits},
		{"graphs replay", (*fixture).graphs},
		{"captures refuse to wait", (*fixture).invalidCaptures},
		{"kernels run", (*fixture).kernels},
		{"kernels tell what they need", (*fixture).occupancy},
		{"images are checked", (*fixture).invalidImages},
		{"memory in the order of a stream", (*fixture).streamOrdered},
		{"memory pools", (*fixture).memPools},
		{"addresses and memory are two things", (*fixture).virtual},
		{"handles do not open at home", (*fixture).ownHandles},
		{"other processes open handles", (*fixture).ipc},
		{"peers", (*fixture).peers},
	} {
		t.Run(test.name, func(t *testing.T) {
			api := s.Open(t)
			m := &fixture{T: t, Suite: s, api: api}
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			require.NoError(t, api.Init())
			var err error
			m.dev, err = api.DeviceGet(0)
			require.NoError(t, err)
			m.ctx, err = api.DevicePrimaryCtxRetain(m.dev)
			require.NoError(t, err)
			require.NoError(t, api.CtxSetCurrent(m.ctx))
			defer func() {
				assert.NoError(t, api.CtxSetCurrent(m.ctx))
				for i := len(m.cleanups) - 1; i >= 0; i-- {
					assert.NoError(t, m.cleanups[i]())
				}
				assert.NoError(t, api.CtxSetCurrent(0))
				assert.NoError(t, api.DevicePrimaryCtxRelease(m.dev))
				assert.NoError(t, api.Close())
			}()
			test.run(m)
		})
	}
}

// fixture is what one test works on: a driver with the primary context of its
// first device current on the thread.
type fixture struct {
	*testing.T
	Suite
	api      driver.API
	dev      driver.Device
	ctx      driver.Context
	cleanups []func() error
}

// cleanup is done when the test is, last first.
func (m *fixture) cleanup(f func() error) { m.cleanups = append(m.cleanups, f) }

// must ends the test where a call fails.
func must[T any](m *fixture) func(v T, err error) T {
	return func(v T, err error) T {
		m.Helper()
		require.NoError(m, err)
		return v
	}
}

// resultOf is the result of a call that failed, Success where it did not.
func resultOf(err error) driver.Result {
	var e *driver.Error
	if errors.As(err, &e) {
		return e.Code
	}
	if err != nil {
		return -1
	}
	return driver.Success
}

func (m *fixture) wantCode(want driver.Result, err error, what string) {
	m.Helper()
	assert.Equal(m, want.Name(), resultOf(err).Name(), "%s: %v", what, err)
}

func (m *fixture) newStream() driver.Stream {
	m.Helper()
	s := must[driver.Stream](m)(m.api.StreamCreateWithPriority(driver.StreamNonBlocking, 0))
	m.cleanup(func() error { return m.api.StreamDestroy(s) })
	return s
}

func (m *fixture) newEvent(flags uint32) driver.Event {
	m.Helper()
	e := must[driver.Event](m)(m.api.EventCreate(flags))
	m.cleanup(func() error { return m.api.EventDestroy(e) })
	return e
}

func (m *fixture) alloc(n int64) uintptr {
	m.Helper()
	p := must[uintptr](m)(m.api.MemAlloc(n))
	m.cleanup(func() error { return m.api.MemFree(p) })
	return p
}

// pinned is memory of MemHostAlloc.
func (m *fixture) pinned(n int64, flags uint32) []byte {
	m.Helper()
	p := must[uintptr](m)(m.api.MemHostAlloc(n, flags))
	m.cleanup(func() error { return m.api.MemFreeHost(p) })
	return hostSlice(p, n)
}

func (m *fixture) write(p uintptr, data []byte) {
	m.Helper()
	require.NoError(m, m.api.MemcpyHtoDAsync(p, data, 0))
	require.NoError(m, m.api.StreamSynchronize(0))
}

func (m *fixture) read(p uintptr, n int64) []byte {
	m.Helper()
	data := make([]byte, n)
	require.NoError(m, m.api.MemcpyDtoHAsync(data, p, 0))
	require.NoError(m, m.api.StreamSynchronize(0))
	return data
}

func hostSlice(p uintptr, n int64) []byte { return unsafe.Slice(*(**byte)(unsafe.Pointer(&p)), n) }

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
