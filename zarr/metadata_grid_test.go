package zarr_test

import (
	"sync"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// unevenRows returns the metadata of an array whose rows have chunks of extents 2, 2, 4
// and 1, and whose columns have chunks of extent 3.
func unevenRows(shards bool) *zarr.ArrayMetadata {
	m := ints([]int64{9, 7}, []int64{4, 3})
	m.ChunkRuns = [][]zarr.ChunkRun{{{Size: 2, Count: 2}, {Size: 4, Count: 1}, {Size: 1, Count: 1}}, nil}
	if shards {
		m.Codecs = codec.List{codec.Sharding{ChunkShape: []int64{1, 3}, Codecs: m.Codecs}}
	}
	return m
}

func TestRectilinearArraysReadAndWrite(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for _, shards := range []bool{false, true} {
			s := store.NewMemory()
			create(t, s, "a", unevenRows(shards))
			a, err := zarr.Open(ctx, s, "a")
			require.NoError(t, err)
			whole := counting(t, dev, 1, 1, 9, 7)
			require.NoError(t, a.Write(ctx, whole, 2))
			assert.Len(t, keysOf(t, s), 4*3+2)
			want := host[int32](t, whole)
			for _, on := range []arrowbuf.Device{arrowbuf.CPU(), dev} {
				v, err := a.Read(ctx, zarr.PrototypeOn(on), 2)
				require.NoError(t, err)
				assert.Equal(t, want, host[int32](t, v.(*ndview.NDBuffer)))
				v.Release()
				v, err = a.ReadChunk(ctx, zarr.PrototypeOn(on), []int64{3, 0})
				require.NoError(t, err)
				assert.Equal(t, []int32{57, 58, 59}, host[int32](t, v.(*ndview.NDBuffer)))
				v.Release()
				v, err = a.Get(ctx, zarr.Select(zarr.List(8, 3, 4), zarr.SpanStep(0, 7, 3)), zarr.PrototypeOn(on), 2)
				require.NoError(t, err)
				assert.Equal(t, []int32{57, 60, 63, 22, 25, 28, 29, 32, 35}, host[int32](t, v.(*ndview.NDBuffer)))
				v.Release()
			}
			require.NoError(t, a.Set(ctx, zarr.Blocks(zarr.At(2), zarr.At(1)), 0, 1))
			require.NoError(t, a.Set(ctx, zarr.Select(zarr.SpanStep(0, 9, 2), zarr.At(-1)), -1, 1))
			for row := range 9 {
				for column := range 7 {
					if row >= 4 && row < 8 && column >= 3 && column < 6 {
						want[row*7+column] = 0
					} else if row%2 == 0 && column == 6 {
						want[row*7+column] = -1
					}
				}
			}
			assert.Equal(t, want, readInts(t, a))
			assert.NotContains(t, keysOf(t, s), "a/c/2/1")

			require.NoError(t, a.Resize(ctx, 3, 7))
			assert.Len(t, keysOf(t, s), 2*3+2)
			_, err = a.ReadChunk(ctx, zarr.Prototype{}, []int64{4, 0})
			assert.ErrorContains(t, err, "outside any grid")
		}
	})
}

func TestMalformedChunkRunsAreErrors(t *testing.T) {
	for name, change := range map[string]func(*zarr.ArrayMetadata){
		"too short":       func(m *zarr.ArrayMetadata) { m.Shape = []int64{10, 7} },
		"zero extent":     func(m *zarr.ArrayMetadata) { m.ChunkRuns[0][0].Size = 0 },
		"axes":            func(m *zarr.ArrayMetadata) { m.ChunkRuns = m.ChunkRuns[:1] },
		"not the largest": func(m *zarr.ArrayMetadata) { m.ChunkShape[0] = 2 },
		"shards of odd sizes": func(m *zarr.ArrayMetadata) {
			m.Codecs = codec.List{codec.Sharding{ChunkShape: []int64{2, 3}, Codecs: m.Codecs}}
		},
	} {
		m := unevenRows(false)
		change(m)
		_, err := zarr.Create(ctx, store.NewMemory(), "a", m)
		assert.Error(t, err, name)
	}
}

func TestAGrownRectilinearGridGetsOneMoreChunk(t *testing.T) {
	for _, shards := range []bool{false, true} {
		s := store.NewMemory()
		a := create(t, s, "a", unevenRows(shards))
		require.NoError(t, a.Write(ctx, counting(t, arrowbuf.CPU(), 1, 1, 9, 7), 1))
		view, err := a.View(zarr.Select(zarr.At(8), zarr.At(6)))
		require.NoError(t, err)
		require.NoError(t, a.Resize(ctx, 14, 8))
		assert.Equal(t, [][]zarr.ChunkRun{{{Size: 2, Count: 2}, {Size: 4, Count: 1}, {Size: 1, Count: 1}, {Size: 5, Count: 1}}, nil}, a.Metadata().ChunkRuns)
		assert.Equal(t, []int64{5, 3}, a.Metadata().ChunkShape, "the largest")
		require.NoError(t, a.Set(ctx, zarr.Select(zarr.Span(9, 14)), 7, 1))
		shape, err := a.Append(ctx, counting(t, arrowbuf.CPU(), 100, 1, 5, 8), 0, 1)
		require.NoError(t, err)
		assert.Equal(t, []int64{19, 8}, shape)
		assert.Equal(t, zarr.ChunkRun{Size: 5, Count: 2}, a.Metadata().ChunkRuns[0][3], "a chunk like the last one")

		back, err := zarr.Open(ctx, s, "a")
		require.NoError(t, err)
		for _, a := range []*zarr.Array{a, back} {
			got := readInts(t, a)
			assert.Equal(t, []int32{57, 58, 59, 60, 61, 62, 63, 0}, got[8*8:9*8])
			assert.Equal(t, []int32{7, 7, 7, 7, 7, 7, 7, 7, 100, 101}, got[13*8:14*8+2])
			assert.Equal(t, int32(139), got[19*8-1])
		}
		v, err := view.Read(ctx, zarr.Prototype{}, 1)
		require.NoError(t, err)
		assert.Equal(t, []int32{63}, host[int32](t, v.(*ndview.NDBuffer)), "earlier views stay valid")
		v.Release()
		require.NoError(t, a.Resize(ctx, 3, 8))
		require.NoError(t, a.Resize(ctx, 19, 8))
		assert.Equal(t, zarr.ChunkRun{Size: 5, Count: 2}, a.Metadata().ChunkRuns[0][3], "a smaller shape keeps the grid")
	}
	m := unevenRows(false)
	m.ChunkRuns[0] = []zarr.ChunkRun{{Size: 4, Count: 3}}
	m.Codecs = codec.List{codec.Sharding{ChunkShape: []int64{2, 3}, Codecs: m.Codecs}}
	a := create(t, store.NewMemory(), "a", m)
	assert.ErrorContains(t, a.Resize(ctx, 13, 7), "divide", "the added shard would not have whole chunks")
	assert.Equal(t, []int64{9, 7}, a.Shape())
}

// Run with the race detector.
func TestAGrowingRectilinearGridIsReadMeanwhile(t *testing.T) {
	a := create(t, store.NewMemory(), "a", unevenRows(false))
	require.NoError(t, a.Write(ctx, counting(t, arrowbuf.CPU(), 1, 1, 9, 7), 1))
	var group sync.WaitGroup
	group.Go(func() {
		for rows := int64(10); rows < 30; rows++ {
			assert.NoError(t, a.Resize(ctx, rows, 7))
		}
	})
	for range 4 {
		group.Go(func() {
			for range 20 {
				v, err := a.Read(ctx, zarr.Prototype{}, 1)
				if assert.NoError(t, err) {
					assert.Equal(t, int32(63), host[int32](t, v.(*ndview.NDBuffer))[62])
					v.Release()
				}
			}
		})
	}
	group.Wait()
}
