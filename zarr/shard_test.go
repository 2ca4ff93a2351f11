package zarr_test

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestShardWriterAcceptsConcurrentChunks(t *testing.T) {
	for _, location := range []codec.Location{codec.End, codec.Start} {
		for name, s := range map[string]store.Store{"memory": store.NewMemory(), "local": store.NewLocal(t.TempDir())} {
			t.Run(fmt.Sprint(name, " ", location), func(t *testing.T) {
				meta := sharded([]int64{32}, []int64{16}, []int64{2})
				shards := meta.Codecs[0].(codec.Sharding)
				shards.IndexLocation = location
				meta.Codecs[0] = shards
				a := create(t, s, "", meta)
				w, err := a.NewShardWriter(ctx, []int64{1})
				require.NoError(t, err)
				var group sync.WaitGroup
				for i := range int64(8) {
					group.Go(func() {
						if i != 3 { // chunk 3 stays missing
							assert.NoError(t, w.WriteChunk(ctx, []int64{i}, values(t, ndview.Int32, []int32{int32(i), 9}, 2)))
						}
					})
				}
				group.Wait()
				assert.Equal(t, []string{"zarr.json"}, keysOf(t, s), "nothing appears before Close")
				require.NoError(t, w.Close(ctx))
				assert.Error(t, w.Close(ctx))
				assert.NoError(t, w.Abort())
				assert.Error(t, w.WriteChunk(ctx, []int64{3}, values(t, ndview.Int32, []int32{1}, 1)))

				v, err := a.ReadChunk(ctx, zarr.Prototype{}, []int64{1})
				require.NoError(t, err)
				assert.Equal(t, []int32{0, 9, 1, 9, 2, 9, 0, 0, 4, 9, 5, 9, 6, 9, 7, 9}, host[int32](t, v.(*ndview.NDBuffer)))
				v, err = a.ReadRows(ctx, zarr.Prototype{}, 15, 20, 1)
				require.NoError(t, err)
				assert.Equal(t, []int32{0, 0, 9, 1, 9}, host[int32](t, v.(*ndview.NDBuffer)))
				require.NoError(t, store.DeleteAll(ctx, s, ""))
			})
		}
	}
}

func TestEmptyAndAbortedShardsAreNotStored(t *testing.T) {
	dir := t.TempDir()
	s := store.NewLocal(dir)
	a := create(t, s, "a", sharded([]int64{4}, []int64{4}, []int64{2}))
	full := values(t, ndview.Int32, []int32{1, 2, 3, 4}, 4)
	empty := values(t, ndview.Int32, []int32{0, 0}, 2)

	w, err := a.NewShardWriter(ctx, []int64{0})
	require.NoError(t, err)
	require.NoError(t, w.WriteChunk(ctx, []int64{0}, values(t, ndview.Int32, []int32{1}, 1)))
	require.NoError(t, w.Abort())
	entries, err := os.ReadDir(dir + "/a/c")
	require.NoError(t, err)
	assert.Empty(t, entries)

	require.NoError(t, a.WriteChunk(ctx, []int64{0}, full))
	assert.Contains(t, keysOf(t, s), "a/c/0")
	w, err = a.NewShardWriter(ctx, []int64{0})
	require.NoError(t, err)
	require.NoError(t, w.WriteChunk(ctx, []int64{0}, empty))
	require.NoError(t, w.WriteChunk(ctx, []int64{1}, values(t, ndview.Int32, []int32{1}, 1)))
	require.NoError(t, w.WriteChunk(ctx, []int64{1}, empty), "written again, now empty")
	require.NoError(t, w.Close(ctx))
	assert.NotContains(t, keysOf(t, s), "a/c/0", "a stale shard is removed")
}

func TestShardRequiresShardedArray(t *testing.T) {
	s := store.NewMemory()
	outer := sharded([]int64{4}, []int64{4}, []int64{2})
	outer.Codecs = append(outer.Codecs, codec.CRC32C{})
	for path, meta := range map[string]*zarr.ArrayMetadata{"plain": ints([]int64{4}, []int64{4}), "outer": outer} {
		_, err := create(t, s, path, meta).NewShardWriter(ctx, []int64{0})
		assert.ErrorIs(t, err, errors.ErrUnsupported)
	}
	a := create(t, s, "a", sharded([]int64{4}, []int64{4}, []int64{2}))
	_, err := a.NewShardWriter(ctx, []int64{-1})
	assert.Error(t, err)
	w, err := a.NewShardWriter(ctx, []int64{0})
	require.NoError(t, err)
	one := values(t, ndview.Int32, []int32{1}, 1)
	for _, index := range [][]int64{{2}, {-1}, {}, {0, 0}} {
		assert.Error(t, w.WriteChunk(ctx, index, one), index)
	}
	assert.Error(t, w.WriteChunk(ctx, []int64{0}, values(t, ndview.Int32, []int32{1, 2, 3}, 3)))
}

func TestShardWriterReportsStoreErrors(t *testing.T) {
	a, err := zarr.New(broken{store.NewMemory()}, "a", sharded([]int64{4}, []int64{4}, []int64{2}))
	require.NoError(t, err)
	w, err := a.NewShardWriter(ctx, []int64{0})
	require.NoError(t, err)
	assert.ErrorIs(t, w.WriteChunk(ctx, []int64{0}, values(t, ndview.Int32, []int32{1}, 1)), errDiskFull)
	assert.ErrorIs(t, w.Close(ctx), errDiskFull)
}
