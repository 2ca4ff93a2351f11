package zarr_test

import (
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
			assert.Error(t, a.Resize(ctx, 10, 7), "the chunks cover nine rows")
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
		s := store.NewMemory()
		a, err := zarr.Create(ctx, s, "a", m)
		if err == nil { // found when the chunk is used
			err = a.WriteChunk(ctx, []int64{3, 0}, counting(t, arrowbuf.CPU(), 1, 1, 1, 3))
		}
		assert.Error(t, err, name)
	}
}
