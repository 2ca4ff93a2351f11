package arrowzarr_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
)

// stripedTable is a table whose rows take 200 KiB, in batches of these lengths.
func stripedTable(lengths ...int) tabletest.Table {
	rng := tabletest.NewRand(17)
	wide := arrow.FixedSizeListOfNonNullable(100, arrow.PrimitiveTypes.Float64)
	small := []arrow.DataType{
		arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String, arrow.ListOf(arrow.PrimitiveTypes.Int8),
		&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String},
		arrow.StructOf(arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int32, Nullable: true}, arrow.Field{Name: "b", Type: arrow.BinaryTypes.String}),
		arrow.FixedWidthTypes.Boolean, arrow.Null,
	}
	fields := make([]arrow.Field, 270)
	for i := range fields {
		fields[i] = arrow.Field{Name: fmt.Sprint("c", i), Type: wide, Nullable: true}
		if i%15 == 3 {
			fields[i].Type = small[i/15%len(small)]
		}
	}
	var batches [][]arrow.Array
	for _, n := range lengths {
		lists := tabletest.Random(rng, wide, n, 0)
		columns := make([]arrow.Array, len(fields))
		for i, f := range fields {
			if columns[i] = lists; f.Type != wide {
				columns[i] = tabletest.Random(rng, f.Type, n, 0.2)
			}
		}
		batches = append(batches, columns)
	}
	return tabletest.New(fields, batches...)
}

// Chunks of a file whose columns do not fit into the memory together are as long as those
// of one that does: its columns are read one after the other.
func TestWideParquetHasLongChunks(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	in := stripedTable(130, 0, 1, 169)
	path := inputFile(t, in.Parquet(t, parquet.WithDictionaryFor("c3", false)))
	const least = 256 << 20
	var progress arrowzarr.Progress
	output, report := convertFile(t, path, arrowzarr.Options{MaxMemory: least, Jobs: 2, Progress: &progress})
	assert.Equal(t, int64(300), report.ChunkRows)
	rows, _ := progress.Rows()
	assert.Equal(t, int64(300), rows)
	requireVerified(t, path, output)
	planned := filepath.Join(t.TempDir(), "output.zarr")
	runPartitions(t, path, planned, 1, 3, arrowzarr.Options{MaxMemory: least, Jobs: 2})
	requireSameContent(t, contentAt(t, output), contentAt(t, planned))

	options := arrowzarr.Options{MaxMemory: least, Jobs: 2, ChunkRows: 290}
	output, report = convertFile(t, path, options)
	assert.Equal(t, int64(290), report.ChunkRows, "a chunk takes more than half of the memory for batches")
	requireVerified(t, path, output)
	planned = filepath.Join(t.TempDir(), "output.zarr")
	runPartitions(t, path, planned, 2, 3, options)
	requireSameContent(t, contentAt(t, output), contentAt(t, planned))
}

// Columns of a file in a store are requested at once, but only as many as fit into a strip.
func TestStripsOfFilesInStoresFitTheMemory(t *testing.T) {
	const maxBuffer = 16 << 20
	path := inputFile(t, stripedTable(40).Parquet(t))
	sizes, err := arrowzarr.StripSizes(path, 40, maxBuffer)
	require.NoError(t, err)
	assert.Greater(t, len(sizes), 1, "8 MB of values")
	for _, size := range sizes {
		assert.Less(t, size, int64(maxBuffer/3))
	}
}
