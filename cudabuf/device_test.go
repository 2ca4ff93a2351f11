package cudabuf_test

import (
	"fmt"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDeviceProperties(t *testing.T) {
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

func TestDeviceLimits(t *testing.T) {
	cudatest.ForEachDriver(t, 1, func(t *testing.T, d *cudabuf.Driver) {
		dev, err := d.Device(0)
		require.NoError(t, err)
		assert.Regexp(t, `^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`, dev.PCIBusID())
		major, minor := dev.ComputeCapability()
		assert.Equal(t, fmt.Sprintf("sm_%d%d", major, minor), dev.Arch())
		l := dev.Limits()
		assert.Equal(t, dev.Multiprocessors(), l.Multiprocessors)
		assert.Equal(t, 32, l.WarpSize)
		assert.GreaterOrEqual(t, l.MaxThreadsPerBlock, 1024)
		assert.GreaterOrEqual(t, l.MaxBlock[0], l.MaxThreadsPerBlock)
		assert.Equal(t, 1<<31-1, l.MaxGrid[0])
		assert.GreaterOrEqual(t, l.SharedPerBlock, int64(48<<10))
		assert.GreaterOrEqual(t, l.SharedPerBlockOptin, l.SharedPerBlock)
		assert.Positive(t, l.L2Bytes)
		assert.Positive(t, l.CopyEngines)
		largest, err := dev.LargestBlock()
		require.NoError(t, err)
		_, total, err := dev.MemInfo()
		require.NoError(t, err)
		assert.Positive(t, largest)
		assert.LessOrEqual(t, largest, total)

		same, err := d.DeviceByUUID(dev.UUID())
		require.NoError(t, err)
		assert.Same(t, dev, same)
		_, err = d.DeviceByUUID(cudabuf.UUID{1, 2, 3})
		assert.ErrorIs(t, err, cudabuf.ErrNoDevice)
	})
}
