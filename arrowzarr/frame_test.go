package arrowzarr_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/zarr"
)

// frameTable has one column of each outcome in a data frame.
func frameTable(tb testing.TB, metadata *arrow.Metadata) tabletest.Table {
	i64, f64 := arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float64
	when := arrow.FixedWidthTypes.Date32
	columns := []struct {
		name   string
		kind   arrow.DataType
		values string
	}{
		{"id", i64, `[5, 6, 7]`},
		{"text", arrow.BinaryTypes.String, `["a", null, "b"]`},
		{"count", i64, `[1, null, 2]`},
		{"size", f64, `[1.5, null, 2]`},
		{"when", when, `[18000, 18001, 18002]`},
		{"price", &arrow.Decimal128Type{Precision: 5, Scale: 2}, `["1.00", "2.00", "3.00"]`},
		{"tags", arrow.ListOf(i64), `[[1], [], [2, 3]]`},
		{"row", arrow.FixedSizeListOf(2, i64), `[[1, 2], [3, 4], [5, 6]]`},
	}
	var fields []arrow.Field
	var arrays []arrow.Array
	for _, c := range columns {
		fields = append(fields, arrow.Field{Name: c.name, Type: c.kind, Nullable: true})
		arrays = append(arrays, tabletest.FromJSON(tb, c.kind, c.values))
	}
	schema := arrow.NewSchema(fields, metadata)
	return tabletest.Table{Schema: schema, Batches: []arrow.RecordBatch{array.NewRecordBatch(schema, arrays, 3)}}
}

// anndata would read other columns as NaN, or not read the frame at all.
func TestDataFrameHasTheColumnsThatPandasHolds(t *testing.T) {
	pandas := func(text string) *arrow.Metadata {
		m := arrow.MetadataFrom(map[string]string{"pandas": text})
		return &m
	}
	for name, test := range map[string]struct {
		metadata *arrow.Metadata
		index    any
	}{
		"no pandas":            {nil, "_index"},
		"a named index":        {pandas(`{"index_columns": ["id"]}`), "id"},
		"a range":              {pandas(`{"index_columns": [{"kind": "range"}]}`), "_index"},
		"two indexes":          {pandas(`{"index_columns": ["id", "text"]}`), "_index"},
		"an index with nulls":  {pandas(`{"index_columns": ["count"]}`), "_index"},
		"an unknown index":     {pandas(`{"index_columns": ["other"]}`), "_index"},
		"an index of a list":   {pandas(`{"index_columns": ["tags"]}`), "_index"},
		"malformed metadata":   {pandas(`{"index_columns": `), "_index"},
		"metadata of no table": {pandas(`[]`), "_index"},
	} {
		t.Run(name, func(t *testing.T) {
			output, _ := convertCodes(t, frameTable(t, test.metadata).Stream(t), arrowzarr.Options{})
			root := openRoot(t, output)
			attributes := root.Metadata().Attributes
			assert.Equal(t, "dataframe", attributes["encoding-type"])
			assert.Equal(t, "0.2.0", attributes["encoding-version"])
			assert.Equal(t, []any{"id", "text", "count", "when"}, attributes["column-order"])
			assert.Equal(t, test.index, attributes["_index"])
			if test.index == "_index" {
				assert.Equal(t, numbers("int64", 8, []int64{0, 1, 2}), readArray(t, root, "_index"))
			} else {
				assert.NotContains(t, root.Metadata().Consolidated, "_index")
			}
		})
	}
}

func TestNoIndexIsNoDataFrame(t *testing.T) {
	output, _ := convertCodes(t, frameTable(t, nil).Stream(t), arrowzarr.Options{NoIndex: true})
	root := openRoot(t, output)
	assert.NotContains(t, root.Metadata().Attributes, "encoding-type")
	assert.NotContains(t, root.Metadata().Consolidated, "_index")
}

// xarray demands that every array names its dimensions, each with one length.
func TestEveryArrayNamesItsDimensions(t *testing.T) {
	for name, input := range map[string]tabletest.Table{
		"sample": tabletest.RandomTable(3, []int{20, 5}, 0.2), "nested": nestedTable(4, []int{20}, 0.2), "frame": frameTable(t, nil),
		"dictionary": tabletest.Single("d", tabletest.Dictionary(arrow.PrimitiveTypes.Int8, tabletest.Texts("a", "b"), 0, 1, -1, 1)),
	} {
		t.Run(name, func(t *testing.T) {
			output, _ := convertCodes(t, input.Stream(t), arrowzarr.Options{ChunkRows: 7})
			lengths := map[string]int64{}
			for path, node := range openRoot(t, output).Metadata().Consolidated {
				m, ok := node.(*zarr.ArrayMetadata)
				if !ok {
					continue
				}
				require.Len(t, m.DimensionNames, len(m.Shape), path)
				for i, dim := range m.DimensionNames {
					require.NotEmpty(t, dim, path)
					require.NotContains(t, m.DimensionNames[:i], dim, path)
					if length, ok := lengths[dim]; ok {
						require.Equal(t, length, m.Shape[i], "%s: dimension %s", path, dim)
					}
					lengths[dim] = m.Shape[i]
				}
			}
		})
	}
}

// With a GPU, row numbers are written before the columns are, if the input says how many.
func TestRowNumbersAreThoseOfTheCPUOnEveryDevice(t *testing.T) {
	if testing.Short() {
		t.Skip("270,000 rows")
	}
	input := tabletest.RandomTable(5, []int{200_000, 70_000}, 0.2).Choose(0, 1, 2).File(t)
	want, _ := convertCodes(t, input, arrowzarr.Options{})
	got, _ := convertCodes(t, input, arrowzarr.Options{Device: cudatest.NewDevice(t)})
	chunks, err := os.ReadDir(filepath.Join(want, "_index", "c"))
	require.NoError(t, err)
	require.Len(t, chunks, 3)
	for _, chunk := range chunks {
		a, err := os.ReadFile(filepath.Join(want, "_index", "c", chunk.Name()))
		require.NoError(t, err)
		b, err := os.ReadFile(filepath.Join(got, "_index", "c", chunk.Name()))
		require.NoError(t, err)
		assert.Equal(t, a, b, chunk.Name())
	}
	assert.Equal(t, openRoot(t, want).Metadata().Consolidated["_index"], openRoot(t, got).Metadata().Consolidated["_index"])
}
