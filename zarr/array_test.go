package zarr_test

import (
	"testing"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
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
	assert.Error(t, a.SetShape(1, 2), "the number of axes must not change")
	assert.Error(t, a.SetShape(-1))
	require.NoError(t, a.SetShape(5))
	a.SetAttributes(map[string]any{"z": 1, "a": []string{"<b>"}})
	require.NoError(t, a.WriteMetadata(ctx))
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
