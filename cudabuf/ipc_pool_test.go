package cudabuf_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func sharedPool(t testing.TB, dev *cudabuf.Device) *cudabuf.SharedPool {
	t.Helper()
	pool, err := dev.NewSharedPool()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, pool.Close()) })
	return pool
}

func TestPeerOpensPoolOnceAndBuffersByHandle(t *testing.T) {
	forEachMachine(t, func(t *testing.T, d *cudabuf.Driver, dev *cudabuf.Device) {
		pool, s := sharedPool(t, dev), stream(t, dev)
		file, err := pool.ExportFD()
		require.NoError(t, err)
		p := startPeer(t, d, file)
		require.NoError(t, file.Close())
		ask[int](p, "OpenPool", File{FD: 3})
		for _, n := range []int{1, 1000, 3<<20 + 5} {
			b, err := pool.NewBuffer(int64(n), s)
			require.NoError(t, err)
			_, err = b.CopyFromHost(pattern(n), 0)
			require.NoError(t, err)
			h, err := b.ExportPool()
			require.NoError(t, err)
			theirs, again := ask[int](p, "OpenPooled", h), ask[int](p, "OpenPooled", h)
			assertBytes(t, pattern(n), p.read(theirs))
			assert.Equal(t, ask[string](p, "Address", theirs), ask[string](p, "Address", again))
			p.release(theirs)
			ask[int](p, "Write", Write{again, bytes.Repeat([]byte{2}, n)})
			assertBytes(t, bytes.Repeat([]byte{2}, n), download(t, b))
			p.release(again)
			b.Release()
		}
		ask[int](p, "ClosePool", 0)
	})
}

// patternInPool returns a pool, its file, and a buffer of the pool with a pattern of 4,096
// bytes.
func patternInPool(t *testing.T, dev *cudabuf.Device) (*cudabuf.SharedPool, *os.File, *cudabuf.Buffer) {
	t.Helper()
	pool := sharedPool(t, dev)
	file, err := pool.ExportFD()
	require.NoError(t, err)
	b, err := pool.NewBuffer(4096, nil)
	require.NoError(t, err)
	_, err = b.CopyFromHost(pattern(4096), 0)
	require.NoError(t, err)
	return pool, file, b
}

func TestPoolHandleKeepsSliceOffset(t *testing.T) {
	forEachMachine(t, func(t *testing.T, d *cudabuf.Driver, dev *cudabuf.Device) {
		pool, file, b := patternInPool(t, dev)
		part, err := b.SliceClamped(1000, 24)
		require.NoError(t, err)
		assert.Same(t, pool, part.SharedPool())
		other, err := dev.NewFDBuffer(1)
		require.NoError(t, err)
		assert.Nil(t, other.SharedPool())
		other.Release()
		h, err := part.ExportPool()
		require.NoError(t, err)
		assert.Equal(t, cudabuf.Region{Device: dev.UUID(), AllocationSize: 4096, Offset: 1000, Length: 24}, h.Region)
		p := startPeer(t, d, file)
		require.NoError(t, file.Close())
		ask[int](p, "OpenPool", File{FD: 3})
		theirs := ask[int](p, "OpenPooled", h)
		assertBytes(t, pattern(1024)[1000:], p.read(theirs))

		long := h
		long.AllocationSize, long.Length = 0, 1<<40
		_, err = peerCall[int](p, "OpenPooled", long)
		assert.ErrorContains(t, err, "out of range", "the actual size of the allocation counts")
		_, err = peerCall[int](p, "OpenPooled", cudabuf.PoolHandle{Region: h.Region})
		assert.ErrorContains(t, err, "cuMemPoolImportPointer")
		assertBytes(t, pattern(1024)[1000:], p.read(theirs))
		p.release(theirs)
		ask[int](p, "ClosePool", 0)
		part.Release()
		b.Release()
	})
}

func TestExportPoolRefusesLargeAllocations(t *testing.T) {
	forEachMachine(t, func(t *testing.T, d *cudabuf.Driver, dev *cudabuf.Device) {
		if onSimulated(t) {
			d = cudatest.New(cudatest.Config{MemoryBytes: 2 << 30})
			t.Cleanup(func() { assert.NoError(t, d.Close()) })
			dev = device(t, d, 0)
		}
		pool := sharedPool(t, dev)
		file, err := pool.ExportFD()
		require.NoError(t, err)
		b, err := pool.NewBuffer(1<<30+1, nil)
		require.NoError(t, err)
		part, err := b.SliceClamped(5, 10)
		require.NoError(t, err)
		_, err = part.ExportPool()
		assert.ErrorIs(t, err, cudabuf.ErrNotShareable)
		assert.Nil(t, part.SharedPool())
		part.Release()
		b.Release()
		p := startPeer(t, d, file)
		require.NoError(t, file.Close())
		ask[int](p, "OpenPool", File{FD: 3})
		_, err = peerCall[int](p, "OpenPooled", cudabuf.PoolHandle{Region: cudabuf.Region{AllocationSize: 1<<30 + 1, Length: 10}})
		assert.ErrorContains(t, err, "at most 1073741824")
		ask[int](p, "ClosePool", 0)
	})
}

func TestPoolMayBeOpenedTwice(t *testing.T) {
	forEachMachine(t, func(t *testing.T, d *cudabuf.Driver, dev *cudabuf.Device) {
		_, file, b := patternInPool(t, dev)
		h, err := b.ExportPool()
		require.NoError(t, err)
		p := startPeer(t, d, file)
		require.NoError(t, file.Close())
		ask[int](p, "OpenPoolTwice", PooledTwice{3, h, pattern(4096)})
		b.Release()
	})
}

func TestPoolAllocationIsStreamOrdered(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		pool, s := sharedPool(t, dev), stream(t, dev)
		gate := make(chan struct{})
		require.NoError(t, s.LaunchHostFunc(func() { <-gate }))
		b, err := pool.NewBuffer(1000, s)
		require.NoError(t, err)
		other := stream(t, dev)
		require.NoError(t, b.FillAsync(3, other))
		done, err := other.Done()
		require.NoError(t, err)
		assert.False(t, done, "another stream waits for the allocation")
		close(gate)
		assertBytes(t, bytes.Repeat([]byte{3}, 1000), download(t, b))
		b.Release()
	})
}

func TestPoolAsDeviceAllocates(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		pool := sharedPool(t, dev)
		asDevice := pool.AsDevice()
		assert.Equal(t, dev.String(), asDevice.String())
		b, err := asDevice.Alloc(100)
		require.NoError(t, err)
		assert.Equal(t, arrowbuf.Device(dev), b.Device())
		assert.Same(t, pool, b.(*cudabuf.Buffer).SharedPool())
		b.Release()
		b, err = asDevice.Alloc(-1)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
		assert.Nil(t, b)
	})
}

func TestSharedPoolRefusesBadArguments(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		pool := sharedPool(t, dev)
		_, err := pool.NewBuffer(-1, nil)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
		_, err = pool.NewBuffer(1<<50, nil)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfMemory)
		assert.ErrorIs(t, pool.Trim(-1), arrowbuf.ErrOutOfRange)
		require.NoError(t, pool.Trim(0))
		_, err = dev.Capture(func(s *cudabuf.Stream) error {
			_, err := pool.NewBuffer(10, s)
			return err
		})
		assert.ErrorContains(t, err, "while capturing a graph")
		b, err := pool.NewBuffer(100, nil)
		require.NoError(t, err)
		require.NoError(t, pool.Close())
		require.NoError(t, pool.Close(), "twice")
		_, err = pool.NewBuffer(1, nil)
		assert.ErrorIs(t, err, cudabuf.ErrClosed)
		_, err = pool.ExportFD()
		assert.ErrorIs(t, err, cudabuf.ErrClosed)
		require.NoError(t, b.Fill(1), "buffers outlive the pool")
		b.Release()
	})
}
