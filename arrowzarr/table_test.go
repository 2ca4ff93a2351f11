package arrowzarr_test

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// A group that another program wrote is a table of its arrays, with nulls for NaT.
func TestGroupsOfOthersAreRestored(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other.zarr")
	s := store.NewLocal(path)
	_, err := zarr.CreateGroup(t.Context(), s, "", &zarr.GroupMetadata{})
	require.NoError(t, err)
	seconds := ndview.Datetime64(ndview.Second, 1)
	for name, dtype := range map[string]ndview.DType{"n": ndview.Int64, "when": seconds} {
		m := &zarr.ArrayMetadata{Shape: []int64{3}, ChunkShape: []int64{2}, DataType: element.Of(dtype), Codecs: zarr.DefaultCodecs(element.Of(dtype))}
		a, err := zarr.Create(t.Context(), s, name, m)
		require.NoError(t, err)
		values, err := ndview.FromHost(arrowbuf.CPU(), dtype, []int64{7, math.MinInt64, 9}, 3)
		require.NoError(t, err)
		require.NoError(t, a.Write(t.Context(), values, 1))
		values.Release()
	}
	restored := filepath.Join(t.TempDir(), "t.arrow")
	report, err := arrowzarr.Restore(t.Context(), path, restored, arrowzarr.RestoreOptions{})
	require.NoError(t, err)
	assert.Equal(t, int64(3), report.Rows)
	got := readTable(t, restored)
	require.Equal(t, 2, got.schema.NumFields())
	assert.Equal(t, "[7 -9223372036854775808 9]", got.batches[0].Column(0).String())
	assert.Equal(t, 1, got.batches[0].Column(1).NullN())
	assert.True(t, got.batches[0].Column(1).IsNull(1))
}
