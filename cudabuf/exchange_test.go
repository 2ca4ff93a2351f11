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

// exchanger is what a device and its Host exchange memory by.
type exchanger interface {
	arrowbuf.Device
	EventAfter(buffers ...arrowbuf.Buffer) (handle uintptr, done func(), err error)
	WrapExternalAfter(event, address uintptr, n int64, release func()) (arrowbuf.Buffer, error)
}

func TestAnEventComesAfterTheWritesOfItsBuffers(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		s, err := dev.NewStream(cudabuf.StreamOptions{})
		require.NoError(t, err)
		defer func() { assert.NoError(t, s.Close()) }()
		b, err := dev.NewBuffer(64)
		require.NoError(t, err)
		defer b.Release()
		require.NoError(t, s.Do(func() { time.Sleep(30 * time.Millisecond) }))
		require.NoError(t, b.FillAsync(1, s))
		part, err := b.Slice(8, 8)
		require.NoError(t, err)
		defer part.Release()
		empty, err := dev.Alloc(0)
		require.NoError(t, err)
		defer empty.Release()
		handle, done, err := dev.EventAfter(b, part, empty)
		require.NoError(t, err)
		defer done()
		e, err := dev.WrapEvent(handle)
		require.NoError(t, err)
		early, err := e.Done()
		require.NoError(t, err)
		assert.False(t, early)
		require.NoError(t, e.Synchronize())
		written, err := s.Done()
		require.NoError(t, err)
		assert.True(t, written)
	})
}

func TestWhatCannotBeExchangedReleasesNothing(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		cpu, err := arrowbuf.CPU().Alloc(64)
		require.NoError(t, err)
		defer cpu.Release()
		for _, d := range []exchanger{dev, dev.Host().(exchanger)} {
			_, _, err = d.EventAfter(cpu)
			assert.ErrorIs(t, err, arrowbuf.ErrDevice)

			never := func() { t.Error("released") }
			_, err = d.WrapExternalAfter(0, cpu.Address(), 64, never)
			assert.ErrorIs(t, err, arrowbuf.ErrDevice)
			_, err = d.WrapExternalAfter(0, 1<<20, -1, never)
			assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)

			b, err := d.Alloc(64)
			require.NoError(t, err)
			released := 0
			same, err := d.WrapExternalAfter(0, b.Address(), 64, func() { released++ })
			require.NoError(t, err)
			assert.Equal(t, b.Address(), same.Address())
			assert.Equal(t, arrowbuf.Device(d), same.Device())
			part, err := same.Slice(8, 8)
			require.NoError(t, err)
			same.Release()
			assert.Zero(t, released)
			part.Release()
			assert.Equal(t, 1, released)
			b.Release()
			_, _, err = d.EventAfter(b)
			assert.ErrorIs(t, err, arrowbuf.ErrReleased)
		}
	})
}
