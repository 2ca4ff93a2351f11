package zarr_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/quiver-gpu/quiver/compress/blosc"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// oldHierarchy returns a store with a consolidated hierarchy of Zarr v2.
func oldHierarchy(t *testing.T) store.Store {
	t.Helper()
	s := store.NewMemory()
	g, err := zarr.CreateGroup(ctx, s, "old", &zarr.GroupMetadata{Format: 2, Attributes: map[string]any{"title": "x"}})
	require.NoError(t, err)
	m := ints([]int64{5, 3}, []int64{2, 2}, codec.Blosc{Compressor: blosc.LZ4, Level: 5})
	m.Codecs = append(codec.List{codec.Transpose{Order: []int{1, 0}}, codec.Delta{DType: "<i4"}}, m.Codecs...)
	m.ChunkKeyEncoding = zarr.ChunkKeyEncoding{V2: true, Separator: "/"}
	m.DimensionNames = []string{"y", "x"}
	a, err := g.CreateArray(ctx, "inner/a", m)
	require.NoError(t, err)
	require.NoError(t, a.Write(ctx, values(t, ndview.Int32, []int32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, 5, 3), 1))
	require.NoError(t, g.Consolidate(ctx))
	return s
}

func TestHierarchiesOfZarrV2BecomeV3(t *testing.T) {
	s := oldHierarchy(t)
	require.NoError(t, zarr.MigrateToV3(ctx, s, "old"))
	for _, removed := range []bool{false, true} {
		if removed {
			require.NoError(t, zarr.RemoveMetadata(ctx, s, "old", 2))
		}
		g, err := zarr.OpenGroup(ctx, s, "old")
		require.NoError(t, err)
		assert.Equal(t, 3, g.Metadata().Format)
		assert.Equal(t, map[string]any{"title": "x"}, g.Metadata().Attributes)
		assert.Contains(t, g.Metadata().Consolidated, "inner/a")
		for _, from := range []*zarr.Group{g, g.IgnoreConsolidated()} {
			a, err := from.OpenArray(ctx, "inner/a")
			require.NoError(t, err)
			m := a.Metadata()
			assert.Equal(t, []string{"y", "x"}, m.DimensionNames)
			assert.Equal(t, zarr.ChunkKeyEncoding{V2: true, Separator: "/"}, m.ChunkKeyEncoding)
			assert.Equal(t, "blosc", m.Codecs[len(m.Codecs)-1].Name())
			assert.Equal(t, []int32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, readAs(t, a, []int32{}))
		}
	}
	for _, key := range keysOf(t, s) {
		assert.False(t, strings.HasPrefix(key, "old/") && strings.Contains(key, ".z"), key)
	}
	err := zarr.MigrateToV3(ctx, s, "old")
	assert.ErrorIs(t, err, store.ErrExists)
	err = zarr.RemoveMetadata(ctx, s, "old", 3)
	assert.ErrorIs(t, err, store.ErrNotFound, "the metadata of v2 is gone")
	_, err = zarr.OpenGroup(ctx, s, "old")
	assert.NoError(t, err, "nothing was removed")
}

func TestMetadataOfZarrV3IsRemovedAgain(t *testing.T) {
	s := oldHierarchy(t)
	before := keysOf(t, s)
	require.NoError(t, zarr.MigrateToV3(ctx, s, "old"))
	require.NoError(t, zarr.RemoveMetadata(ctx, s, "old", 3))
	assert.Equal(t, before, keysOf(t, s))
	assert.Error(t, zarr.RemoveMetadata(ctx, s, "old", 1))
	assert.Error(t, zarr.RemoveMetadata(ctx, s, "/", 2))
}

func TestWhatZarrV3LacksIsNotMigrated(t *testing.T) {
	for name, document := range map[string]string{
		"byte order of a filter": `{"zarr_format":2,"shape":[2],"chunks":[2],"dtype":"<i4","order":"C","fill_value":0,"compressor":null,"filters":[{"id":"delta","dtype":">i4"}]}`,
		"big-endian filter":      `{"zarr_format":2,"shape":[2],"chunks":[2],"dtype":">i4","order":"C","fill_value":0,"compressor":null,"filters":[{"id":"delta","dtype":">i4"}]}`,
		"subarray":               `{"zarr_format":2,"shape":[2],"chunks":[2],"dtype":[["a","<i4",[2]]],"order":"C","fill_value":null,"compressor":null,"filters":null}`,
	} {
		s := oldHierarchy(t)
		require.NoError(t, s.Set(ctx, "old/b/.zarray", []byte(document)))
		before := keysOf(t, s)
		err := zarr.MigrateToV3(ctx, s, "old")
		assert.ErrorContains(t, err, `"old/b"`, name)
		assert.ErrorIs(t, err, errors.ErrUnsupported, name)
		assert.Equal(t, before, keysOf(t, s), "%s: nothing is written", name)
	}
	s := oldHierarchy(t)
	require.NoError(t, s.Set(ctx, "old/b/.zarray", []byte("{")))
	assert.ErrorContains(t, zarr.MigrateToV3(ctx, s, "old"), `"old/b"`)
	assert.ErrorIs(t, zarr.MigrateToV3(ctx, s, "none"), store.ErrNotFound)
}

// zarr-python reads no r*, so raw bytes get its name for them.
func TestRawBytesAreMigratedToTheTypeOfZarrPython(t *testing.T) {
	s := store.NewMemory()
	require.NoError(t, s.Set(ctx, "a/.zarray", []byte(`{"zarr_format":2,"shape":[2],"chunks":[2],"dtype":[["x","|V3"],["y",">i2"]],"order":"C","fill_value":"AQIDAAQ=","compressor":{"id":"gzip","level":1},"filters":null}`)))
	require.NoError(t, zarr.MigrateToV3(ctx, s, "a"))
	a, err := zarr.Open(ctx, s, "a")
	require.NoError(t, err)
	fields := a.Metadata().DataType.Fields()
	assert.Equal(t, element.RawBytes(3), fields[0].Type)
	v, err := a.Read(ctx, zarr.Prototype{}, 1)
	require.NoError(t, err)
	defer v.Release()
	assert.Equal(t, []byte{1, 2, 3, 4, 0, 1, 2, 3, 4, 0}, bytesOf(t, v))
}
