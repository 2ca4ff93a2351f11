package cudabuf_test

import (
	"bytes"
	"sync/atomic"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStreamRunsItsWorkInOrder(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		s, b := stream(t, dev), newBuffer(t, dev, 1<<20)
		pinned := dev.HostAllocator().Allocate(1 << 20)
		defer dev.HostAllocator().Free(pinned)
		copy(pinned, pattern(1<<20))
		_, err := b.CopyFromHostAsync(pinned, 0, s)
		require.NoError(t, err)
		require.NoError(t, s.Synchronize())
		clear(pinned)
		_, err = b.CopyToHostAsync(pinned, 0, s)
		require.NoError(t, err)
		require.NoError(t, s.Synchronize())
		assertBytes(t, pattern(1<<20), pinned)
		done, err := s.Done()
		require.NoError(t, err)
		assert.True(t, done)
	})
}

func TestAsyncCopyOfPinnedMemoryIsOnlyEnqueued(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		s, b := stream(t, dev), newBuffer(t, dev, 1000)
		pinned := dev.HostAllocator().Allocate(1000)
		defer dev.HostAllocator().Free(pinned)
		require.NoError(t, b.Fill(7))
		gate := make(chan struct{})
		require.NoError(t, s.LaunchHostFunc(func() { <-gate }))
		_, err := b.CopyToHostAsync(pinned, 0, s)
		require.NoError(t, err)
		done, err := s.Done()
		require.NoError(t, err)
		assert.False(t, done, "the call returned before the copy")
		close(gate)
		require.NoError(t, s.Synchronize())
		assertBytes(t, bytes.Repeat([]byte{7}, 1000), pinned)
	})
}

// Operations without a stream do not wait for work on other memory, so that they overlap
// with it and with each other.
func TestOperationsDoNotWaitForWorkOnOtherMemory(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		s, busy := stream(t, dev), newBuffer(t, dev, 8)
		k := kernel(t, dev, "add_int32")
		b := newBuffer(t, dev, 16)
		gate := make(chan struct{})
		require.NoError(t, s.LaunchHostFunc(func() { <-gate }))
		require.NoError(t, busy.FillAsync(1, s))

		require.NoError(t, b.Fill(0))
		require.NoError(t, k.Launch(cudabuf.Dim3{X: 1}, cudabuf.Dim3{X: 32}, 0, b, int64(4), int32(5)))
		assert.Equal(t, int32s(5, 5, 5, 5), download(t, b))
		done, err := s.Done()
		require.NoError(t, err)
		assert.False(t, done, "the stream still waits")
		close(gate)
		require.NoError(t, s.Synchronize())
	})
}

func TestAsyncCopyIsDoneWithOrdinaryMemoryOnReturn(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for _, n := range []int{1, 1000, 9 << 20} {
			s, b := stream(t, dev), newBuffer(t, dev, int64(n))
			src := pattern(n)
			_, err := b.CopyFromHostAsync(src, 0, s)
			require.NoError(t, err)
			clear(src)
			dst := make([]byte, n)
			_, err = b.CopyToHostAsync(dst, 0, s)
			require.NoError(t, err)
			assertBytes(t, pattern(n), dst)
		}
	})
}

func TestDoRunsInStreamOrder(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		s := stream(t, dev)
		var order []int
		for i := range 100 {
			require.NoError(t, s.LaunchHostFunc(func() { order = append(order, i) }))
		}
		require.NoError(t, s.Synchronize())
		require.Len(t, order, 100)
		for i, v := range order {
			assert.Equal(t, i, v)
		}
	})
}

func TestWaitOrdersStreams(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		a, b := stream(t, dev), stream(t, dev)
		gate := make(chan struct{})
		var passed atomic.Bool
		require.NoError(t, a.LaunchHostFunc(func() { <-gate; passed.Store(true) }))
		require.NoError(t, b.Wait(a))
		var seen bool
		require.NoError(t, b.LaunchHostFunc(func() { seen = passed.Load() }))
		done, err := b.Done()
		require.NoError(t, err)
		assert.False(t, done)
		close(gate)
		require.NoError(t, b.Synchronize())
		assert.True(t, seen)
	})
}

func TestStreamOptions(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		lowest, highest, err := dev.StreamPriorities()
		require.NoError(t, err)
		require.LessOrEqual(t, highest, lowest, "a higher priority is a smaller number")
		for _, tt := range []struct{ ask, want int }{{lowest, lowest}, {highest, highest}, {highest - 100, highest}, {lowest + 100, lowest}} {
			s, err := dev.NewStream(cudabuf.StreamOptions{Priority: tt.ask, Blocking: tt.ask == lowest})
			require.NoError(t, err)
			got, err := s.Priority()
			require.NoError(t, err)
			assert.Equal(t, tt.want, got)
			require.NoError(t, s.Close())
		}
	})
}

func TestClosedStreamRefusesWork(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		s, err := dev.NewStream(cudabuf.StreamOptions{})
		require.NoError(t, err)
		b := newBuffer(t, dev, 8)
		require.NoError(t, b.FillAsync(5, s))
		require.NoError(t, s.Close())
		require.NoError(t, s.Close(), "twice")
		assert.ErrorIs(t, b.FillAsync(6, s), cudabuf.ErrClosed)
		assert.ErrorIs(t, s.Synchronize(), cudabuf.ErrClosed)
		assert.ErrorIs(t, s.LaunchHostFunc(func() {}), cudabuf.ErrClosed)
		assert.Equal(t, bytes.Repeat([]byte{5}, 8), download(t, b), "the earlier work is done")
		next := stream(t, dev)
		require.NoError(t, b.FillAsync(7, next))
		require.NoError(t, b.Wait())
		assert.Equal(t, bytes.Repeat([]byte{7}, 8), download(t, b))
	})
}

func TestCloseDoesNotDestroyWrappedStream(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		owner := stream(t, dev)
		s, err := dev.WrapStream(owner.Handle())
		require.NoError(t, err)
		b, other := newBuffer(t, dev, 8), stream(t, dev)
		require.NoError(t, b.FillAsync(1, s))
		require.NoError(t, b.FillAsync(2, other))
		require.NoError(t, s.Close())
		require.NoError(t, b.FillAsync(3, owner), "the handle is still valid")
		require.NoError(t, b.Wait())
		assert.Equal(t, bytes.Repeat([]byte{3}, 8), download(t, b))

		null, err := dev.WrapStream(0)
		require.NoError(t, err)
		assert.Same(t, dev.NullStream(), null)
		require.NoError(t, null.Close())
		require.NoError(t, b.FillAsync(4, null), "the null stream does not close")
		assert.Equal(t, bytes.Repeat([]byte{4}, 8), download(t, b))
	})
}

func TestWrapStreamRefusesAnotherContext(t *testing.T) {
	cudatest.ForEachDriver(t, 2, func(t *testing.T, d *cudabuf.Driver) {
		devs := twoDevices(t, d)
		_, err := devs[0].WrapStream(stream(t, devs[1]).Handle())
		assert.ErrorIs(t, err, arrowbuf.ErrDevice)
	})
}

func TestStreamReportsFailureOfItsWork(t *testing.T) {
	dev := cudatest.NewDevice(t)
	m, err := dev.LoadModule([]byte("image"), map[string]cudabuf.HostKernel{"wild": func(l *cudabuf.HostLaunch) { l.Memory(1, 1) }})
	require.NoError(t, err)
	k, err := m.Kernel("wild")
	require.NoError(t, err)
	s, err := dev.NewStream(cudabuf.StreamOptions{})
	require.NoError(t, err)
	require.NoError(t, k.LaunchAsync(s, cudabuf.Dim3{X: 1}, cudabuf.Dim3{X: 1}, 0))
	assert.ErrorIs(t, s.Synchronize(), cudabuf.ErrDeviceLost)

	// The context is lost: all calls return that error, and none hangs.
	b, err := dev.NewBuffer(8)
	if err == nil {
		assert.ErrorIs(t, b.Fill(1), cudabuf.ErrDeviceLost)
		b.Release()
	}
	_, err = dev.NewStream(cudabuf.StreamOptions{})
	assert.ErrorIs(t, err, cudabuf.ErrDeviceLost)
	assert.ErrorIs(t, dev.Synchronize(), cudabuf.ErrDeviceLost)
	assert.ErrorIs(t, s.Close(), cudabuf.ErrDeviceLost)
	assert.ErrorIs(t, m.Close(), cudabuf.ErrDeviceLost)
}

func TestDefaultStreamIsShared(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		streams := make(chan *cudabuf.Stream, 8)
		for range cap(streams) {
			go func() {
				s, err := dev.DefaultStream()
				assert.NoError(t, err)
				streams <- s
			}()
		}
		s := <-streams
		for range cap(streams) - 1 {
			assert.Same(t, s, <-streams)
		}
		require.NoError(t, s.Close(), "Close does nothing")
		k, b := kernel(t, dev, "add_int32"), newBuffer(t, dev, 4)
		require.NoError(t, b.FillAsync(0, s))
		require.NoError(t, k.LaunchAsync(s, cudabuf.Dim3{X: 1}, cudabuf.Dim3{X: 32}, 0, b, int64(1), int32(5)))
		assert.Equal(t, int32s(5), download(t, b), "the copy waits for the kernel")
	})
}

func TestSynchronizeWaitsForEveryStream(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		var done atomic.Int32
		gate := make(chan struct{})
		for _, o := range []cudabuf.StreamOptions{{}, {Blocking: true}} {
			s, err := dev.NewStream(o)
			require.NoError(t, err)
			defer func() { assert.NoError(t, s.Close()) }()
			require.NoError(t, s.LaunchHostFunc(func() { <-gate; done.Add(1) }))
		}
		close(gate)
		require.NoError(t, dev.Synchronize())
		assert.EqualValues(t, 2, done.Load())
	})
}
