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
	Image []byte
	Twins map[string]driver.HostKernel
	// Child names the driver to a child process, which opens it by the same
	// name: see Child.
	Child string
}

// Run runs all of it, each test on a driver of its own.
func (s Suite) Run(t *testing.T) {
	for _, test := range []struct {
		name string
		run  func(*machine)
	}{
		{"devices describe themselves", (*machine).devices},
		{"contexts belong to threads", (*machine).contexts},
		{"primary contexts count who retains them", (*machine).primaryContexts},
		{"a context of one's own", (*machine).ownContexts},
		{"memory is found by its addresses", (*machine).memory},
		{"memory ends", (*machine).outOfMemory},
		{"host memory is pinned", (*machine).hostMemory},
		{"host memory is registered", (*machine).registration},
		{"copies move bytes", (*machine).copies},
		{"copies refuse what is not there", (*machine).badCopies},
		{"streams keep order", (*machine).streams},
		{"priorities are clamped", (*machine).priorities},
		{"host functions run in order", (*machine).hostFunctions},
		{"events mark work", (*machine).events},
		{"events tell time", (*machine).timing},
		{"a wait is for the record before it", (*machine).waits},
		{"graphs replay", (*machine).graphs},
		{"captures refuse to wait", (*machine).badCaptures},
		{"kernels run", (*machine).kernels},
		{"kernels tell what they need", (*machine).occupancy},
		{"images are checked", (*machine).badImages},
		{"memory in the order of a stream", (*machine).streamOrdered},
		{"memory pools", (*machine).memPools},
		{"addresses and memory are two things", (*machine).virtual},
		{"handles do not open at home", (*machine).handlesAtHome},
		{"other processes open handles", (*machine).ipc},
		{"peers", (*machine).peers},
	} {
		t.Run(test.name, func(t *testing.T) {
			api := s.Open(t)
			m := &machine{T: t, Suite: s, api: api}
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
				for i := len(m.undo) - 1; i >= 0; i-- {
					assert.NoError(t, m.undo[i]())
				}
				assert.NoError(t, api.CtxSetCurrent(0))
				assert.NoError(t, api.DevicePrimaryCtxRelease(m.dev))
				assert.NoError(t, api.Close())
			}()
			test.run(m)
		})
	}
}

// machine is what one test works on: a driver with the primary context of its
// first device current on the thread.
type machine struct {
	*testing.T
	Suite
	api  driver.API
	dev  driver.Device
	ctx  driver.Context
	undo []func() error
}

// after is done when the test is, last first.
func (m *machine) after(f func() error) { m.undo = append(m.undo, f) }

// must ends the test where a call fails.
func must[T any](m *machine) func(v T, err error) T {
	return func(v T, err error) T {
		m.Helper()
		require.NoError(m, err)
		return v
	}
}

// code is the result of a call that failed, Success where it did not.
func code(err error) driver.Result {
	var e *driver.Error
	if errors.As(err, &e) {
		return e.Code
	}
	if err != nil {
		return -1
	}
	return driver.Success
}

func (m *machine) fails(want driver.Result, err error, what string) {
	m.Helper()
	assert.Equal(m, want.Name(), code(err).Name(), "%s: %v", what, err)
}

func (m *machine) stream() driver.Stream {
	m.Helper()
	s := must[driver.Stream](m)(m.api.StreamCreateWithPriority(driver.StreamNonBlocking, 0))
	m.after(func() error { return m.api.StreamDestroy(s) })
	return s
}

func (m *machine) event(flags uint32) driver.Event {
	m.Helper()
	e := must[driver.Event](m)(m.api.EventCreate(flags))
	m.after(func() error { return m.api.EventDestroy(e) })
	return e
}

func (m *machine) alloc(n int64) uintptr {
	m.Helper()
	p := must[uintptr](m)(m.api.MemAlloc(n))
	m.after(func() error { return m.api.MemFree(p) })
	return p
}

// pinned is memory of MemHostAlloc.
func (m *machine) pinned(n int64, flags uint32) []byte {
	m.Helper()
	p := must[uintptr](m)(m.api.MemHostAlloc(n, flags))
	m.after(func() error { return m.api.MemFreeHost(p) })
	return hostSlice(p, n)
}

func (m *machine) write(p uintptr, data []byte) {
	m.Helper()
	require.NoError(m, m.api.MemcpyHtoDAsync(p, data, 0))
	require.NoError(m, m.api.StreamSynchronize(0))
}

func (m *machine) read(p uintptr, n int64) []byte {
	m.Helper()
	data := make([]byte, n)
	require.NoError(m, m.api.MemcpyDtoHAsync(data, p, 0))
	require.NoError(m, m.api.StreamSynchronize(0))
	return data
}

func hostSlice(p uintptr, n int64) []byte { return unsafe.Slice(*(**byte)(unsafe.Pointer(&p)), n) }

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
