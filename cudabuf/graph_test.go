package cudabuf_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func TestGraphRunsItsWorkAtEachLaunch(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		k, s := kernel(t, dev, "add_int32"), stream(t, dev)
		a, b := newBuffer(t, dev, 16), newBuffer(t, dev, 16)
		require.NoError(t, a.Fill(0))
		require.NoError(t, b.Fill(0))
		g, err := dev.Capture(func(s *cudabuf.Stream) error {
			if err := k.LaunchAsync(s, cudabuf.Dim3{X: 1}, cudabuf.Dim3{X: 32}, 0, a, int64(4), int32(1)); err != nil {
				return err
			}
			_, err := b.CopyFromDeviceAsync(a, 0, s)
			return err
		})
		require.NoError(t, err)
		assert.Equal(t, int32s(0, 0, 0, 0), download(t, a), "capturing runs nothing")
		for range 3 {
			require.NoError(t, g.Launch(s))
		}
		assert.Equal(t, int32s(3, 3, 3, 3), download(t, b), "ordered against work without a stream")
		require.NoError(t, a.Fill(0))
		require.NoError(t, g.Launch(stream(t, dev)))
		require.NoError(t, g.Launch(s))
		assert.Equal(t, int32s(2, 2, 2, 2), download(t, b))
		require.NoError(t, g.Close())
		require.NoError(t, g.Close(), "twice")
		assert.ErrorIs(t, g.Launch(s), cudabuf.ErrClosed)
	})
}

func TestGraphKeepsItsMemory(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		s, kept := stream(t, dev), newBuffer(t, dev, 1<<12)
		src, err := dev.FromHost(bytes.Repeat([]byte{6}, 1<<12))
		require.NoError(t, err)
		g, err := dev.Capture(func(s *cudabuf.Stream) error {
			_, err := kept.CopyFromDeviceAsync(src, 0, s)
			return err
		})
		require.NoError(t, err)
		src.Release()
		other := newBuffer(t, dev, 1<<12)
		require.NoError(t, other.Fill(1))
		require.NoError(t, g.Launch(s))
		assertBytes(t, bytes.Repeat([]byte{6}, 1<<12), download(t, kept))
		require.NoError(t, g.Close())
	})
}

func TestFailedCaptureLeavesNothing(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		b := newBuffer(t, dev, 8)
		mine := errors.New("mine")
		_, err := dev.Capture(func(s *cudabuf.Stream) error {
			require.NoError(t, b.FillAsync(1, s))
			return mine
		})
		assert.ErrorIs(t, err, mine)

		_, err = dev.Capture(func(s *cudabuf.Stream) error { return s.Synchronize() })
		var call *cudabuf.Error
		require.ErrorAs(t, err, &call, "a capturing stream cannot be synchronized")
		assert.Equal(t, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", call.Code.Name())

		require.NoError(t, b.Fill(3), "the device is still usable")
		assert.Equal(t, bytes.Repeat([]byte{3}, 8), download(t, b))
	})
}

func TestCaptureRefusesOrdinaryMemory(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		b := newBuffer(t, dev, 8)
		require.NoError(t, b.Fill(0))
		for _, n := range []int{1, 8} {
			_, err := dev.Capture(func(s *cudabuf.Stream) error { _, err := b.CopyFromHostAsync(make([]byte, n), 0, s); return err })
			assert.ErrorIs(t, err, errors.ErrUnsupported)
			_, err = dev.Capture(func(s *cudabuf.Stream) error { _, err := b.CopyToHostAsync(make([]byte, n), 0, s); return err })
			assert.ErrorIs(t, err, errors.ErrUnsupported)
		}
		_, err := dev.Capture(func(s *cudabuf.Stream) error { return s.LaunchHostFunc(func() {}) })
		assert.ErrorIs(t, err, errors.ErrUnsupported)

		host, err := dev.NewHostBuffer(8, cudabuf.HostOptions{})
		require.NoError(t, err)
		defer host.Release()
		g, err := dev.Capture(func(s *cudabuf.Stream) error { _, err := b.CopyFromHostAsync(host.HostBytes(), 0, s); return err })
		require.NoError(t, err)
		copy(host.HostBytes(), "captured")
		require.NoError(t, g.Launch(stream(t, dev)))
		assert.Equal(t, "captured", string(download(t, b)), "the contents at the time of the launch")
		require.NoError(t, g.Close())
	})
}

func TestCapturedStreamIsClosedAfterCapture(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		var kept *cudabuf.Stream
		g, err := dev.Capture(func(s *cudabuf.Stream) error { kept = s; return nil })
		require.NoError(t, err)
		require.NoError(t, g.Launch(stream(t, dev)), "an empty graph can be launched")
		require.NoError(t, g.Close())
		assert.ErrorIs(t, kept.Synchronize(), cudabuf.ErrClosed)
	})
}
