package cudabuf_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAfterRunsAfterEarlierWork(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		s, b := stream(t, dev), newBuffer(t, dev, 8)
		gate, ran := make(chan struct{}), make(chan []byte, 1)
		require.NoError(t, s.LaunchHostFunc(func() { <-gate }))
		require.NoError(t, b.FillAsync(3, s))
		s.After(func() {
			got, err := b.Bytes()
			assert.NoError(t, err)
			ran <- got
		})
		select {
		case <-ran:
			t.Error("it ran before the earlier work")
		case <-time.After(10 * time.Millisecond):
		}
		close(gate)
		assert.Equal(t, []byte{3, 3, 3, 3, 3, 3, 3, 3}, <-ran)
	})
}

func TestAfterRunsAtOnceWithoutNotification(t *testing.T) {
	t.Run("a closed stream", func(t *testing.T) {
		s, err := cudatest.NewDevice(t).NewStream(cudabuf.StreamOptions{})
		require.NoError(t, err)
		require.NoError(t, s.Close())
		ran := 0
		s.After(func() { ran++ })
		assert.Equal(t, 1, ran)
	})
	t.Run("a driver without host functions", func(t *testing.T) {
		machine := cudatest.Start(t, cudatest.Config{Fail: cudatest.FailFrom("cuLaunchHostFunc", 1, 801)}) // CUDA_ERROR_NOT_SUPPORTED
		dev, err := machine.Device(0)
		require.NoError(t, err)
		s, b := stream(t, dev), newBuffer(t, dev, 8)
		require.NoError(t, b.FillAsync(3, s))
		ran := 0
		s.After(func() {
			ran++
			done, err := s.Done()
			assert.NoError(t, err)
			assert.True(t, done)
		})
		assert.Equal(t, 1, ran)
	})
	t.Run("a lost device", func(t *testing.T) {
		machine := cudatest.Start(t, cudatest.Config{Fail: cudatest.FailNth("cuMemsetD8Async", 1, cudatest.ECCError)})
		dev, err := machine.Device(0)
		require.NoError(t, err)
		s, err := dev.NewStream(cudabuf.StreamOptions{})
		require.NoError(t, err)
		b := newBuffer(t, dev, 8)
		require.ErrorIs(t, b.FillAsync(3, s), cudabuf.ErrDeviceLost)
		ran := 0
		s.After(func() { ran++ })
		assert.Equal(t, 1, ran)
	})
}

func TestDriverCloseRunsPendingCallbacks(t *testing.T) {
	machine := cudatest.New(cudatest.Config{})
	dev, err := machine.Device(0)
	require.NoError(t, err)
	s, err := dev.NewStream(cudabuf.StreamOptions{})
	require.NoError(t, err)
	var ran atomic.Int64
	require.NoError(t, s.LaunchHostFunc(func() { time.Sleep(5 * time.Millisecond) }))
	for range 20 {
		b, err := dev.NewBuffer(100)
		require.NoError(t, err)
		s.After(func() {
			b.Release() // Close refuses while it is in use
			ran.Add(1)
		})
	}
	require.NoError(t, machine.Close())
	assert.EqualValues(t, 20, ran.Load(), "each once")
}
