package cudatest_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

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
