package zarr_test

import (
	"math/rand/v2"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestShardIndicesAreReadOnce(t *testing.T) {
	s := &counter{Store: store.NewMemory()}
	s.reset()
	a := create(t, s, "a", sharded([]int64{100_000}, []int64{50_000}, []int64{100}))
	require.NoError(t, a.Write(ctx, counting(t, arrowbuf.CPU(), 0, 1, 100_000), 2))
	random := rand.New(rand.NewPCG(1, 2))
	s.reset()
	reads := 10_000
	if testing.Short() {
		reads = 1000
	}
	for range reads {
		start := random.Int64N(100_000 - 100)
		v, err := a.Get(ctx, zarr.Select(zarr.Span(start, start+100)), zarr.Prototype{}, 1)
		require.NoError(t, err)
		got := host[int32](t, v.(*ndview.NDBuffer))
		require.Equal(t, []int32{int32(start), int32(start + 99)}, []int32{got[0], got[99]})
		v.Release()
	}
	// Each read takes one range of one shard, or one of both.
	requests := s.gets["a/c/0"] + s.gets["a/c/1"]
	assert.Less(t, requests, reads+reads/100+2)
	assert.Less(t, s.size, int64(2*reads*400+20_000), "at most two chunks of 400 bytes, and each index once")
}

func TestNearbyChunksOfAShardAreOneRequest(t *testing.T) {
	s := &counter{Store: store.NewMemory()}
	s.reset()
	a := create(t, s, "a", sharded([]int64{1000}, []int64{1000}, []int64{10}))
	require.NoError(t, a.Write(ctx, counting(t, arrowbuf.CPU(), 0, 1, 1000), 1))
	s.reset()
	v, err := a.Get(ctx, zarr.Select(zarr.SpanStep(0, 1000, 30)), zarr.Prototype{}, 1)
	require.NoError(t, err)
	v.Release()
	assert.Equal(t, map[string]int{"a/c/0": 2}, s.gets, "the index and the chunks")
}

func TestWritesInvalidateCachedShardIndices(t *testing.T) {
	for _, location := range []codec.Location{codec.End, codec.Start} {
		s := store.NewMemory()
		meta := sharded([]int64{64}, []int64{32}, []int64{4})
		shards := meta.Codecs[0].(codec.Sharding)
		shards.IndexLocation, shards.Codecs = location, append(shards.Codecs, codec.CRC32C{})
		meta.Codecs[0] = shards
		a := create(t, s, "a", meta)
		part := zarr.Select(zarr.Span(3, 11))
		read := func(a *zarr.Array) []int32 {
			v, err := a.Get(ctx, part, zarr.Prototype{}, 1)
			require.NoError(t, err)
			defer v.Release()
			return host[int32](t, v.(*ndview.NDBuffer))
		}
		assert.Equal(t, make([]int32, 8), read(a), "not stored")
		require.NoError(t, a.Write(ctx, oneTo(t, 64), 1))
		assert.Equal(t, []int32{4, 5, 6, 7, 8, 9, 10, 11}, read(a))
		require.NoError(t, a.Set(ctx, zarr.Select(zarr.Span(0, 8)), 0, 1))
		assert.Equal(t, []int32{0, 0, 0, 0, 0, 9, 10, 11}, read(a), "two chunks are gone")
		b, err := zarr.Open(ctx, s, "a")
		require.NoError(t, err)

		// Another Array replaces the shard.
		require.NoError(t, b.Set(ctx, zarr.Select(zarr.Span(0, 8)), 7, 1))
		a.DropCache()
		assert.Equal(t, []int32{7, 7, 7, 7, 7, 9, 10, 11}, read(a))
		raw, err := s.Get(ctx, "a/c/0", store.Range{})
		require.NoError(t, err)
		require.NoError(t, s.Set(ctx, "a/c/0", raw[:30]))
		_, err = a.Get(ctx, part, zarr.Prototype{}, 1)
		assert.ErrorContains(t, err, "index", "the index is read again before it fails")
		require.NoError(t, b.Set(ctx, zarr.Selection{}, 0, 1))
		assert.Equal(t, make([]int32, 8), read(a), "the shard is gone")
	}
}

func TestPartialShardWritesKeepOtherChunksAsTheyAre(t *testing.T) {
	s := &counter{Store: store.NewMemory()}
	s.reset()
	a := create(t, s, "a", sharded([]int64{6, 8}, []int64{4, 8}, []int64{2, 2}))
	whole := counting(t, arrowbuf.CPU(), 1, 1, 6, 8)
	require.NoError(t, a.Write(ctx, whole, 1))
	want := host[int32](t, whole)
	for _, at := range [][2]int64{{0, 0}, {3, 7}, {5, 1}, {4, 4}} {
		require.NoError(t, a.Set(ctx, zarr.Select(zarr.At(at[0]), zarr.At(at[1])), -1, 2))
		want[at[0]*8+at[1]] = -1
	}
	assert.Equal(t, want, readInts(t, a))
	s.reset()
	require.NoError(t, a.Set(ctx, zarr.Select(zarr.Span(4, 6)), 0, 1))
	assert.Empty(t, s.gets, "a whole shard, clipped to the array, is not read")
	assert.Equal(t, []string{"a/c/0/0", "a/zarr.json", "zarr.json"}, keysOf(t, s))
}

func TestDamagedShardsAreErrorsOfPartialWrites(t *testing.T) {
	s := store.NewMemory()
	a := create(t, s, "a", sharded([]int64{8}, []int64{8}, []int64{2}))
	require.NoError(t, a.Write(ctx, oneTo(t, 8), 1))
	shard, err := s.Get(ctx, "a/c/0", store.Range{})
	require.NoError(t, err)
	for _, bad := range [][]byte{{}, shard[:10], shard[:40], append(shard[:len(shard)-1:len(shard)-1], shard[len(shard)-1]^1)} {
		require.NoError(t, s.Set(ctx, "a/c/0", bad))
		assert.Error(t, a.Set(ctx, zarr.Select(zarr.At(7)), 1, 1))
		kept, err := s.Get(ctx, "a/c/0", store.Range{})
		require.NoError(t, err)
		assert.Equal(t, bad, append([]byte{}, kept...), "a shard that cannot be read is not replaced")
	}
}
