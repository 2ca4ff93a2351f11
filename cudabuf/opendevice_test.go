package cudabuf_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func TestDevicesOpenByName(t *testing.T) {
	cudatest.ForEachDriver(t, 1, func(t *testing.T, d *cudabuf.Driver) {
		dev, err := d.Device(0)
		require.NoError(t, err)
		managed, err := d.ManagedDevice(0)
		require.NoError(t, err)
		for name, want := range map[string]arrowbuf.Device{
			"cpu": arrowbuf.CPU(), "auto": dev, "cuda": dev, "cuda:0": dev, "GPU-" + dev.UUID().String(): dev,
			"cuda_managed": managed, "cuda_managed:0": managed,
		} {
			got, err := d.DeviceByName(name)
			require.NoError(t, err, name)
			assert.Same(t, want, got, name)
			assert.NoError(t, cudabuf.CheckDeviceName(name))
		}
		for _, name := range []string{"cuda:99", "GPU-00000000-0000-0000-0000-000000000000", "MIG-00000000-0000-0000-0000-000000000000"} {
			_, err := d.DeviceByName(name)
			assert.ErrorIs(t, err, cudabuf.ErrNoDevice, name)
		}
	})
}

func TestOtherDeviceNamesAreErrors(t *testing.T) {
	d := cudatest.Start(t, cudatest.Config{})
	for _, name := range []string{"", "gpu", "cpu:0", "auto:1", "cuda:", "cuda:-1", "cuda:one", "cuda:99999999999", "GPU-", "GPU-12", "GPU-zz", "rocm:0"} {
		_, err := d.DeviceByName(name)
		assert.ErrorIs(t, err, cudabuf.ErrInvalidName, name)
		assert.ErrorIs(t, cudabuf.CheckDeviceName(name), cudabuf.ErrInvalidName, name)
		_, err = cudabuf.OpenDevice(name)
		assert.ErrorIs(t, err, cudabuf.ErrInvalidName, name)
	}
}

func TestOpenDeviceSharesOneDriver(t *testing.T) {
	open := func() (*cudabuf.Driver, error) { return cudatest.New(cudatest.Config{Devices: 2}), nil }
	if cudatest.OnGPU() {
		open = cudabuf.Open
	}
	cudabuf.SetSharedOpen(t, open)
	first, err := cudabuf.OpenDevice("cuda:0")
	require.NoError(t, err)
	again, err := cudabuf.OpenDevice("auto")
	require.NoError(t, err)
	assert.Same(t, first, again)
	b, err := first.Alloc(10)
	require.NoError(t, err)
	assert.ErrorContains(t, cudabuf.CloseDevices(), "still in use")
	b.Release()
	require.NoError(t, cudabuf.CloseDevices())
	require.NoError(t, cudabuf.CloseDevices())
	_, err = first.Alloc(10)
	assert.ErrorIs(t, err, cudabuf.ErrClosed)
	next, err := cudabuf.OpenDevice("cuda:0")
	require.NoError(t, err)
	assert.NotSame(t, first, next)
	require.NoError(t, cudabuf.CloseDevices())
}

func TestAutoIsTheHostOnlyWithoutGPU(t *testing.T) {
	for cause, isHost := range map[error]bool{cudabuf.ErrNoDriver: true, cudabuf.ErrNoDevice: true, cudabuf.ErrDeviceLost: false} {
		cudabuf.SetSharedOpen(t, func() (*cudabuf.Driver, error) { return nil, cause })
		dev, err := cudabuf.OpenDevice("auto")
		if isHost {
			require.NoError(t, err)
			assert.Same(t, arrowbuf.CPU(), dev)
		} else {
			assert.ErrorIs(t, err, cause)
		}
		_, err = cudabuf.OpenDevice("cuda")
		assert.ErrorIs(t, err, cause)
	}
}
