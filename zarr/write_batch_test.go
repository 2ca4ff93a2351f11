package zarr_test

import (
	"bytes"
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// readAll returns the bytes of an array as the host reads it.
func readAll(t *testing.T, a *zarr.Array) []byte {
	t.Helper()
	v, err := a.Read(t.Context(), zarr.PrototypeOn(arrowbuf.CPU()), 0)
	require.NoError(t, err)
	defer v.Release()
	return bytesOf(t, v)
}

// toDevice returns a copy of values on a device.
func toDevice(t *testing.T, v *ndview.NDBuffer, dev arrowbuf.Device) *ndview.NDBuffer {
	t.Helper()
	moved, err := v.To(dev)
	require.NoError(t, err)
	t.Cleanup(moved.Release)
	return moved
}

// TestDevicesWriteWhatTheHostWrites compares values and keys: the device omits the chunks
// of fill values, too.
func TestDevicesWriteWhatTheHostWrites(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for name, meta := range deviceArrays() {
			t.Run(name, func(t *testing.T) {
				host, device := store.NewMemory(), store.NewMemory()
				want, got := create(t, host, "a", meta), create(t, device, "a", meta)
				v := smoothValues(t, want)
				onDevice := toDevice(t, v, dev)
				require.NoError(t, want.Write(t.Context(), v, 0))
				require.NoError(t, got.Write(t.Context(), onDevice, 0))
				require.Equal(t, keysOf(t, host), keysOf(t, device))
				require.True(t, bytes.Equal(readAll(t, want), readAll(t, got)))

				rows := meta.Shape[0]
				part, err := v.Slice(0, 0, rows/2)
				require.NoError(t, err)
				defer part.Release()
				partOnDevice := toDevice(t, part, dev)
				for a, values := range map[*zarr.Array]*ndview.NDBuffer{want: part, got: partOnDevice} {
					view, err := a.View(zarr.Select(zarr.Span(rows/3, rows/3+rows/2)))
					require.NoError(t, err)
					require.NoError(t, view.Write(t.Context(), values, 0))
				}
				require.True(t, bytes.Equal(readAll(t, want), readAll(t, got)), "a part")
			})
		}
	})
}

// sent returns a closed channel that has chunks.
func sent(chunks ...zarr.ChunkWrite) <-chan zarr.ChunkWrite {
	c := make(chan zarr.ChunkWrite, len(chunks))
	for _, chunk := range chunks {
		c <- chunk
	}
	close(c)
	return c
}

// Chunks of several arrays and shards, some of them on the host, some of fill values and
// some smaller than their chunks.
func TestWriteChunksStoresEachChunkInItsPlace(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		s := store.NewMemory()
		swapped := ints([]int64{1000}, []int64{100})
		swapped.Codecs = codec.List{codec.Bytes{Endian: codec.Big}, codec.Zstd{Level: 1}}
		arrays := []*zarr.Array{
			create(t, s, "zstd", ints([]int64{1000}, []int64{100}, codec.Zstd{Level: 1})),
			create(t, s, "big", swapped),
			create(t, s, "plain", ints([]int64{1000}, []int64{100})),
		}
		inShards := create(t, s, "shards", sharded([]int64{1000}, []int64{1000}, []int64{100}))
		shard, err := inShards.NewShardWriter(t.Context(), []int64{0})
		require.NoError(t, err)
		var chunks []zarr.ChunkWrite
		for i := range int64(10) {
			n := int64(100)
			if i == 9 {
				n = 60
			}
			first, step := int32(100*i), int32(1)
			if i == 4 {
				first, step = 0, 0
			}
			onDevice := counting(t, dev, first, step, n)
			for _, a := range arrays {
				chunks = append(chunks, zarr.ChunkWrite{Array: a, Index: []int64{i}, Values: onDevice})
			}
			chunks = append(chunks, zarr.ChunkWrite{Shard: shard, Index: []int64{i}, Values: onDevice})
		}
		chunks[0].Values = counting(t, arrowbuf.CPU(), 0, 1, 100)
		stored := make([]atomic.Int64, len(chunks))
		for i := range chunks {
			chunks[i].Stored = func(context.Context) error { stored[i].Add(1); return nil }
		}
		require.NoError(t, zarr.WriteChunks(t.Context(), sent(chunks...), 3))
		for i := range stored {
			require.EqualValues(t, 1, stored[i].Load(), "chunk %d", i)
		}
		require.NoError(t, shard.Close(t.Context()))
		want := make([]int32, 1000)
		for i := range want {
			if i/100 != 4 && i < 960 {
				want[i] = int32(i)
			}
		}
		for _, a := range append(arrays, inShards) {
			require.Equal(t, want, readAs(t, a, want), a.Path())
		}
		for _, key := range keysOf(t, s) {
			require.NotContains(t, key, "/c/4")
		}
	})
}

// A program that was killed may have left a part of a chunk. The array has none of its
// elements until it grows, so they are not read.
func TestChunksOutsideTheShapeReplaceWhatIsStored(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for _, meta := range []*zarr.ArrayMetadata{ints([]int64{0}, []int64{4}, codec.Zstd{Level: 1}), sharded([]int64{0}, []int64{4}, []int64{2})} {
			for _, stored := range [][]byte{{}, {1}, make([]byte, 100)} {
				s := store.NewMemory()
				a := create(t, s, "a", meta)
				require.NoError(t, s.Set(t.Context(), "a/c/0", stored))
				require.NoError(t, s.Set(t.Context(), "a/c/1", stored))
				chunk := zarr.ChunkWrite{Array: a, Index: []int64{0}, Values: counting(t, dev, 1, 1, 3)}
				require.NoError(t, zarr.WriteChunks(t.Context(), sent(chunk), 1))
				require.NoError(t, a.WriteChunk(t.Context(), []int64{1}, counting(t, arrowbuf.CPU(), 5, 1, 3)))
				require.NoError(t, a.Resize(t.Context(), 8))
				require.Equal(t, []int32{1, 2, 3, 0, 5, 6, 7, 0}, readAs(t, a, []int32{}))
			}
		}
	})
}

func TestWriteChunksNamesTheChunkThatIsWrong(t *testing.T) {
	dev := cudatest.NewDevice(t)
	a := create(t, store.NewMemory(), "a", ints([]int64{100}, []int64{10}, codec.Zstd{Level: 1}))
	good := zarr.ChunkWrite{Array: a, Index: []int64{0}, Values: counting(t, dev, 0, 1, 10)}
	for want, bad := range map[string]zarr.ChunkWrite{
		`chunk 1: nil array`: {},
		`chunk 1: array "a": chunk [1 2] has 2 indices, want 1`:                {Array: a, Index: []int64{1, 2}, Values: good.Values},
		`array "a": chunk [1]: values of shape [11] are larger than`:           {Array: a, Index: []int64{1}, Values: counting(t, dev, 0, 1, 11)},
		`array "a": chunk [1]: values of shape [2 5] do not fit chunk shape [`: {Array: a, Index: []int64{1}, Values: counting(t, dev, 0, 1, 2, 5)},
	} {
		assert.ErrorContains(t, zarr.WriteChunks(t.Context(), sent(good, bad), 1), want)
	}
}

// A writer that waits for memory of the chunks before must not wait for ever.
func TestChunksAreStoredThoughTheirBatchIsNotComplete(t *testing.T) {
	dev := cudatest.NewDevice(t)
	a := create(t, store.NewMemory(), "a", ints([]int64{1000}, []int64{100}, codec.Zstd{Level: 1}))
	chunks, stored := make(chan zarr.ChunkWrite), make(chan struct{})
	done := make(chan error, 1)
	go func() { done <- zarr.WriteChunks(t.Context(), chunks, 2) }()
	for i := range int64(10) {
		chunks <- zarr.ChunkWrite{Array: a, Index: []int64{i}, Values: counting(t, dev, int32(100*i), 1, 100), Stored: func(context.Context) error { stored <- struct{}{}; return nil }}
		<-stored
	}
	close(chunks)
	require.NoError(t, <-done)
}

func TestTheErrorOfAStoredChunkEndsTheWrite(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		a := create(t, store.NewMemory(), "a", ints([]int64{1000}, []int64{100}, codec.Zstd{Level: 1}))
		chunks := make(chan zarr.ChunkWrite, 1) // stays open
		chunks <- zarr.ChunkWrite{Array: a, Index: []int64{0}, Values: counting(t, dev, 0, 1, 100), Stored: func(context.Context) error { return errDiskFull }}
		require.ErrorIs(t, zarr.WriteChunks(t.Context(), chunks, 2), errDiskFull)
	})
}

// A device that fails while it writes leaves what is stored, and loses no memory.
func TestAFailedWriteFromADeviceLeavesTheShardsBefore(t *testing.T) {
	for _, call := range []string{"MemcpyDtoH", "LaunchKernel", "MemAlloc"} {
		var failing atomic.Bool
		drv := cudatest.Start(t, cudatest.Config{Fail: func(name string, _ int) cudabuf.Result {
			if failing.Load() && strings.Contains(name, call) {
				return 2 // CUDA_ERROR_OUT_OF_MEMORY
			}
			return 0
		}})
		dev, err := drv.Device(0)
		require.NoError(t, err)
		meta := sharded([]int64{1000, 700}, []int64{500, 700}, []int64{100, 700})
		meta.Codecs = codec.List{codec.Sharding{ChunkShape: []int64{100, 700}, Codecs: codec.List{codec.Bytes{Endian: codec.Big}}}}
		memory := store.NewMemory()
		a := create(t, memory, "a", meta)
		require.NoError(t, a.Write(t.Context(), toDevice(t, counting(t, arrowbuf.CPU(), 0, 1, 1000, 700), dev), 0))
		keys, before := keysOf(t, memory), readAll(t, a)
		next := toDevice(t, counting(t, arrowbuf.CPU(), 7, 1, 1000, 700), dev)
		failing.Store(true)
		require.Error(t, a.Write(t.Context(), next, 0), call)
		failing.Store(false)
		require.Equal(t, keys, keysOf(t, memory))
		require.True(t, bytes.Equal(before, readAll(t, a)))
	}
}

// full fails to store every value, but begins each.
type full struct{ store.Store }

func (full) Set(context.Context, string, []byte) error            { return errDiskFull }
func (full) Create(context.Context, string) (store.Writer, error) { return fullWriter{}, nil }

type fullWriter struct{ store.Writer }

func (fullWriter) Write([]byte) (int, error) { return 0, errDiskFull }
func (fullWriter) Commit() error             { return errDiskFull }
func (fullWriter) Abort() error              { return nil }

// No further shards are begun.
func TestAStoreThatFailsEndsTheWriteOfShardsFromADevice(t *testing.T) {
	zarr.UseSmallBatches(t, 64<<10)
	dev := cudatest.NewDevice(t)
	const n = 1 << 20 // elements: 4 MiB in 64 shards
	meta := ints([]int64{n}, []int64{n / 64})
	meta.Codecs = codec.List{codec.Sharding{ChunkShape: []int64{n / 256}, Codecs: codec.List{codec.Bytes{Endian: codec.Little}, codec.Zstd{Level: 1}}}}
	a, err := zarr.New(full{store.NewMemory()}, "a", meta)
	require.NoError(t, err)
	v := toDevice(t, counting(t, arrowbuf.CPU(), 1, 3, n), dev)
	require.ErrorIs(t, a.Write(t.Context(), v, 1), errDiskFull)
}

// The memory of a device limits how large a batch is, not how large an array is: here it
// has 5 times the memory that the batches leave.
func TestWritingAndReadingLargeArraysNeedsTheMemoryOfBatches(t *testing.T) {
	zarr.UseSmallBatches(t, 256<<10)
	const n = 4 << 20 // elements: 16 MiB
	for name, list := range map[string]codec.List{
		"chunks": {codec.Bytes{Endian: codec.Little}, codec.Zstd{Level: 1}},
		"shards": {codec.Sharding{ChunkShape: []int64{16 << 10}, Codecs: codec.List{codec.Bytes{Endian: codec.Little}, codec.LZ4{}, codec.CRC32C{}}}},
	} {
		drv := cudatest.Start(t, cudatest.Config{MemoryBytes: n*4 + 12<<20})
		dev, err := drv.Device(0)
		require.NoError(t, err)
		meta := ints([]int64{n}, []int64{64 << 10})
		meta.Codecs = list
		a := create(t, store.NewMemory(), "a", meta)
		v := counting(t, arrowbuf.CPU(), 1, 3, n)
		onDevice, err := v.To(dev)
		require.NoError(t, err)
		require.NoError(t, a.Write(t.Context(), onDevice, 2), name)
		onDevice.Release()
		require.True(t, bytes.Equal(bytesOf(t, v), readAll(t, a)))
		back, err := a.Read(t.Context(), zarr.PrototypeOn(dev), 2)
		require.NoError(t, err, name)
		require.True(t, bytes.Equal(bytesOf(t, v), bytesOf(t, back)))
		back.Release()
	}
}
