package cudabuf_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func event(t testing.TB, dev *cudabuf.Device, o cudabuf.EventOptions) *cudabuf.Event {
	t.Helper()
	e, err := dev.NewEvent(o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, e.Close()) })
	return e
}

func TestEventWaitsForEarlierWork(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for _, o := range []cudabuf.EventOptions{{}, {Timing: true}, {BlockingSync: true}, {Interprocess: true}} {
			a, b, e := stream(t, dev), stream(t, dev), event(t, dev, o)
			done, err := e.Done()
			require.NoError(t, err)
			assert.True(t, done, "never recorded")
			require.NoError(t, b.WaitEvent(e), "never recorded")
			require.NoError(t, b.Synchronize())

			gate := make(chan struct{})
			require.NoError(t, a.LaunchHostFunc(func() { <-gate }))
			require.NoError(t, a.Record(e))
			require.NoError(t, b.WaitEvent(e))
			for name, ask := range map[string]func() (bool, error){"event": e.Done, "waiting stream": b.Done} {
				done, err := ask()
				require.NoError(t, err)
				assert.False(t, done, name)
			}
			close(gate)
			require.NoError(t, e.Synchronize())
			require.NoError(t, b.Synchronize())
			done, err = e.Done()
			require.NoError(t, err)
			assert.True(t, done)
		}
	})
}

func TestSinceReturnsTimeBetweenEvents(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		s := stream(t, dev)
		start, end := event(t, dev, cudabuf.EventOptions{Timing: true}), event(t, dev, cudabuf.EventOptions{Timing: true})
		require.NoError(t, s.Record(start))
		require.NoError(t, s.LaunchHostFunc(func() { time.Sleep(5 * time.Millisecond) }))
		require.NoError(t, s.Record(end))
		require.NoError(t, end.Synchronize())
		elapsed, err := end.Since(start)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, elapsed, 5*time.Millisecond, "the events enclose the sleep")
		back, err := start.Since(end)
		require.NoError(t, err)
		assert.Negative(t, back)

		silent := event(t, dev, cudabuf.EventOptions{})
		require.NoError(t, s.Record(silent))
		require.NoError(t, s.Synchronize())
		_, err = silent.Since(start)
		var call *cudabuf.Error
		require.ErrorAs(t, err, &call)
		assert.Equal(t, "CUDA_ERROR_INVALID_HANDLE", call.Code.Name())
	})
}

func TestInterprocessEventsHaveNoTiming(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		_, err := dev.NewEvent(cudabuf.EventOptions{Interprocess: true, Timing: true})
		var call *cudabuf.Error
		require.ErrorAs(t, err, &call)
		assert.Equal(t, "CUDA_ERROR_INVALID_VALUE", call.Code.Name())
	})
}

func TestClosedEventIsRefused(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		s := stream(t, dev)
		e, err := dev.NewEvent(cudabuf.EventOptions{})
		require.NoError(t, err)
		require.NoError(t, e.Close())
		require.NoError(t, e.Close(), "twice")
		assert.ErrorIs(t, s.Record(e), cudabuf.ErrClosed)
		assert.ErrorIs(t, s.WaitEvent(e), cudabuf.ErrClosed)
		assert.ErrorIs(t, e.Synchronize(), cudabuf.ErrClosed)
	})
}

func TestCloseDoesNotDestroyWrappedEvent(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		owner, s := event(t, dev, cudabuf.EventOptions{}), stream(t, dev)
		e, err := dev.WrapEvent(owner.Handle())
		require.NoError(t, err)
		require.NoError(t, s.Record(e))
		require.NoError(t, e.Close())
		require.NoError(t, owner.Synchronize())
		_, err = dev.WrapEvent(0)
		assert.Error(t, err)
	})
}

func TestEventsWorkAcrossDevices(t *testing.T) {
	cudatest.ForEachDriver(t, 2, func(t *testing.T, d *cudabuf.Driver) {
		devs := twoDevices(t, d)
		a, b, e := stream(t, devs[0]), stream(t, devs[1]), event(t, devs[0], cudabuf.EventOptions{})
		gate := make(chan struct{})
		require.NoError(t, a.LaunchHostFunc(func() { <-gate }))
		require.NoError(t, a.Record(e))
		require.NoError(t, b.WaitEvent(e))
		done, err := b.Done()
		require.NoError(t, err)
		assert.False(t, done)
		close(gate)
		require.NoError(t, b.Synchronize())
		assert.ErrorIs(t, b.Record(e), arrowbuf.ErrDevice, "an event is recorded on its own device only")
	})
}
