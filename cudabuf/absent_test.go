package cudabuf_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func TestABufferBesideNoneIsErrDevice(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		onDevice, err := dev.Alloc(8)
		require.NoError(t, err)
		defer onDevice.Release()
		pinned, err := dev.NewHostBuffer(8, cudabuf.HostOptions{})
		require.NoError(t, err)
		defer pinned.Release()
		for _, b := range []arrowbuf.Buffer{onDevice, pinned} {
			_, err := b.CopyFromDevice(nil, 0)
			assert.ErrorIs(t, err, arrowbuf.ErrDevice)
			_, err = b.Equal(nil)
			assert.ErrorIs(t, err, arrowbuf.ErrDevice)
		}
	})
}
