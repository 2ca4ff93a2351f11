package zarr_test

import (
	"context"
	"testing"

	"github.com/quiver-gpu/quiver/compress/blosc"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNewArraysHaveCompleteCodecs(t *testing.T) {
	ctx, s := context.Background(), store.NewMemory()
	created := create(t, s, "a", ints([]int64{8}, []int64{4}, codec.Blosc{Compressor: blosc.LZ4, Level: 5}))
	raw, err := s.Get(ctx, "a/zarr.json", store.Range{})
	require.NoError(t, err)
	assert.Contains(t, string(raw), `"shuffle": "shuffle"`)
	assert.Contains(t, string(raw), `"typesize": 4`)
	last := created.Metadata().Codecs[len(created.Metadata().Codecs)-1]
	assert.Equal(t, codec.Blosc{Compressor: blosc.LZ4, Level: 5, Shuffle: codec.BloscBytes, TypeSize: 4}, last)
}
