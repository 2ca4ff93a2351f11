package zarr_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rangeCounter counts reads of ranges.
type rangeCounter struct {
	*store.Local
	mu          sync.Mutex
	reads, size int64
}

func (c *rangeCounter) ReadRange(ctx context.Context, key string, r store.Range, dst []byte) (store.Part, error) {
	part, err := c.Local.ReadRange(ctx, key, r, dst)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads, c.size = c.reads+1, c.size+int64(len(part.Data))
	return part, err
}

// age makes all files older than the coarsest clock, so that they have versions.
func age(t *testing.T, s *store.Local, when time.Time) {
	t.Helper()
	keys, err := s.List(ctx, "")
	require.NoError(t, err)
	for _, key := range keys {
		require.NoError(t, os.Chtimes(filepath.Join(s.Root(), filepath.FromSlash(key)), when, when))
	}
}

func TestShardIndicesAreReadOnce(t *testing.T) {
	s := &rangeCounter{Local: store.NewLocal(t.TempDir())}
	a := create(t, s, "a", sharded([]int64{100_000}, []int64{50_000}, []int64{100}))
	require.NoError(t, a.Write(ctx, counting(t, arrowbuf.CPU(), 0, 1, 100_000), 2))
	age(t, s.Local, time.Now().Add(-time.Hour))
	random := rand.New(rand.NewPCG(1, 2))
	s.reads, s.size = 0, 0
	reads := int64(10_000)
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
	assert.LessOrEqual(t, s.reads, 2*reads+2, "parts of at most two chunks, and each index once")
	assert.Equal(t, 400*reads+2*(16*500+4), s.size, "no element is read that is not asked for")
}

// replaceShard writes the only shard of array "a" as another program: chunks of two elements in an
// order, which count from add on.
func replaceShard(t *testing.T, s store.Store, order []int64, add int32) {
	t.Helper()
	a, err := zarr.Open(ctx, s, "a")
	require.NoError(t, err)
	w, err := a.NewShardWriter(ctx, []int64{0})
	require.NoError(t, err)
	for _, i := range order {
		require.NoError(t, w.WriteChunk(ctx, []int64{i}, counting(t, arrowbuf.CPU(), add+2*int32(i), 1, 2)))
	}
	require.NoError(t, w.Close(ctx))
}

// A program that replaces a shard must not lead to wrong elements, whatever the store can
// say of versions.
func TestShardsThatAnotherProgramReplacesAreReadRight(t *testing.T) {
	fresh, old := store.NewLocal(t.TempDir()), store.NewLocal(t.TempDir())
	cached := store.NewLocal(t.TempDir())
	for name, s := range map[string]store.Store{"fresh files": fresh, "old files": old, "cached chunks": cached, "memory": store.NewMemory(), "versions": &versioned{Store: store.NewMemory()}} {
		t.Run(name, func(t *testing.T) {
			times := 0
			touch := func() {
				if s == old || s == cached {
					times++
					age(t, s.(*store.Local), time.Now().Add(time.Duration(times-100)*time.Minute))
				}
			}
			meta := sharded([]int64{8}, []int64{8}, []int64{2})
			if s == cached {
				shards := meta.Codecs[0].(codec.Sharding)
				shards.Codecs = append(shards.Codecs, codec.Zstd{Level: 1})
				meta.Codecs[0] = shards
			}
			a := create(t, s, "a", meta)
			if s == cached {
				a.ChunkCache = 1000
			}
			read := func(selected zarr.Selection) []int32 {
				v, err := a.Get(ctx, selected, zarr.Prototype{}, 1)
				require.NoError(t, err)
				defer v.Release()
				return host[int32](t, v.(*ndview.NDBuffer))
			}
			// The same chunks in another order: a stale index points to others.
			write := func(order []int64, add int32) {
				replaceShard(t, s, order, add)
				touch()
			}
			span, list := zarr.Select(zarr.Span(2, 5)), zarr.Select(zarr.List(6, 3, 1))
			for range 3 {
				write([]int64{0, 1, 2, 3}, 100)
				assert.Equal(t, []int32{102, 103, 104}, read(span))
				assert.Equal(t, []int32{106, 103, 101}, read(list))
				write([]int64{3, 2, 1, 0}, 200)
				assert.Equal(t, []int32{202, 203, 204}, read(span))
				write([]int64{2, 1, 3, 0}, 300)
				assert.Equal(t, []int32{306, 303, 301}, read(list))
				write([]int64{0}, 400)
				assert.Equal(t, []int32{0, 0, 0}, read(span), "the chunks are gone")
				write([]int64{1, 2, 3, 0}, 500)
				assert.Equal(t, []int32{502, 503, 504}, read(span), "the chunks appear")
				require.NoError(t, s.Delete(ctx, "a/c/0"))
				assert.Equal(t, []int32{0, 0, 0}, read(list), "the shard is gone")
			}
		})
	}
}

func TestCachedChunksAreReadOnce(t *testing.T) {
	s := &rangeCounter{Local: store.NewLocal(t.TempDir())}
	meta := sharded([]int64{1000}, []int64{500}, []int64{100})
	shards := meta.Codecs[0].(codec.Sharding)
	shards.Codecs = append(shards.Codecs, codec.Zstd{Level: 1})
	meta.Codecs[0] = shards
	a := create(t, s, "a", meta)
	require.NoError(t, a.Write(ctx, counting(t, arrowbuf.CPU(), 0, 1, 1000), 2))
	age(t, s.Local, time.Now().Add(-time.Hour))
	read := func() {
		for start := int64(0); start < 1000; start += 25 {
			v, err := a.Get(ctx, zarr.Select(zarr.Span(start, start+10)), zarr.Prototype{}, 1)
			require.NoError(t, err)
			got := host[int32](t, v.(*ndview.NDBuffer))
			require.Equal(t, []int32{int32(start), int32(start + 9)}, []int32{got[0], got[9]})
			v.Release()
		}
	}
	a.ChunkCache = 10_000
	read()
	s.size = 0
	read()
	assert.Zero(t, s.size, "all chunks are cached")
	a.DropCache()
	a.ChunkCache = 1000 // two chunks
	read()
	s.size = 0
	read()
	assert.NotZero(t, s.size, "the limit")
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

// versioned is a store of round trips whose reads say which version they saw.
type versioned struct {
	store.Store
	requests int
	replace  func() // before the second request, if not nil
}

func (v *versioned) GetRangesVersion(ctx context.Context, key string, ranges []store.Range) ([][]byte, string, error) {
	if v.requests++; v.requests == 2 && v.replace != nil {
		v.replace()
	}
	whole, err := v.Get(ctx, key, store.Range{})
	if err != nil {
		return nil, "", err
	}
	values := make([][]byte, len(ranges))
	for i, r := range ranges {
		start, end, err := r.Resolve(int64(len(whole)))
		if err != nil {
			return nil, "", err
		}
		values[i] = whole[start:end]
	}
	return values, string(whole), nil
}

func TestAReadOfAShardTakesOneRequestWhereReadsHaveVersions(t *testing.T) {
	s := &versioned{Store: store.NewMemory()}
	under, err := store.Under(store.ReadOnly(s), "a")
	require.NoError(t, err)
	meta := sharded([]int64{1000}, []int64{500}, []int64{10})
	require.NoError(t, create(t, s, "a", meta).Write(ctx, counting(t, arrowbuf.CPU(), 0, 1, 1000), 1))
	a, err := zarr.Open(ctx, under, "")
	require.NoError(t, err)
	read := func(start int64) {
		v, err := a.Get(ctx, zarr.Select(zarr.Span(start, start+20)), zarr.Prototype{}, 1)
		require.NoError(t, err)
		assert.Equal(t, int32(start), host[int32](t, v.(*ndview.NDBuffer))[0])
		v.Release()
	}
	read(0)
	read(500)
	s.requests = 0
	for start := int64(0); start < 1000; start += 50 {
		read(start)
	}
	assert.Equal(t, 20, s.requests)
	b, err := zarr.Open(ctx, s, "a") // another program
	require.NoError(t, err)
	require.NoError(t, b.Set(ctx, zarr.Select(zarr.Span(0, 10)), counting(t, arrowbuf.CPU(), 5000, 1, 10), 1))
	s.requests = 0
	read(50)
	assert.Equal(t, 2, s.requests, "the index is compared after another version was seen")
	read(50)
	assert.Equal(t, 3, s.requests)
}

func TestAShardThatIsReplacedAfterItsIndexWasFirstReadIsReadAgain(t *testing.T) {
	s := &versioned{Store: store.NewMemory()}
	a := create(t, s, "a", sharded([]int64{8}, []int64{8}, []int64{2}))
	replaceShard(t, s.Store, []int64{0, 1, 2, 3}, 100)
	s.requests, s.replace = 0, func() { replaceShard(t, s.Store, []int64{3, 2, 1, 0}, 200) }
	v, err := a.Get(ctx, zarr.Select(zarr.Span(2, 5)), zarr.Prototype{}, 1)
	require.NoError(t, err)
	defer v.Release()
	assert.Equal(t, []int32{202, 203, 204}, host[int32](t, v.(*ndview.NDBuffer)))
	assert.Equal(t, 5, s.requests, "the index, chunks, an index that differs, and both again")
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
