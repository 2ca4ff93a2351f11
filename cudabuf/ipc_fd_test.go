package cudabuf_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// sharedFD returns a buffer of NewFDBuffer that holds the bytes.
func sharedFD(t testing.TB, dev *cudabuf.Device, data []byte) *cudabuf.Buffer {
	t.Helper()
	b, err := dev.NewFDBuffer(int64(len(data)))
	require.NoError(t, err)
	_, err = b.CopyFromHost(data, 0)
	require.NoError(t, err)
	return b
}

func TestOpenFDInAnotherProcess(t *testing.T) {
	forEachMachine(t, func(t *testing.T, d *cudabuf.Driver, dev *cudabuf.Device) {
		b := sharedFD(t, dev, pattern(3<<20+5))
		whole, region, err := b.ExportFD()
		require.NoError(t, err)
		part, inner, err := sliceBuffer(t, b, 1000, 100).ExportFD()
		require.NoError(t, err)
		assert.Equal(t, cudabuf.Region{Device: dev.UUID(), AllocationSize: 4 << 20, Length: 3<<20 + 5}, region)
		assert.Equal(t, cudabuf.Region{Device: dev.UUID(), AllocationSize: 4 << 20, Offset: 1000, Length: 100}, inner)

		p := startPeer(t, d, whole, part)
		require.NoError(t, whole.Close())
		require.NoError(t, part.Close())
		first, second := ask[int](p, "OpenFD", File{0, 3, region}), ask[int](p, "OpenFD", File{0, 4, inner})
		assertBytes(t, pattern(3<<20+5), p.read(first))
		assertBytes(t, pattern(1100)[1000:], p.read(second))
		ask[int](p, "Write", Write{second, bytes.Repeat([]byte{1}, 100)})
		assertBytes(t, bytes.Repeat([]byte{1}, 100), download(t, sliceBuffer(t, b, 1000, 100)))

		t.Cleanup(func() { p.release(first); p.release(second) })
		t.Cleanup(b.Release)
	})
}

func TestFDMemoryOutlivesExporter(t *testing.T) {
	forEachMachine(t, func(t *testing.T, d *cudabuf.Driver, dev *cudabuf.Device) {
		b := sharedFD(t, dev, pattern(1000))
		file, region, err := b.ExportFD()
		require.NoError(t, err)
		p := startPeer(t, d, file)
		require.NoError(t, file.Close())
		theirs := ask[int](p, "OpenFD", File{0, 3, region})
		b.Release()
		assertBytes(t, pattern(1000), p.read(theirs))
		p.release(theirs)
	})
}

func TestOpenFDInSameProcess(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		b := sharedFD(t, dev, pattern(1000))
		file, region, err := b.ExportFD()
		require.NoError(t, err)
		again, err := dev.OpenFD(file, region)
		require.NoError(t, err)
		require.NoError(t, file.Close())
		assert.NotEqual(t, b.Address(), again.Address())
		require.NoError(t, again.Fill(4))
		assertBytes(t, bytes.Repeat([]byte{4}, 1000), download(t, b))
		b.Release()
		assertBytes(t, bytes.Repeat([]byte{4}, 1000), download(t, again))
		again.Release()
	})
}

func TestOpenFDRefusesOtherFiles(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		b := sharedFD(t, dev, pattern(10))
		t.Cleanup(b.Release)
		file, region, err := b.ExportFD()
		require.NoError(t, err)
		ordinary, err := os.Create(filepath.Join(t.TempDir(), "file"))
		require.NoError(t, err)
		defer ordinary.Close()
		_, err = dev.OpenFD(ordinary, region)
		assert.ErrorContains(t, err, "cuMemImportFromShareableHandle")
		_, err = dev.OpenPoolFD(ordinary)
		assert.ErrorContains(t, err, "cuMemPoolImportFromShareableHandle")
		larger := region
		larger.AllocationSize *= 2
		_, err = dev.OpenFD(file, larger)
		assert.ErrorContains(t, err, "cuMemMap", "the actual size of the memory counts")
		_, err = dev.OpenFD(file, cudabuf.Region{AllocationSize: region.AllocationSize, Offset: region.AllocationSize, Length: 1})
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
		require.NoError(t, file.Close())
		_, err = dev.OpenFD(file, region)
		assert.ErrorIs(t, err, os.ErrClosed)
		_, err = dev.OpenFD(nil, region)
		assert.ErrorIs(t, err, os.ErrInvalid)
		_, err = dev.OpenPoolFD(nil)
		assert.ErrorIs(t, err, os.ErrInvalid)
	})
}

func TestOpenFDOnAnotherDevice(t *testing.T) {
	cudatest.ForEachDriver(t, 2, func(t *testing.T, d *cudabuf.Driver) {
		devs := twoDevices(t, d)
		b := sharedFD(t, devs[0], pattern(1000))
		file, region, err := b.ExportFD()
		require.NoError(t, err)
		p := startPeer(t, d, file)
		require.NoError(t, file.Close())
		theirs := ask[int](p, "OpenFD", File{1, 3, region})
		assertBytes(t, pattern(1000), p.read(theirs))
		ask[int](p, "Write", Write{theirs, bytes.Repeat([]byte{6}, 1000)})
		assertBytes(t, bytes.Repeat([]byte{6}, 1000), download(t, b))
		p.release(theirs)
		b.Release()
	})
}

func TestFailedMappingFreesEverything(t *testing.T) {
	for _, call := range []string{"cuMemCreate", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess"} {
		t.Run(call, func(t *testing.T) {
			dev, fail := failing(t)
			fail(call, 1)
			_, err := dev.NewFDBuffer(10)
			require.ErrorContains(t, err, call)
			free, total, err := dev.MemInfo()
			require.NoError(t, err)
			assert.Equal(t, total, free)
		})
	}
}
