package cudabuf_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func TestDeviceSaysWhatItIs(t *testing.T) {
	cudatest.ForEachDriver(t, 1, func(t *testing.T, d *cudabuf.Driver) {
		major, minor := d.Version()
		assert.GreaterOrEqual(t, major, 11)
		assert.Less(t, minor, 100)
		dev := device(t, d, 0)
		assert.Equal(t, arrowbuf.DeviceCUDA, dev.Type())
		assert.EqualValues(t, 0, dev.ID())
		assert.Equal(t, "cuda:0", dev.String())
		assert.NotEmpty(t, dev.Name())
		assert.NotZero(t, dev.UUID())
		major, _ = dev.ComputeCapability()
		assert.GreaterOrEqual(t, major, 7)
		assert.Positive(t, dev.Multiprocessors())
		free, total, err := dev.MemInfo()
		require.NoError(t, err)
		assert.Positive(t, free)
		assert.LessOrEqual(t, free, total)
		assert.NoError(t, dev.Synchronize())

		again, err := d.Device(0)
		require.NoError(t, err)
		assert.Same(t, dev, again)
		for _, ordinal := range []int{-1, d.Count()} {
			_, err = d.Device(ordinal)
			assert.ErrorIs(t, err, cudabuf.ErrNoDevice)
		}
	})
}

func TestDevicesOfOneMachineDiffer(t *testing.T) {
	cudatest.ForEachDriver(t, 2, func(t *testing.T, d *cudabuf.Driver) {
		a, b := device(t, d, 0), device(t, d, 1)
		assert.NotEqual(t, a.UUID(), b.UUID())
		assert.Equal(t, "cuda:1", b.String())
	})
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

func TestClosedDriverAnswersErrClosed(t *testing.T) {
	cudatest.ForEachDriver(t, 1, func(t *testing.T, d *cudabuf.Driver) {
		dev := device(t, d, 0)
		m, err := dev.LoadModule(addPTX, addTwins)
		require.NoError(t, err)
		require.NoError(t, m.Close())
		upload(t, dev, pattern(10)).Release()
		require.NoError(t, d.Close())
		_, err = d.Device(0)
		assert.ErrorIs(t, err, cudabuf.ErrClosed)
		_, err = dev.Alloc(10)
		assert.ErrorIs(t, err, cudabuf.ErrClosed)
		assert.ErrorIs(t, dev.Synchronize(), cudabuf.ErrClosed)
		_, err = dev.LoadModule(addPTX, addTwins)
		assert.ErrorIs(t, err, cudabuf.ErrClosed)
	})
}

func TestCloseReportsAFreeThatFailed(t *testing.T) {
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
