package arrowzarr_test

import (
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// Statistics of an input and of the output that it becomes are equal, in every format.
func TestStatisticsAreThoseOfTheValues(t *testing.T) {
	decimal := &arrow.Decimal128Type{Precision: 5, Scale: 1}
	tests := []struct {
		kind     arrow.DataType
		values   string
		min, max string
		nulls    int64
	}{
		{arrow.PrimitiveTypes.Int8, `[3, null, -128, 127]`, "-128", "127", 1},
		{arrow.PrimitiveTypes.Uint64, `[18446744073709551615, 0, 7, 1]`, "0", "18446744073709551615", 0},
		{arrow.PrimitiveTypes.Float64, `[null, "NaN", -0.5, 1e300]`, "-0.5", "1e+300", 1},
		{arrow.FixedWidthTypes.Float16, `[1, 2, "NaN", -3]`, "-3", "2", 0},
		{arrow.FixedWidthTypes.Boolean, `[true, false, null, true]`, "false", "true", 1},
		{arrow.BinaryTypes.String, `["b", "a", null, "ab"]`, "a", "b", 1},
		{arrow.BinaryTypes.LargeString, `["", "ü", "z", "y"]`, "", "ü", 0},
		{arrow.BinaryTypes.Binary, `["Yg==", "YQ==", null, "Yw=="]`, "YQ==", "Yw==", 1},
		{arrow.FixedWidthTypes.Date32, `["2020-02-01", "2020-01-01", null, "1970-01-01"]`, "1970-01-01", "2020-02-01", 1},
		{arrow.FixedWidthTypes.Timestamp_s, `[1580518923, 1577836800, null, null]`, "2020-01-01T00:00:00Z", "2020-02-01T01:02:03Z", 2},
		{arrow.FixedWidthTypes.Time32s, `["01:02:03", "00:00:01", "23:59:59", null]`, "00:00:01", "23:59:59", 1},
		{decimal, `["1.5", "-20.5", null, "3.1"]`, "-20.5", "3.1", 1},
		{arrow.ListOf(arrow.PrimitiveTypes.Int8), `[[1], null, [2], []]`, "", "", 1},
		{arrow.Null, `[null, null, null, null]`, "", "", 4},
	}
	for _, test := range tests {
		t.Run(test.kind.String(), func(t *testing.T) {
			values := tabletest.FromJSON(t, test.kind, test.values)
			whole := tabletest.Single("c", array.NewSlice(values, 0, 1), array.NewSlice(values, 1, 4))
			stream := inputFile(t, whole.Stream(t))
			output, _ := convertFile(t, stream, arrowzarr.Options{ChunkRows: 3})
			paths := []string{stream, inputFile(t, whole.File(t)), output}
			switch test.kind.ID() {
			case arrow.FLOAT16, arrow.TIME32, arrow.TIMESTAMP: // Parquet has other units
			default:
				paths = append(paths, inputFile(t, whole.Parquet(t)))
			}
			for _, path := range paths {
				found, err := arrowzarr.Inspect(t.Context(), path, arrowzarr.InspectOptions{Stats: true})
				require.NoError(t, err)
				column := found.Columns[0]
				if path == output {
					column = found.Table[0]
				}
				assert.Equal(t, &arrowzarr.ValueStats{Min: test.min, Max: test.max, Distinct: -1}, column.Values, found.Format)
				assert.Equal(t, test.nulls, column.Nulls, found.Format)
				assert.Equal(t, int64(4), found.Rows)
			}
		})
	}
}

func TestCategoriesAreCounted(t *testing.T) {
	whole := tabletest.Single("c",
		tabletest.Dictionary(arrow.PrimitiveTypes.Int8, tabletest.Texts("x", "y"), 0, 1, 0),
		tabletest.Dictionary(arrow.PrimitiveTypes.Int8, tabletest.Texts("y", "z", "a"), 0, 1, 2))
	input := inputFile(t, whole.Stream(t))
	output, _ := convertFile(t, input, arrowzarr.Options{})
	for _, path := range []string{input, output} {
		found, err := arrowzarr.Inspect(t.Context(), path, arrowzarr.InspectOptions{Stats: true})
		require.NoError(t, err)
		column := append(found.Table, found.Columns...)[0]
		assert.Equal(t, &arrowzarr.ValueStats{Min: "a", Max: "z", Distinct: 4}, column.Values)
	}
}

func TestNestedColumnsAreInspected(t *testing.T) {
	whole := nestedTable(7, []int{20, 3}, 0.2)
	input := inputFile(t, whole.Stream(t))
	output, _ := convertFile(t, input, arrowzarr.Options{})
	before, err := arrowzarr.Inspect(t.Context(), input, arrowzarr.InspectOptions{Stats: true})
	require.NoError(t, err)
	after, err := arrowzarr.Inspect(t.Context(), output, arrowzarr.InspectOptions{Stats: true})
	require.NoError(t, err)
	require.Len(t, after.Table, whole.Schema.NumFields())
	arrays := map[string]bool{}
	for _, c := range after.Columns {
		arrays[filepath.Dir(c.Name)] = true
	}
	for i, column := range before.Columns {
		restored := after.Table[i]
		assert.Equal(t, column.Name, restored.Name)
		assert.Equal(t, column.Type, restored.Type)
		assert.Equal(t, column.Nulls, restored.Nulls, column.Type)
		assert.Equal(t, column.Values.Min, restored.Values.Min, column.Type)
		assert.Equal(t, column.Values.Max, restored.Values.Max, column.Type)
		assert.True(t, arrays[restored.Becomes.Node], "%s has arrays", column.Name)
	}
}

func TestHierarchiesInZipFilesAreInspectedAndRestored(t *testing.T) {
	whole := tabletest.Single("c", tabletest.Texts("a", "-"))
	output, _ := convertCodes(t, whole.Stream(t), arrowzarr.Options{})
	path := filepath.Join(t.TempDir(), "w.zip")
	archive, err := store.OpenZip(path, store.ZipCreate)
	require.NoError(t, err)
	require.NoError(t, store.Copy(t.Context(), archive, store.NewLocal(output), ""))
	require.NoError(t, store.Close(archive))
	want, err := arrowzarr.Inspect(t.Context(), output, arrowzarr.InspectOptions{})
	require.NoError(t, err)
	got, err := arrowzarr.Inspect(t.Context(), path, arrowzarr.InspectOptions{})
	require.NoError(t, err)
	assert.Equal(t, path, got.Path)
	for _, location := range []string{path, "file://" + output} {
		restored := filepath.Join(t.TempDir(), "w.arrows")
		report, err := arrowzarr.Restore(t.Context(), location, restored, arrowzarr.RestoreOptions{})
		require.NoError(t, err)
		assert.Equal(t, "Arrow IPC stream", report.Format)
		requireEqualTables(t, whole, readTable(t, restored))
	}
	got.Path = want.Path
	assert.Equal(t, want, got)
}
