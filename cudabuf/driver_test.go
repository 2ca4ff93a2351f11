package cudabuf_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWrapContextReturnsDevice(t *testing.T) {
	cudatest.ForEachDriver(t, 1, func(t *testing.T, d *cudabuf.Driver) {
		handle, _, err := d.NewContext(0)
		require.NoError(t, err)
		dev, err := d.WrapContext(handle)
		require.NoError(t, err)
		again, err := d.WrapContext(handle)
		require.NoError(t, err)
		assert.Same(t, dev, again)
		primary, err := d.Device(0)
		require.NoError(t, err)
		assert.NotSame(t, primary, dev)
		assert.Equal(t, handle, dev.Handle())
		assert.Equal(t, primary.UUID(), dev.UUID())

		k := kernel(t, dev, "add_int32")
		b, other := newBuffer(t, dev, 16), newBuffer(t, primary, 16)
		require.NoError(t, b.Fill(0))
		require.NoError(t, k.LaunchAsync(stream(t, dev), cudabuf.Dim3{X: 1}, cudabuf.Dim3{X: 32}, 0, b, int64(4), int32(9)))
		_, err = other.CopyFromDeviceAsync(b, 0, stream(t, primary))
		require.NoError(t, err)
		assert.Equal(t, int32s(9, 9, 9, 9), download(t, other), "work is ordered between contexts")
	})
}

// A Device retains the primary context once, Close releases it, and a wrapped context
// stays its owner's.
func TestCloseReleasesPrimaryContextsOnly(t *testing.T) {
	var mu sync.Mutex
	calls := map[string]int{}
	d := cudatest.New(cudatest.Config{Fail: func(call string, _ int) cudabuf.Result {
		mu.Lock()
		defer mu.Unlock()
		calls[call]++
		return 0
	}})
	theirs, _, err := d.NewContext(0)
	require.NoError(t, err)
	wrapped, err := d.WrapContext(theirs)
	require.NoError(t, err)
	upload(t, wrapped, pattern(10)).Release()
	primary, err := d.PrimaryContext(0)
	require.NoError(t, err)
	dev := device(t, d, 0)
	assert.Equal(t, primary, dev.Handle())
	assert.Same(t, dev, device(t, d, 0))
	mu.Lock()
	clear(calls)
	mu.Unlock()
	require.NoError(t, d.Close())
	mu.Lock()
	defer mu.Unlock()
	assert.Equal(t, 1, calls["cuDevicePrimaryCtxRelease"])
	assert.Zero(t, calls["cuCtxDestroy"])
}

func TestWrapContextRefusesZero(t *testing.T) {
	cudatest.ForEachDriver(t, 1, func(t *testing.T, d *cudabuf.Driver) {
		_, err := d.WrapContext(0)
		assert.ErrorContains(t, err, "CUDA_ERROR_INVALID_CONTEXT")
	})
}

func TestSetSchedule(t *testing.T) {
	cudatest.ForEachDriver(t, 1, func(t *testing.T, d *cudabuf.Driver) {
		for _, s := range []cudabuf.Schedule{cudabuf.ScheduleSpin, cudabuf.ScheduleYield, cudabuf.ScheduleBlockingSync, cudabuf.ScheduleAuto} {
			require.NoError(t, d.SetSchedule(0, s))
			got, err := d.ScheduleOf(0)
			require.NoError(t, err)
			assert.Equal(t, s, got, "the driver has the flag")
		}
		assert.ErrorIs(t, d.SetSchedule(99, cudabuf.ScheduleAuto), cudabuf.ErrNoDevice)
	})
}

func TestErrorsHaveNamesAndSentinels(t *testing.T) {
	sentinels := []error{arrowbuf.ErrOutOfMemory, cudabuf.ErrDeviceLost, cudabuf.ErrNoDevice, cudabuf.ErrClosed}
	tests := []struct {
		code cudabuf.Result
		text string
		is   error
	}{
		{1, "cuMemAlloc: CUDA_ERROR_INVALID_VALUE (1): invalid argument", nil},
		{2, "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory", arrowbuf.ErrOutOfMemory},
		{4, "cuMemAlloc: CUDA_ERROR_DEINITIALIZED (4): driver shutting down", cudabuf.ErrClosed},
		{100, "cuMemAlloc: CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device detected", cudabuf.ErrNoDevice},
		{201, "cuMemAlloc: CUDA_ERROR_INVALID_CONTEXT (201): no valid context on this thread", nil},
		{700, "cuMemAlloc: CUDA_ERROR_ILLEGAL_ADDRESS (700): illegal memory access", cudabuf.ErrDeviceLost},
		{919, "cuMemAlloc: CUDA_ERROR_FABRIC_NOT_READY (919): fabric not ready", nil},
		{12345, "cuMemAlloc: CUDA_ERROR_12345 (12345): a code newer than this program", nil},
	}
	for _, tt := range tests {
		err := fmt.Errorf("working: %w", &cudabuf.Error{Call: "cuMemAlloc", Code: tt.code})
		assert.EqualError(t, err, "working: "+tt.text)
		for _, s := range sentinels {
			assert.Equal(t, errors.Is(tt.is, s), errors.Is(err, s), "%v is %v", err, s)
		}
		var cuda *cudabuf.Error
		assert.ErrorAs(t, err, &cuda)
		assert.Equal(t, tt.code, cuda.Code)
	}
	assert.EqualError(t, &cudabuf.Error{Call: "cuInit", Code: 3, Detail: "why"}, "cuInit: CUDA_ERROR_NOT_INITIALIZED (3): driver not initialized (why)")
}

// printDevices makes a run of the test binary print the visible devices.
const printDevices = "QUIVER_TEST_PRINT_DEVICES"

func TestVisibleDevicesAreRespected(t *testing.T) {
	if os.Getenv(printDevices) != "" {
		d, err := cudabuf.Open()
		switch {
		case errors.Is(err, cudabuf.ErrNoDevice):
			fmt.Println("sees none")
		case err != nil:
			t.Fatal(err)
		default:
			fmt.Printf("sees %d\n", d.Count())
			require.NoError(t, d.Close())
		}
		return
	}
	if !cudatest.OnGPU() {
		t.Skip("the driver reads the variable; this needs a GPU")
	}
	for visible, want := range map[string]string{"0": "sees 1", "": "sees none", "-1": "sees none"} {
		if cudabuf.Gorgonia && want == "sees none" {
			continue // gorgonia.org/cu terminates a program without a GPU
		}
		run := exec.Command(os.Args[0], "-test.run=^TestVisibleDevicesAreRespected$")
		run.Env = append(os.Environ(), printDevices+"=1", "CUDA_VISIBLE_DEVICES="+visible)
		out, err := run.CombinedOutput()
		require.NoError(t, err, "%s", out)
		assert.Contains(t, strings.Split(string(out), "\n"), want, "CUDA_VISIBLE_DEVICES=%q", visible)
	}
}

func TestCloseRefusesWhileMemoryIsInUse(t *testing.T) {
	d := cudatest.New(cudatest.Config{})
	dev := device(t, d, 0)
	b := upload(t, dev, pattern(1000))
	host := dev.HostAllocator().Allocate(10)
	assert.ErrorContains(t, d.Close(), "cuda:0: still in use: 1024 bytes of device memory, 512 bytes of pinned memory")
	assert.Equal(t, pattern(1000), download(t, b), "a refused Close does nothing")
	b.Release()
	assert.ErrorContains(t, d.Close(), "0 bytes of device memory, 512 bytes of pinned memory")
	dev.HostAllocator().Free(host)
	assert.NoError(t, d.Close())
	assert.NoError(t, d.Close())
}

func TestClosedDriverReturnsErrClosed(t *testing.T) {
	cudatest.ForEachDriver(t, 1, func(t *testing.T, d *cudabuf.Driver) {
		dev := device(t, d, 0)
		m, err := dev.LoadModule(addPTX, addHostKernels)
		require.NoError(t, err)
		require.NoError(t, m.Close())
		upload(t, dev, pattern(10)).Release()
		require.NoError(t, d.Close())
		_, err = d.Device(0)
		assert.ErrorIs(t, err, cudabuf.ErrClosed)
		_, err = dev.Alloc(10)
		assert.ErrorIs(t, err, cudabuf.ErrClosed)
		assert.ErrorIs(t, dev.Synchronize(), cudabuf.ErrClosed)
		_, err = dev.LoadModule(addPTX, addHostKernels)
		assert.ErrorIs(t, err, cudabuf.ErrClosed)
	})
}

func TestCloseReportsFailedFree(t *testing.T) {
	var broken bool
	d := cudatest.New(cudatest.Config{Fail: func(call string, _ int) cudabuf.Result {
		if call == "cuMemFree" && broken {
			return 1
		}
		return 0
	}})
	dev := device(t, d, 0)
	require.NoError(t, dev.SetIdleLimit(0))
	b := upload(t, dev, pattern(10))
	broken = true
	b.Release() // has no error to return
	assert.ErrorContains(t, d.Close(), "cuMemFree: CUDA_ERROR_INVALID_VALUE")
}

func TestLostDeviceFailsEveryLaterCallAndStillCloses(t *testing.T) {
	dev, fail := failing(t)
	b := upload(t, dev, pattern(10))
	fail("cuStreamSynchronize", 214)
	_, err := b.CopyToHost(make([]byte, 10), 0)
	assert.ErrorIs(t, err, cudabuf.ErrDeviceLost)
	assert.ErrorContains(t, err, "CUDA_ERROR_ECC_UNCORRECTABLE")
	assert.ErrorIs(t, dev.Synchronize(), cudabuf.ErrDeviceLost)
	_, err = dev.Alloc(1 << 20)
	assert.ErrorIs(t, err, cudabuf.ErrDeviceLost)
	assert.ErrorIs(t, b.(*cudabuf.Buffer).Fill(0), cudabuf.ErrDeviceLost)
	b.Release()
}
