package cudabuf_test

import (
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// Rows of docs/pyarrow-cuda.md and docs/pygpu.md that no test of a subject of
// its own has.

func TestMemoryInUseCountsBuffersUntilTheirLastRelease(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		before := dev.MemoryStats().InUse
		b := upload(t, dev, pattern(128))
		one := dev.MemoryStats().InUse
		assert.GreaterOrEqual(t, one-before, int64(128))
		part, err := b.Slice(64, 10)
		require.NoError(t, err)
		view, err := dev.WrapExternal(b.Address(), 128, nil)
		require.NoError(t, err)
		assert.Equal(t, one, dev.MemoryStats().InUse, "views take nothing")
		view.Release()
		b.Release()
		assert.Equal(t, one, dev.MemoryStats().InUse, "the slice keeps it")
		part.Release()
		assert.Equal(t, before, dev.MemoryStats().InUse)
	})
}

func TestDeviceAddressOfDeviceMemoryIsItself(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		b := upload(t, dev, pattern(1000))
		defer b.Release()
		for _, at := range []uintptr{b.Address(), b.Address() + 999} {
			got, err := dev.DeviceAddress(at)
			require.NoError(t, err)
			assert.Equal(t, at, got)
		}
		_, err := dev.DeviceAddress(1)
		assert.ErrorIs(t, err, arrowbuf.ErrDevice)
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
			require.NoError(t, s.Do(func() { <-gate; done.Add(1) }))
		}
		close(gate)
		require.NoError(t, dev.Synchronize())
		assert.EqualValues(t, 2, done.Load())
	})
}

func TestWaitCoversAllThatUsesTheMemory(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		s, err := dev.NewStream(cudabuf.StreamOptions{})
		require.NoError(t, err)
		defer func() { assert.NoError(t, s.Close()) }()
		b := upload(t, dev, pattern(64)).(*cudabuf.Buffer)
		defer b.Release()
		part, err := b.SliceClamped(32, 32)
		require.NoError(t, err)
		defer part.Release()
		gate, idle := make(chan struct{}), atomic.Bool{}
		require.NoError(t, s.Do(func() { <-gate; idle.Store(true) }))
		require.NoError(t, part.FillAsync(7, s))
		close(gate)
		require.NoError(t, b.Wait(), "the whole waits for work on its part")
		assert.True(t, idle.Load())
		done, err := s.Done()
		require.NoError(t, err)
		assert.True(t, done)
	})
}

func TestBuffersAreMadeOfDataOfEveryKind(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		data := pattern(100)
		device := upload(t, dev, data).(*cudabuf.Buffer)
		defer device.Release()
		pinned := dev.HostAllocator().Allocate(100)
		defer dev.HostAllocator().Free(pinned)
		copy(pinned, data)
		host := memory.NewBufferBytes(data)
		defer host.Release()

		ofDevice := func(b *cudabuf.Buffer) func() (*cudabuf.Buffer, error) {
			return func() (*cudabuf.Buffer, error) {
				part, err := b.SliceClamped(10, 50)
				if err != nil {
					return nil, err
				}
				defer part.Release()
				return dev.CopyOf(part)
			}
		}
		arrowDevice := device.Arrow()
		defer arrowDevice.Release()
		for name, of := range map[string]func() (*cudabuf.Buffer, error){
			"host bytes":   func() (*cudabuf.Buffer, error) { return dev.FromHost(data[10:60]) },
			"pinned bytes": func() (*cudabuf.Buffer, error) { return dev.FromHost(pinned[10:60]) },
			"arrow's host": func() (*cudabuf.Buffer, error) { return dev.FromHost(host.Bytes()[10:60]) },
			"device":       ofDevice(device),
			"arrow's device": func() (*cudabuf.Buffer, error) {
				b, err := cudabuf.FromArrow(arrowDevice)
				if err != nil {
					return nil, err
				}
				defer b.Release()
				return ofDevice(b)()
			},
			"foreign": func() (*cudabuf.Buffer, error) {
				b, err := dev.WrapExternal(device.Address(), 100, nil)
				if err != nil {
					return nil, err
				}
				defer b.Release()
				return ofDevice(b)()
			},
		} {
			b, err := of()
			require.NoError(t, err, name)
			assert.EqualValues(t, 50, b.Len(), name)
			assert.NotEqual(t, device.Address()+10, b.Address(), "%s: it is a copy", name)
			assertBytes(t, data[10:60], download(t, b))
			b.Release()
		}
		_, err := cudabuf.FromArrow(host)
		assert.ErrorIs(t, err, arrowbuf.ErrDevice)
	})
}

func TestReadOnlyBuffersStaySoThroughArrow(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		b := upload(t, dev, pattern(100)).(*cudabuf.Buffer)
		defer b.Release()
		view, err := b.ReadOnly()
		require.NoError(t, err)
		defer view.Release()
		for _, tt := range []struct {
			from    *cudabuf.Buffer
			mutable bool
		}{{b, true}, {view, false}} {
			seen := tt.from.Arrow()
			back, err := cudabuf.FromArrow(seen)
			require.NoError(t, err)
			assert.Equal(t, tt.mutable, back.Mutable())
			assert.Equal(t, tt.from.Address(), back.Address())
			back.Release()
			part := sliceArrow(seen, 10, 20)
			back, err = cudabuf.FromArrow(part)
			require.NoError(t, err)
			assert.Equal(t, tt.mutable, back.Mutable(), "a slice")
			assert.Equal(t, tt.from.Address()+10, back.Address())
			back.Release()
			part.Release()
			seen.Release()
		}
	})
}

func TestReleasedMemoryStaysWithItsForeignOwnerUntilItsStreamsAreDone(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		s, err := dev.NewStream(cudabuf.StreamOptions{})
		require.NoError(t, err)
		defer func() { assert.NoError(t, s.Close()) }()
		owner := upload(t, dev, pattern(64))
		var passed atomic.Bool
		b, err := dev.WrapExternal(owner.Address(), 64, func() {
			assert.True(t, passed.Load(), "the owner gets it back when the work on it is done")
			owner.Release()
		})
		require.NoError(t, err)
		gate := make(chan struct{})
		require.NoError(t, s.Do(func() { <-gate; passed.Store(true) }))
		require.NoError(t, b.FillAsync(1, s))
		close(gate)
		b.Release()
		require.NoError(t, s.Synchronize())
	})
}
