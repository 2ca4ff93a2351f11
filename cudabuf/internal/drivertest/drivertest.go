// Package drivertest is the conformance suite for implementations of package
// driver. It runs on the simulated device in every test run, and with
// QUIVER_TEST_DEVICE=cuda also on the driver of the machine's GPU.
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

// Suite tests a driver. Open returns a new driver, which the suite closes. Its
// first device must have a few hundred MiB of memory.
type Suite struct {
	Open func(t *testing.T) driver.API
	// Image holds a kernel add_int32(int32 *values, int64 count, int32 addend),
	// for the driver to load. HostKernels implement it in Go.
	Image       []byte
	HostKernels map[string]driver.HostKernel
	// Child is the name by which the function Child opens the driver in a child
	// process. If it is empty, tests with a second process are skipped.
	Child string
}

// Run runs all tests, each with its own driver.
func (s Suite) Run(t *testing.T) {
	for _, test := range []struct {
		name string
		run  func(*fixture)
	}{
		{"devices describe themselves", (*fixture).devices},
		{"contexts belong to threads", (*fixture).contexts},
		{"primary contexts count references", (*fixture).primaryContexts},
		{"contexts are created", (*fixture).createdContexts},
		{"memory is found by its addresses", (*fixture).memory},
		{"memory is limited", (*fixture).outOfMemory},
		{"host memory is pinned", (*fixture).hostMemory},
		{"host memory is registered", (*fixture).registration},
		{"copies move bytes", (*fixture).copies},
		{"copies reject invalid memory", (*fixture).invalidCopies},
		{"streams keep order", (*fixture).streams},
		{"priorities are clamped", (*fixture).priorities},
		{"host functions run in order", (*fixture).hostFunctions},
		{"events mark work", (*fixture).events},
		{"events measure time", (*fixture).timing},
		{"waits are for the last record", (*fixture).eventWaits},
		{"graphs replay", (*fixture).graphs},
		{"captures reject synchronization", (*fixture).invalidCaptures},
		{"kernels run", (*fixture).kernels},
		{"kernels have attributes", (*fixture).occupancy},
		{"missing kernels are errors", (*fixture).invalidImages},
		{"kernels describe their parameters", (*fixture).parameters},
		{"managed memory is the host's too", (*fixture).managed},
		{"memory in the order of a stream", (*fixture).streamOrdered},
		{"memory pools", (*fixture).memPools},
		{"virtual memory is mapped", (*fixture).virtual},
		{"handles do not open in their own process", (*fixture).ownHandles},
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

// fixture is the state of one test: a driver with the primary context of its
// first device current on the thread.
type fixture struct {
	*testing.T
	Suite
	api      driver.API
	dev      driver.Device
	ctx      driver.Context
	cleanups []func() error
}

// cleanup registers a function that runs after the test, last first.
func (m *fixture) cleanup(f func() error) { m.cleanups = append(m.cleanups, f) }

// must fails the test if a call returns an error.
func must[T any](m *fixture) func(v T, err error) T {
	return func(v T, err error) T {
		m.Helper()
		require.NoError(m, err)
		return v
	}
}

// resultOf returns the result of a failed call, or Success.
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

// pinned returns memory of MemHostAlloc.
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
