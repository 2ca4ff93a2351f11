package cudabuf_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func TestACallersContextIsADevice(t *testing.T) {
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
		assert.Equal(t, int32s(9, 9, 9, 9), download(t, other), "contexts order their work too")
	})
}

func TestWrapContextRefusesWhatIsNone(t *testing.T) {
	cudatest.ForEachDriver(t, 1, func(t *testing.T, d *cudabuf.Driver) {
		_, err := d.WrapContext(0)
		assert.ErrorContains(t, err, "CUDA_ERROR_INVALID_CONTEXT")
	})
}

func TestDeviceDescribesItself(t *testing.T) {
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

func TestScheduleOfThePrimaryContext(t *testing.T) {
	cudatest.ForEachDriver(t, 1, func(t *testing.T, d *cudabuf.Driver) {
		for _, s := range []cudabuf.Schedule{cudabuf.ScheduleSpin, cudabuf.ScheduleYield, cudabuf.ScheduleBlockingSync, cudabuf.ScheduleAuto} {
			require.NoError(t, d.SetSchedule(0, s))
		}
		assert.ErrorIs(t, d.SetSchedule(99, cudabuf.ScheduleAuto), cudabuf.ErrNoDevice)
	})
}

func TestForeignMemoryStaysItsOwners(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		owner := upload(t, dev, pattern(256)).(*cudabuf.Buffer)
		released := 0
		b, err := dev.WrapExternal(owner.Address()+16, 100, func() { released++; owner.Release() })
		require.NoError(t, err)
		part, err := b.SliceClamped(4, 1000)
		require.NoError(t, err)
		b.Release()
		assert.Zero(t, released, "a slice keeps it")
		assertBytes(t, pattern(256)[20:116], download(t, part))
		part.Release()
		assert.Equal(t, 1, released)

		host := make([]byte, 8)
		_, err = dev.WrapExternal(addressOf(host), 8, nil)
		assert.ErrorContains(t, err, fmt.Sprintf("is not memory of %v", dev))
		empty, err := dev.WrapExternal(0, 0, nil)
		require.NoError(t, err)
		assert.Zero(t, empty.Len())
		empty.Release()
		_, err = dev.WrapExternal(owner.Address(), -1, nil)
		assert.Error(t, err)
	})
}

func TestViewsOfABuffer(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		b := upload(t, dev, []byte("hello, world")).(*cudabuf.Buffer)
		defer b.Release()
		text, err := b.Hex()
		require.NoError(t, err)
		assert.Equal(t, strings.ToLower(fmt.Sprintf("%x", "hello, world")), text)
		assert.Nil(t, b.Parent())
		assert.True(t, b.Mutable())

		clipped, err := b.SliceClamped(7, 100)
		require.NoError(t, err)
		defer clipped.Release()
		assert.Same(t, b, clipped.Parent())
		got, err := clipped.Bytes()
		require.NoError(t, err)
		assert.Equal(t, "world", string(got))
		for _, bad := range [][2]int64{{-1, 1}, {13, 0}, {0, -1}} {
			_, err := b.SliceClamped(bad[0], bad[1])
			assert.Error(t, err, "%v", bad)
		}

		view, err := b.ReadOnly()
		require.NoError(t, err)
		defer view.Release()
		part, err := view.Slice(0, 5)
		require.NoError(t, err)
		defer part.Release()
		for _, ro := range []*cudabuf.Buffer{view, part.(*cudabuf.Buffer)} {
			assert.False(t, ro.Mutable())
			assert.ErrorIs(t, ro.Fill(0), cudabuf.ErrReadOnly)
			_, err = ro.CopyFromHost([]byte("x"), 0)
			assert.ErrorIs(t, err, cudabuf.ErrReadOnly)
			_, err = ro.CopyFromDevice(clipped, 0)
			assert.ErrorIs(t, err, cudabuf.ErrReadOnly)
			_, err = ro.WriteAt([]byte("x"), 0)
			assert.ErrorIs(t, err, cudabuf.ErrReadOnly)
		}
		assert.Equal(t, "hello, world", string(download(t, b)))

		copied, err := dev.CopyOf(clipped)
		require.NoError(t, err)
		defer copied.Release()
		assert.NotEqual(t, clipped.Address(), copied.Address())
		equal, err := copied.Equal(clipped)
		require.NoError(t, err)
		assert.True(t, equal)
		fromHost, err := dev.FromHost(bytes.Repeat([]byte{1}, 3))
		require.NoError(t, err)
		defer fromHost.Release()
		assert.Equal(t, []byte{1, 1, 1}, download(t, fromHost))
	})
}
