package arrowzarr

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/store"
)

func TestStaleChunksAreNotThoseOfMembersThatNumbersName(t *testing.T) {
	ctx, s := t.Context(), store.NewMemory()
	table := &existingTable{nodes: map[string]zarr.Node{
		"a":   &zarr.GroupMetadata{},
		"a/0": &zarr.ArrayMetadata{Shape: []int64{4}, ChunkShape: []int64{2}, ChunkKeyEncoding: zarr.ChunkKeyEncoding{V2: true, Separator: "/"}},
		"a/c": &zarr.ArrayMetadata{Shape: []int64{4}, ChunkShape: []int64{2}, ChunkKeyEncoding: zarr.ChunkKeyEncoding{V2: true}},
	}}
	for _, key := range []string{"a/0/0", "a/0/1", "a/0/2", "a/0/c/0", "a/c/0", "a/c/7", "a/c/zarr.json", "a/1", "a/c", "a/notes"} {
		require.NoError(t, s.Set(ctx, key, []byte("x")))
	}
	require.NoError(t, table.deleteStale(ctx, s, "a"))
	keys, err := s.List(ctx, "")
	require.NoError(t, err)
	assert.Equal(t, []string{"a/0/0", "a/0/1", "a/0/2", "a/0/c/0", "a/c/0", "a/c/7", "a/c/zarr.json", "a/notes"}, keys, "chunks of the group are stale")
	require.NoError(t, table.deleteStale(ctx, s, "a/0"))
	require.NoError(t, table.deleteStale(ctx, s, "a/c"))
	keys, err = s.List(ctx, "")
	require.NoError(t, err)
	assert.Equal(t, []string{"a/0/0", "a/0/1", "a/c/0", "a/c/zarr.json", "a/notes"}, keys, "chunks with other keys or outside the arrays are stale")
}
