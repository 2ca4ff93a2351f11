package cudatest_test

import (
	"fmt"
	"sync/atomic"
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

func TestForEachArrowDeviceAlsoRunsOnTheCPU(t *testing.T) {
	var kinds []arrowbuf.DeviceType
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) { kinds = append(kinds, dev.Type()) })
	assert.Equal(t, []arrowbuf.DeviceType{arrowbuf.DeviceCPU, arrowbuf.DeviceCUDA}, kinds[:2])
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

func TestFaultsFailNamedCalls(t *testing.T) {
	nth, from := cudatest.FailNth("cuMemAlloc", 2, cudatest.OutOfMemory), cudatest.FailFrom("cuMemAlloc", 2, cudatest.ECCError)
	for name, tt := range map[string]struct {
		fail func(string, int) cudabuf.Result
		want [4]cudabuf.Result // of calls 1 to 3, and of call 2 of another function
	}{
		"nth":       {nth, [4]cudabuf.Result{0, 2, 0, 0}},
		"from":      {from, [4]cudabuf.Result{0, 214, 214, 0}},
		"both":      {cudatest.Faults(nth, from), [4]cudabuf.Result{0, 2, 214, 0}},
		"the other": {cudatest.Faults(cudatest.FailNth("cuMemFree", 2, cudatest.LaunchFailed), nth), [4]cudabuf.Result{0, 2, 0, 719}},
		"none":      {cudatest.Faults(), [4]cudabuf.Result{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := [4]cudabuf.Result{3: tt.fail("cuMemFree", 2)}
			for i := range 3 {
				got[i] = tt.fail("cuMemAlloc", i+1)
			}
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestStickyFaultLosesDevice(t *testing.T) {
	for result, lost := range map[cudabuf.Result]bool{
		cudatest.OutOfMemory: false, cudatest.ECCError: true, cudatest.IllegalAddress: true, cudatest.LaunchFailed: true,
	} {
		t.Run(result.Name(), func(t *testing.T) {
			dev, err := cudatest.Start(t, cudatest.Config{Fail: cudatest.FailNth("cuMemsetD8Async", 1, result)}).Device(0)
			require.NoError(t, err)
			b, err := dev.NewBuffer(8)
			require.NoError(t, err)
			defer b.Release()
			err = b.Fill(1)
			var call *cudabuf.Error
			require.ErrorAs(t, err, &call)
			assert.Equal(t, result, call.Code)
			assert.Equal(t, !lost, b.Fill(1) == nil, "the next call")
			if lost {
				assert.ErrorIs(t, dev.Synchronize(), cudabuf.ErrDeviceLost)
			} else {
				assert.ErrorIs(t, err, arrowbuf.ErrOutOfMemory)
			}
		})
	}
}

func TestFailAtCountsCallsOfAllFunctions(t *testing.T) {
	fail := cudatest.FailAt(3, cudatest.ECCError)
	var got []cudabuf.Result
	for _, call := range []string{"cuMemAlloc", "cuMemFree", "cuMemAlloc", "cuMemAlloc"} {
		got = append(got, fail(call, 1))
	}
	assert.Equal(t, []cudabuf.Result{0, 0, cudatest.ECCError, 0}, got)
}

func TestFaultsOfOpeningAreErrors(t *testing.T) {
	for n := 1; n <= 3; n++ { // cuInit, cuDriverGetVersion, cuDeviceGetCount
		_, err := cudatest.Open(cudatest.Config{Fail: cudatest.FailAt(n, cudatest.LaunchFailed)})
		var failed *cudabuf.Error
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, cudatest.LaunchFailed, failed.Code)
	}
	d, err := cudatest.Open(cudatest.Config{Fail: cudatest.FailAt(4, cudatest.LaunchFailed)})
	require.NoError(t, err)
	require.NoError(t, d.Close())
}

// Any call may lose the device. The test program must end and report the loss.
func TestDeviceMayBeLostAtAnyCall(t *testing.T) {
	work := func(d *cudabuf.Driver) error {
		dev, err := d.Device(0)
		if err != nil {
			return err
		}
		s, err := dev.NewStream(cudabuf.StreamOptions{})
		if err != nil {
			return err
		}
		b, err := dev.FromHost(make([]byte, 1000))
		if err != nil {
			return err
		}
		defer b.Release()
		if err := b.FillAsync(1, s); err != nil {
			return err
		}
		if _, err := b.Bytes(); err != nil { // on another stream, which waits
			return err
		}
		return s.Close()
	}
	for n := 1; ; n++ {
		var lost atomic.Bool
		at := cudatest.FailAt(n, cudatest.ECCError)
		d := cudatest.New(cudatest.Config{Fail: func(call string, i int) cudabuf.Result {
			r := at(call, i)
			if r != 0 {
				lost.Store(true)
			}
			return r
		}})
		err := work(d)
		closing := d.Close()
		if !lost.Load() {
			require.NoError(t, err)
			require.NoError(t, closing)
			assert.Greater(t, n, 20)
			return
		}
		if err != nil {
			assert.ErrorIs(t, err, cudabuf.ErrDeviceLost, "call %d", n)
		}
	}
}
