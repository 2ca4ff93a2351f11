package cudatest_test

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fakeTB is a testing.TB that records failures, and runs cleanups when end is
// called.
type fakeTB struct {
	testing.TB
	failures []string
	cleanups []func()
}

func (r *fakeTB) Helper()          {}
func (r *fakeTB) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *fakeTB) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *fakeTB) end() {
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
}

func TestNewDeviceFailsTestThatLeaks(t *testing.T) {
	for name, tt := range map[string]struct {
		use  func(t *testing.T, dev *cudabuf.Device)
		want string
	}{
		"nothing": {func(*testing.T, *cudabuf.Device) {}, ""},
		"all released": {func(t *testing.T, dev *cudabuf.Device) {
			b, err := dev.Alloc(10)
			require.NoError(t, err)
			b.Release()
			dev.HostAllocator().Free(dev.HostAllocator().Allocate(10))
		}, ""},
		"a buffer": {func(t *testing.T, dev *cudabuf.Device) {
			_, err := dev.Alloc(10)
			require.NoError(t, err)
		}, "512 bytes of device memory, 0 bytes of pinned memory"},
		"pinned memory": {func(t *testing.T, dev *cudabuf.Device) {
			dev.HostAllocator().Allocate(10)
		}, "0 bytes of device memory, 512 bytes of pinned memory"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &fakeTB{TB: t}
			tt.use(t, cudatest.NewDevice(r))
			r.end()
			if tt.want == "" {
				assert.Empty(t, r.failures)
			} else if assert.Len(t, r.failures, 1) {
				assert.Contains(t, r.failures[0], tt.want)
			}
		})
	}
}

func TestLeakReportHoldsStackOfAllocation(t *testing.T) {
	r := &fakeTB{TB: t}
	dev := cudatest.NewDevice(r)
	kept, err := dev.NewBuffer(1000)
	require.NoError(t, err)
	released, err := dev.NewBuffer(2000)
	require.NoError(t, err)
	released.Release()
	r.end()
	require.Len(t, r.failures, 1)
	assert.Contains(t, r.failures[0], fmt.Sprintf("1000 bytes at %#x", kept.Address()))
	assert.Contains(t, r.failures[0], "cudatest_test.TestLeakReportHoldsStackOfAllocation")
	assert.NotContains(t, r.failures[0], "2000 bytes")
}

func TestConfigSetsComputeCapability(t *testing.T) {
	for _, tt := range []struct{ set, want [2]int }{{[2]int{}, [2]int{9, 0}}, {[2]int{8, 6}, [2]int{8, 6}}, {[2]int{10, 0}, [2]int{10, 0}}} {
		dev, err := cudatest.Start(t, cudatest.Config{ComputeCapability: tt.set}).Device(0)
		require.NoError(t, err)
		major, minor := dev.ComputeCapability()
		assert.Equal(t, tt.want, [2]int{major, minor})
	}
}

func TestForEachDeviceRunsOnSimulatedDevice(t *testing.T) {
	var ran []string
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		ran = append(ran, t.Name())
		assert.Equal(t, arrowbuf.DeviceCUDA, dev.Type())
	})
	assert.Contains(t, ran, t.Name()+"/simulated")
	assert.Equal(t, cudatest.OnGPU(), len(ran) == 2)
}

// readHost reads device memory on the host, which is a mistake.
func readHost(address uintptr) { _ = **(**byte)(unsafe.Pointer(&address)) }

func TestCatchHostAccessDescribesAccess(t *testing.T) {
	d := cudatest.Start(t, cudatest.Config{Devices: 2})
	var addresses []uintptr
	for i := range 2 {
		dev, err := d.Device(i)
		require.NoError(t, err)
		b, err := dev.NewBuffer(1000)
		require.NoError(t, err)
		t.Cleanup(b.Release)
		addresses = append(addresses, b.Address())
	}
	err := cudatest.CatchHostAccess(func() { readHost(addresses[1] + 12) })
	require.Error(t, err)
	assert.ErrorContains(t, err, fmt.Sprintf("%#x of cuda:1, byte 12 of ", addresses[1]+12))
	assert.ErrorContains(t, err, "cudatest_test.readHost")
	assert.NoError(t, cudatest.CatchHostAccess(func() {}))
}

func TestCatchHostAccessPassesOtherPanics(t *testing.T) {
	assert.PanicsWithValue(t, "mine", func() { _ = cudatest.CatchHostAccess(func() { panic("mine") }) })
	assert.Panics(t, func() { _ = cudatest.CatchHostAccess(func() { readHost(8) }) })
}
