package zarr_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestChunksAreWritableBeforeShapeIsKnown(t *testing.T) {
	s := store.NewMemory()
	a, err := zarr.New(s, "a", ints([]int64{0}, []int64{2}))
	require.NoError(t, err)
	for i := range int64(3) {
		require.NoError(t, a.WriteChunk(ctx, []int64{i}, values(t, ndview.Int32, []int32{int32(i), 7}, 2)))
	}
	_, err = zarr.Open(ctx, s, "a")
	assert.ErrorIs(t, err, store.ErrNotFound)
	assert.Error(t, a.Resize(ctx, 1, 2), "the number of axes must not change")
	assert.Error(t, a.Resize(ctx, -1))
	require.NoError(t, a.Resize(ctx, 5))
	require.NoError(t, a.SetAttributes(ctx, map[string]any{"z": 1, "a": []string{"<b>"}}))
	b, err := zarr.Open(ctx, s, "a")
	require.NoError(t, err)
	assert.Equal(t, []int64{5}, b.Metadata().Shape)
	v, err := b.Read(ctx, zarr.Prototype{}, 1)
	require.NoError(t, err)
	assert.Equal(t, []int32{0, 7, 1, 7, 2}, host[int32](t, v.(*ndview.NDBuffer)))
}

func TestChunkIndicesOutsideAnyGridAreErrors(t *testing.T) {
	s := store.NewMemory()
	require.NoError(t, s.Set(t.Context(), "zarr.json", []byte(`{"zarr_format":3,"node_type":"array","shape":[16],"data_type":"uint8","chunk_grid":{"name":"regular","configuration":{"chunk_shape":[8]}},
		"chunk_key_encoding":{"name":"default"},"fill_value":0,"codecs":[{"name":"bytes"}],"attributes":{}}`)))
	a, err := zarr.Open(t.Context(), s, "")
	require.NoError(t, err)
	for _, index := range []int64{-1, 1 << 61, 1<<63 - 1} {
		_, err := a.ReadChunk(t.Context(), zarr.Prototype{}, []int64{index})
		assert.ErrorContains(t, err, "outside any grid")
	}
}

func TestResizeDeletesChunksOutside(t *testing.T) {
	for name, meta := range map[string]*zarr.ArrayMetadata{
		"chunks":         ints([]int64{8}, []int64{2}),
		"shards":         sharded([]int64{8}, []int64{2}, []int64{1}),
		"v2 chunk names": {Shape: []int64{8}, ChunkShape: []int64{2}, DataType: element.Of(ndview.Int32), ChunkKeyEncoding: zarr.ChunkKeyEncoding{V2: true}},
	} {
		t.Run(name, func(t *testing.T) {
			s := store.NewMemory()
			a := create(t, s, "a", meta)
			require.NoError(t, a.Write(ctx, oneTo(t, 8), 1))
			require.NoError(t, a.Resize(ctx, 3))
			assert.Equal(t, []int32{1, 2, 3}, readInts(t, a))
			assert.Len(t, keysOf(t, s), 4, "two chunks and two documents")
			require.NoError(t, a.Resize(ctx, 8))
			assert.Equal(t, []int32{1, 2, 3, 4, 0, 0, 0, 0}, readInts(t, a), "as in zarr-python")
			b, err := zarr.Open(ctx, s, "a")
			require.NoError(t, err)
			assert.Equal(t, []int64{8}, b.Shape())
		})
	}
}

func TestResizeOfManyChunksDeletesTheStoredOnes(t *testing.T) {
	for _, path := range []string{"", "a"} {
		s := store.NewMemory()
		a := create(t, s, path, ints([]int64{1 << 40, 1 << 30}, []int64{2, 2}))
		one := values(t, ndview.Int32, []int32{7, 7, 7, 7}, 2, 2)
		for _, index := range [][]int64{{0, 0}, {1, 5}, {1 << 38, 3}, {0, 1 << 28}} {
			require.NoError(t, a.WriteChunk(ctx, index, one))
		}
		require.NoError(t, a.Resize(ctx, 4, 12))
		var chunks []string
		for _, key := range keysOf(t, s) {
			if !strings.HasSuffix(key, "zarr.json") {
				chunks = append(chunks, strings.TrimPrefix(key, "a/"))
			}
		}
		assert.Equal(t, []string{"c/0/0", "c/1/5"}, chunks)
	}
}

// deleting fails every Delete.
type deleting struct{ store.Store }

func (deleting) Delete(context.Context, string) error { return errDiskFull }

func TestFailedResizeKeepsTheShape(t *testing.T) {
	s := store.NewMemory()
	create(t, s, "a", ints([]int64{8}, []int64{2}))
	a, err := zarr.Open(ctx, deleting{s}, "a")
	require.NoError(t, err)
	assert.ErrorIs(t, a.Resize(ctx, 3), errDiskFull)
	assert.Equal(t, []int64{8}, a.Shape())
}

func TestAppendGrowsAnAxis(t *testing.T) {
	for _, meta := range []*zarr.ArrayMetadata{ints([]int64{2, 3}, []int64{2, 2}), sharded([]int64{2, 3}, []int64{4, 2}, []int64{2, 1})} {
		s := store.NewMemory()
		a := create(t, s, "a", meta)
		require.NoError(t, a.Write(ctx, values(t, ndview.Int32, []int32{1, 2, 3, 4, 5, 6}, 2, 3), 1))
		shape, err := a.Append(ctx, values(t, ndview.Int32, []int32{7, 8, 9}, 1, 3), 0, 1)
		require.NoError(t, err)
		assert.Equal(t, []int64{3, 3}, shape)
		shape, err = a.Append(ctx, values(t, ndview.Int32, []int32{10, 11, 12}, 3, 1), 1, 1)
		require.NoError(t, err)
		assert.Equal(t, []int64{3, 4}, shape)
		assert.Equal(t, []int32{1, 2, 3, 10, 4, 5, 6, 11, 7, 8, 9, 12}, readInts(t, a))

		for _, bad := range []*ndview.NDBuffer{oneTo(t, 3), values(t, ndview.Int32, []int32{1, 2}, 1, 2), values(t, ndview.Int16, []int16{1, 2, 3, 4}, 1, 4)} {
			_, err := a.Append(ctx, bad, 0, 1)
			assert.Error(t, err)
		}
		_, err = a.Append(ctx, oneTo(t, 3), 2, 1)
		assert.Error(t, err)
		assert.Equal(t, []int64{3, 4}, a.Shape(), "values are checked before the array grows")
	}
}

func TestPartialWriteChunkKeepsTheRest(t *testing.T) {
	for _, meta := range []*zarr.ArrayMetadata{ints([]int64{5}, []int64{4}), sharded([]int64{5}, []int64{4}, []int64{2})} {
		a := create(t, store.NewMemory(), "a", meta)
		require.NoError(t, a.Write(ctx, oneTo(t, 5), 1))
		require.NoError(t, a.WriteChunk(ctx, []int64{0}, values(t, ndview.Int32, []int32{9}, 1)))
		require.NoError(t, a.WriteChunk(ctx, []int64{1}, values(t, ndview.Int32, []int32{8}, 1)))
		assert.Equal(t, []int32{9, 2, 3, 4, 8}, readInts(t, a))
		require.NoError(t, a.WriteChunk(ctx, []int64{2}, values(t, ndview.Int32, []int32{7}, 1)), "outside the shape")
		require.NoError(t, a.WriteChunk(ctx, []int64{2}, values(t, ndview.Int32, []int32{6}, 1)))
		assert.Error(t, a.WriteChunk(ctx, []int64{0}, oneTo(t, 5)))
		assert.Error(t, a.WriteChunk(ctx, []int64{-1}, oneTo(t, 1)))
	}
}

func TestConcurrentWritersOfOneChunkLoseNothing(t *testing.T) {
	for _, meta := range []*zarr.ArrayMetadata{ints([]int64{64}, []int64{64}), sharded([]int64{64}, []int64{64}, []int64{16})} {
		a := create(t, store.NewMemory(), "a", meta)
		var group sync.WaitGroup
		for i := range int64(64) {
			group.Go(func() {
				assert.NoError(t, a.Set(ctx, zarr.Select(zarr.At(i)), int32(i+1), 1))
			})
			group.Go(func() {
				_, err := a.Get(ctx, zarr.Select(zarr.SpanStep(i, ndview.Open, 3)), zarr.Prototype{}, 1)
				assert.NoError(t, err)
			})
		}
		group.Wait()
		assert.Equal(t, host[int32](t, oneTo(t, 64)), readInts(t, a))
	}
}

func TestWaitingForAChunkEndsWithTheContext(t *testing.T) {
	slow := &blocking{Store: store.NewMemory(), entered: make(chan struct{}), leave: make(chan struct{})}
	a, err := zarr.New(slow, "a", ints([]int64{4}, []int64{4}))
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- a.Write(ctx, oneTo(t, 4), 1) }()
	<-slow.entered
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, a.Write(short, oneTo(t, 4), 1), context.DeadlineExceeded)
	close(slow.leave)
	require.NoError(t, <-done)
}

// blocking waits in Set.
type blocking struct {
	store.Store
	entered, leave chan struct{}
}

func (b *blocking) Set(ctx context.Context, key string, value []byte) error {
	b.entered <- struct{}{}
	<-b.leave
	return b.Store.Set(ctx, key, value)
}

// A store may take seconds to write a shard. Chunks and shards wait for no others: neither
// writers, nor readers for the writer of another shard.
func TestChunksAreStoredAtTheSameTime(t *testing.T) {
	const writers = 100
	for name, meta := range map[string]*zarr.ArrayMetadata{
		"chunks": ints([]int64{2 * writers}, []int64{1}),
		"shards": sharded([]int64{4 * writers}, []int64{2}, []int64{1}),
	} {
		t.Run(name, func(t *testing.T) {
			slow := &blocking{Store: store.NewMemory(), entered: make(chan struct{}, writers), leave: make(chan struct{})}
			create(t, slow.Store, "a", meta)
			a, err := zarr.Open(ctx, slow, "a")
			require.NoError(t, err)
			half := a.Shape()[0] / 2
			done := make(chan error, 1)
			go func() {
				done <- a.Set(ctx, zarr.Select(zarr.Span(0, half)), oneTo(t, int(half)), writers)
			}()
			limit := time.After(20 * time.Second)
			for i := range writers {
				select {
				case <-slow.entered:
				case <-limit:
					close(slow.leave)
					t.Fatalf("%d of %d writers reached the store", i, writers)
				}
			}
			got, err := a.Get(ctx, zarr.Select(zarr.Span(half, ndview.Open)), zarr.Prototype{}, 1)
			require.NoError(t, err)
			assert.Equal(t, make([]int32, half), host[int32](t, got.(*ndview.NDBuffer)))
			close(slow.leave)
			require.NoError(t, <-done)
		})
	}
}

// meeting is a store whose reads take a round trip: each call waits until there are 32.
type meeting struct {
	store.Store
	together atomic.Pointer[sync.WaitGroup]
}

// begin makes the next 32 calls wait for one another, for at most 20 s.
func (m *meeting) begin() {
	var all sync.WaitGroup
	all.Add(32)
	m.together.Store(&all)
}

func (m *meeting) meet() error {
	all := m.together.Load()
	if all == nil {
		return nil
	}
	met := make(chan struct{})
	go func() { all.Wait(); close(met) }()
	all.Done()
	select {
	case <-met:
		return nil
	case <-time.After(20 * time.Second):
		return errors.New("fewer than 32 calls at once")
	}
}

func (m *meeting) Get(ctx context.Context, key string, r store.Range) ([]byte, error) {
	if err := m.meet(); err != nil {
		return nil, err
	}
	return m.Store.Get(ctx, key, r)
}

func (m *meeting) Set(ctx context.Context, key string, value []byte) error {
	if err := m.meet(); err != nil {
		return err
	}
	return m.Store.Set(ctx, key, value)
}

func TestRoundTripsAreMadeAtTheSameTime(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		const n = 32 << 15 // what a GPU decodes
		s := &meeting{Store: store.NewMemory()}
		a, err := zarr.Create(ctx, s, "a", ints([]int64{n}, []int64{n / 32}, codec.Zstd{}))
		require.NoError(t, err)
		v := counting(t, dev, 1, 1, n)
		s.begin()
		require.NoError(t, a.Write(ctx, v, 0))
		s.begin()
		got, err := a.Read(ctx, zarr.PrototypeOn(dev), 0)
		require.NoError(t, err)
		defer got.Release()
		want := host[int32](t, v)
		assert.True(t, slices.Equal(want, host[int32](t, got.(*ndview.NDBuffer))))
		s.begin()
		part, err := a.Get(ctx, zarr.Select(zarr.SpanStep(0, ndview.Open, 2)), zarr.PrototypeOn(dev), 0)
		require.NoError(t, err)
		defer part.Release()
		assert.Equal(t, want[2], host[int32](t, part.(*ndview.NDBuffer))[1])
	})
}

func TestGoroutinesDependOnTheStoreAndTheChunks(t *testing.T) {
	busy := runtime.GOMAXPROCS(0) + 2
	remote := func(s store.Store) store.Store { return struct{ store.Store }{s} }
	for _, tt := range []struct {
		meta  *zarr.ArrayMetadata
		bytes int64 // that are read
		want  int
	}{
		{ints([]int64{1 << 40}, []int64{1 << 18}), math.MaxInt64, 64},
		{ints([]int64{1 << 40}, []int64{1 << 22}), 100, max(busy, 32)},
		{ints([]int64{1 << 40}, []int64{1 << 23}), math.MaxInt64, max(busy, 16)},
		{ints([]int64{1 << 40}, []int64{1 << 30}), 100, busy},
		{sharded([]int64{1 << 40}, []int64{1 << 23}, []int64{1 << 10}), math.MaxInt64, max(busy, 16)},
		{sharded([]int64{1 << 40}, []int64{1 << 30}, []int64{1 << 18}), 100, 64}, // one chunk of each shard
		{sharded([]int64{1 << 40}, []int64{1 << 30}, []int64{1 << 26}), 100, busy},
		{ints(nil, nil), math.MaxInt64, 64},
	} {
		a, err := zarr.New(remote(store.NewMemory()), "a", tt.meta)
		require.NoError(t, err)
		assert.Equal(t, max(tt.want, busy), a.Goroutines(0, tt.bytes), "%v", tt.meta.ChunkShape)
		assert.Equal(t, 3, a.Goroutines(3, tt.bytes))
		a, err = zarr.New(store.NewMemory(), "a", tt.meta)
		require.NoError(t, err)
		assert.Equal(t, busy, a.Goroutines(0, tt.bytes))
	}
}

func TestInfoCountsWhatIsStored(t *testing.T) {
	s := store.NewMemory()
	a := create(t, s, "a", ints([]int64{4, 6}, []int64{2, 4}))
	require.NoError(t, a.Set(ctx, zarr.Select(zarr.Span(0, 2)), 1, 1))
	require.NoError(t, a.WriteChunk(ctx, []int64{7, 0}, values(t, ndview.Int32, []int32{1}, 1, 1)), "outside the shape")
	require.NoError(t, s.Set(ctx, "a/c/0/0/other", nil))
	info, err := a.Info(ctx)
	require.NoError(t, err)
	total, err := store.TotalSize(ctx, s, "a")
	require.NoError(t, err)
	assert.EqualValues(t, 4*6*4, info.Bytes)
	assert.Equal(t, total, info.StoredBytes)
	assert.Equal(t, []int64{2, 2}, info.Chunks)
	assert.EqualValues(t, 2, info.StoredChunks)
	assert.Contains(t, info.String(), "Stored chunks : 2 of [2 2]\n")
	assert.Contains(t, info.String(), "Codecs        : bytes\n")
}

func TestInfoDescribesArraysAndGroups(t *testing.T) {
	s := store.NewMemory()
	create(t, s, "g/a", sharded([]int64{8}, []int64{4}, []int64{2}))
	m := ints([]int64{8}, []int64{5})
	m.ChunkRuns = [][]zarr.ChunkRun{{{Size: 3, Count: 1}, {Size: 5, Count: 1}}}
	m.FillValue = []byte{7, 0, 0, 0}
	create(t, s, "g/h/b", m)
	require.NoError(t, s.Set(ctx, "g/bad/zarr.json", []byte("{}")))

	a, err := zarr.OpenMode(ctx, s, "g/a", zarr.ModeRead, nil)
	require.NoError(t, err)
	info, err := a.Info(ctx)
	require.NoError(t, err)
	assert.Equal(t, []int64{2}, info.InnerChunk)
	assert.True(t, info.ReadOnly)
	for _, line := range []string{"Zarr format   : 3", "Shard shape   : [4]", "Chunk shape   : [2]", "Codecs        : sharding_indexed (bytes)", "Fill value    : 0", "Read-only     : true", "Store         : memory"} {
		assert.Contains(t, info.String(), line+"\n")
	}
	b, err := zarr.Open(ctx, s, "g/h/b")
	require.NoError(t, err)
	info, err = b.Info(ctx)
	require.NoError(t, err)
	assert.Nil(t, info.InnerChunk)
	for _, line := range []string{"Chunk shape   : variable", "Fill value    : 7", "Read-only     : false"} {
		assert.Contains(t, info.String(), line+"\n")
	}

	g, err := zarr.OpenGroup(ctx, s, "g")
	require.NoError(t, err)
	group, err := g.Info(ctx)
	require.NoError(t, err)
	assert.Equal(t, []int{2, 1, 1}, []int{group.Arrays, group.Groups, group.Unreadable})
	for _, line := range []string{"Path          : /g", "Zarr format   : 3", "Consolidated  : false", "Arrays        : 2", "Groups        : 1", "Unreadable    : 1"} {
		assert.Contains(t, group.String(), line+"\n")
	}
}

func TestRequiredChunksThatAreNotStoredAreErrors(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		to := zarr.PrototypeOn(dev)
		for name, meta := range map[string]*zarr.ArrayMetadata{
			"plain": ints([]int64{4, 6}, []int64{2, 3}), "zstd": ints([]int64{4, 6}, []int64{2, 3}, codec.Zstd{}), "sharded": sharded([]int64{4, 6}, []int64{2, 6}, []int64{1, 3}),
		} {
			for _, s := range []store.Store{store.NewMemory(), store.NewLocal(t.TempDir()), store.NewLogging(store.NewMemory(), nil)} {
				a := create(t, s, "a", meta)
				a.RequireChunks = true
				read := func(sel zarr.Selection) error {
					v, err := a.Get(ctx, sel, to, 1)
					if err == nil {
						v.Release()
					}
					return err
				}
				first, point := zarr.Select(zarr.Span(0, 1), zarr.Span(0, 3)), zarr.Points([]int64{0, 0}, []int64{1, 0})
				for _, sel := range []zarr.Selection{zarr.Select(), first, point} {
					assert.ErrorIs(t, read(sel), store.ErrNotFound, "%s in %s", name, s)
				}
				require.NoError(t, a.Set(ctx, first, 7, 1), "a partial write of what is not stored")
				assert.NoError(t, read(first), "%s in %s", name, s)
				assert.NoError(t, read(point), "%s in %s", name, s)
				err := read(zarr.Select())
				assert.ErrorIs(t, err, store.ErrNotFound, "%s in %s", name, s)
				assert.Regexp(t, `(chunk|shard) \[`, err.Error(), "it names the chunk")
				if name == "sharded" {
					assert.NoError(t, read(zarr.Select(zarr.Span(0, 2))), "chunks that a stored shard lacks")
				}
				a.RequireChunks = false
				assert.NoError(t, read(zarr.Select()))
			}
		}
	})
}

func TestResizeOfAHugeSparseArrayVisitsOnlyChunksOutside(t *testing.T) {
	s := store.NewMemory()
	a := create(t, s, "a", ints([]int64{1 << 50, 4}, []int64{2, 2}))
	corner, err := a.View(zarr.Select(zarr.Span(1<<50-1, 1<<50), zarr.Span(3, 4)))
	require.NoError(t, err)
	require.NoError(t, corner.Write(ctx, 5, 1))
	require.NoError(t, a.Resize(ctx, 1<<50+2, 6)) // no chunk is outside
	require.NoError(t, a.Resize(ctx, 1<<50, 4))
	assert.Equal(t, []string{"a/c/562949953421311/1", "a/zarr.json", "zarr.json"}, keysOf(t, s))
	require.NoError(t, a.Resize(ctx, 1<<50-2, 4)) // two chunks are
	assert.Equal(t, []string{"a/zarr.json", "zarr.json"}, keysOf(t, s))
}
