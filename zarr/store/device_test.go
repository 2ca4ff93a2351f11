package store_test

import (
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/quiver-gpu/quiver/zarr/store/storetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDeviceMemory(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, device arrowbuf.Device) {
		open := func(t *testing.T) store.Store {
			m, err := store.NewDeviceMemory(device)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, m.Close()) })
			return m
		}
		storetest.Test(t, open, storetest.Options{})
		t.Run("random operations equal those on a map", func(t *testing.T) {
			storetest.TestModel(t, open(t), 1, 200, storetest.Options{})
		})
	})
}

func TestDeviceMemoryReturnsBuffersOfTheDevice(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		m, err := store.NewDeviceMemory(dev)
		require.NoError(t, err)
		set(t, m, "host", "0123456789") // a value of the host becomes one of the device
		source, err := arrowbuf.CPU().Alloc(4)
		require.NoError(t, err)
		_, err = source.CopyFromHost([]byte("abcd"), 0)
		require.NoError(t, err)
		require.NoError(t, m.SetBuffer(ctx(), "buffer", source))
		_, err = source.CopyFromHost([]byte("zzzz"), 0)
		require.NoError(t, err)
		source.Release()
		for key, want := range map[string]string{"host": "123", "buffer": "bcd"} {
			b, err := m.GetBuffer(ctx(), key, store.Between(1, 4))
			require.NoError(t, err)
			assert.Equal(t, dev, b.Device())
			again, err := m.GetBuffer(ctx(), key, store.From(1))
			require.NoError(t, err)
			assert.Equal(t, b.Address(), again.Address(), "no copy")
			again.Release()
			got := make([]byte, 3)
			_, err = b.CopyToHost(got, 0)
			require.NoError(t, err)
			assert.Equal(t, want, string(got))
			require.NoError(t, m.Delete(ctx(), key))
			_, err = b.CopyToHost(got, 0)
			assert.NoError(t, err, "a buffer outlives its value")
			b.Release()
		}
		_, err = m.GetBuffer(ctx(), "host", store.Range{})
		assert.ErrorIs(t, err, store.ErrNotFound)
		assert.ErrorContains(t, m.SetBuffer(ctx(), "k", nil), "nil buffer")
		require.NoError(t, m.Close())
		assert.ErrorContains(t, m.Set(ctx(), "k", nil), "closed")
	})
	_, err := store.NewDeviceMemory(nil)
	assert.ErrorContains(t, err, "nil device")
}
