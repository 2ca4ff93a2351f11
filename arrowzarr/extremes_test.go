package arrowzarr_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/zarr"
)

func TestNoColumns(t *testing.T) {
	nothing := arrow.NewSchema(nil, nil)
	for name, input := range map[string]table{
		"no batches": {schema: nothing},
		"no rows":    {schema: nothing, batches: []arrow.RecordBatch{array.NewRecordBatch(nothing, nil, 0)}},
		"3 rows":     {schema: nothing, batches: []arrow.RecordBatch{array.NewRecordBatch(nothing, nil, 3)}},
	} {
		for _, encode := range encodings {
			output, report := convert(t, encode(input, t), arrowzarr.Options{})
			root := openRoot(t, output)
			assert.Empty(t, root.Metadata().Consolidated, name)
			assert.Equal(t, []any{}, root.Metadata().Attributes["column-order"], name)
			assert.Equal(t, input.rows(), report.Rows, name)
		}
	}
}

// Columns of type null, and those that hold nothing but fill values, store no
// chunks.
func TestNothingIsStoredOfNothing(t *testing.T) {
	columns := newTable([]arrow.Field{
		{Name: "null", Type: arrow.Null, Nullable: true},
		{Name: "zeros", Type: arrow.PrimitiveTypes.Int64},
	}, []arrow.Array{array.NewNull(20), fromJSON(t, arrow.PrimitiveTypes.Int64, `[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]`)})
	for _, shard := range []int64{0, 15} {
		output, report := convert(t, columns.file(t), arrowzarr.Options{ChunkRows: 5, ShardRows: shard})
		requireTable(t, columns, output)
		assert.Zero(t, report.StoredBytes)
		requireOnly(t, output+"/null/values", "zarr.json")
		requireOnly(t, output+"/null/mask", "zarr.json")
		requireOnly(t, output+"/zeros", "zarr.json")
	}
}

// Rows that take no room can be very many.
func TestManyRowsOfNothing(t *testing.T) {
	const many = 1 << 62
	nothing := arrow.NewSchema(nil, nil)
	for name, input := range map[string]table{
		"no columns":   {schema: nothing, batches: []arrow.RecordBatch{array.NewRecordBatch(nothing, nil, many)}},
		"null columns": single("null", array.NewNull(many)),
	} {
		t.Run(name, func(t *testing.T) {
			for _, options := range []arrowzarr.Options{{}, {ChunkRows: 7, ShardRows: 21}} {
				output, report := convert(t, input.stream(t), options)
				assert.Equal(t, int64(many), report.Rows)
				assert.Equal(t, json.Number(fmt.Sprint(many)), openRoot(t, output).Metadata().Attributes["num_rows"])
			}
			input.batches = append(input.batches, input.batches[0], input.batches[0])
			message := refuse(t, arrowzarr.PartInput, inputFile(t, input.stream(t)), arrowzarr.Options{})
			assert.Contains(t, message, "more rows than can be counted")
		})
	}
}

// A column is a group where a null occurs, not where the schema allows one.
func TestGroupsFollowTheData(t *testing.T) {
	whole := fromJSON(t, arrow.PrimitiveTypes.Int32, `[1, 2, 3]`)
	gap := fromJSON(t, arrow.PrimitiveTypes.Int32, `[4, null, 6]`)
	for name, test := range map[string]struct {
		batches []arrow.Array
		group   bool
	}{
		"nullable without nulls":     {[]arrow.Array{whole, whole}, false},
		"a null in the last batch":   {[]arrow.Array{whole, whole, gap}, true},
		"a null in the first batch":  {[]arrow.Array{gap, whole}, true},
		"nulls that are sliced away": {[]arrow.Array{array.NewSlice(gap, 2, 3), array.NewSlice(gap, 0, 1)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, rows := range []int64{0, 1, 4} {
				output, _ := convert(t, single("c", test.batches...).file(t), arrowzarr.Options{ChunkRows: rows})
				_, isGroup := openRoot(t, output).Metadata().Consolidated["c"].(*zarr.GroupMetadata)
				assert.Equal(t, test.group, isGroup)
				requireTable(t, single("c", test.batches...), output)
			}
		})
	}
}

func TestChunksAndShardsAreThoseAskedFor(t *testing.T) {
	input := inputFile(t, single("c", sample(newRand(1), arrow.PrimitiveTypes.Int16, 100, 0)).file(t))
	for _, test := range []struct {
		options       arrowzarr.Options
		chunks        []int64 // of the outer grid
		codecs        []string
		reportedChunk int64
	}{
		{arrowzarr.Options{}, []int64{100}, []string{"bytes", "zstd"}, 100},
		{arrowzarr.Options{Codec: none}, []int64{100}, []string{"bytes"}, 100},
		{arrowzarr.Options{Codec: gzip, ChunkRows: 30}, []int64{30}, []string{"bytes", "gzip"}, 30},
		{arrowzarr.Options{ChunkRows: 10, ShardRows: 40}, []int64{40}, []string{"sharding_indexed"}, 10},
	} {
		output, report := convertFile(t, input, test.options)
		a, err := openRoot(t, output).OpenArray(t.Context(), "c")
		require.NoError(t, err)
		assert.Equal(t, test.chunks, a.Metadata().ChunkShape)
		names := []string{}
		for _, c := range a.Metadata().Codecs {
			names = append(names, c.Name())
		}
		assert.Equal(t, test.codecs, names)
		assert.Equal(t, test.reportedChunk, report.ChunkRows)
		assert.Equal(t, test.options.ShardRows, report.ShardRows)
	}
}

func TestReportAddsUp(t *testing.T) {
	columns := sampleTable(3, []int{30, 12}, 0.2)
	input := inputFile(t, columns.stream(t))
	progress := &arrowzarr.Progress{}
	output, report := convertFile(t, input, arrowzarr.Options{Codec: none, ChunkRows: 10, Progress: progress})
	assert.Equal(t, input, report.Input)
	assert.Equal(t, output, report.Output)
	assert.Equal(t, "Arrow IPC stream", report.Format)
	assert.Equal(t, int64(42), report.Rows)
	assert.Equal(t, len(supported), report.Columns)
	assert.Positive(t, report.RawBytes)
	assert.Positive(t, report.StoredBytes)
	var names []string
	for _, s := range report.Stages {
		names = append(names, s.Name)
		assert.GreaterOrEqual(t, s.Bytes, int64(0))
	}
	assert.Equal(t, []string{"read", "h2d", "kernels", "d2h", "encode", "write"}, names)
	done, _ := progress.Rows()
	assert.Equal(t, report.Rows, done)
	assert.Equal(t, report.RawBytes, progress.Bytes())
}
