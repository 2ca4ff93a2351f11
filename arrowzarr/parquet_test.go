package arrowzarr_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// inParquet reports whether arrow-go writes a type to Parquet files and reads the same
// type.
func inParquet(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.NULL, arrow.FIXED_SIZE_LIST, arrow.EXTENSION, arrow.STRING_VIEW, arrow.BINARY_VIEW,
		arrow.DECIMAL32, arrow.DECIMAL64, arrow.DECIMAL256, arrow.DATE64, arrow.DURATION:
		return false
	case arrow.TIME32, arrow.TIMESTAMP: // Parquet has no seconds
		return t.(arrow.TemporalWithUnit).TimeUnit() != arrow.Second
	}
	return true
}

func TestParquetConverts(t *testing.T) {
	var columns []int
	for i, kind := range tabletest.Types {
		if inParquet(kind) {
			columns = append(columns, i)
		}
	}
	tests := []struct {
		name         string
		lengths      []int
		nulls        []float64
		chunk, shard int64
		properties   []parquet.WriterProperty
	}{
		{"one row group", []int{30}, []float64{0}, 0, 0, nil},
		{"row groups", []int{10, 1, 25}, []float64{0}, 7, 0, []parquet.WriterProperty{parquet.WithCompression(compress.Codecs.Snappy)}},
		{"nulls", []int{10, 1, 25}, []float64{0.4}, 7, 21, []parquet.WriterProperty{parquet.WithCompression(compress.Codecs.Zstd)}},
		{"nulls in some row groups", []int{10, 12, 3}, []float64{0, 0.4, 1}, 5, 0, []parquet.WriterProperty{parquet.WithDataPageVersion(parquet.DataPageV2)}},
		{"small pages", []int{60, 60}, []float64{0.1}, 50, 0, []parquet.WriterProperty{parquet.WithDataPageSize(64), parquet.WithDictionaryDefault(false)}},
		{"no rows", []int{0}, []float64{0}, 0, 0, nil},
	}
	for seed, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			want := tabletest.RandomTable(uint64(seed), test.lengths, test.nulls...).Choose(columns...)
			input := inputFile(t, want.Parquet(t, test.properties...))
			options := arrowzarr.Options{ChunkRows: test.chunk, ShardRows: test.shard}
			output, report := convertFile(t, input, options)
			requireTable(t, want, output)
			assert.Equal(t, "Parquet", report.Format)
			cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
				options := options
				options.Device = dev
				onDevice, _ := convertFile(t, input, options)
				requireTable(t, want, onDevice)
			})
			some, _ := convertFile(t, input, arrowzarr.Options{Columns: []string{want.Schema.Field(3).Name, want.Schema.Field(12).Name}})
			requireTable(t, want.Choose(3, 12), some)
		})
	}
}

func TestParquetDictionariesConvert(t *testing.T) {
	want := tabletest.Single("kind",
		tabletest.Dictionary(arrow.PrimitiveTypes.Int32, tabletest.Texts("a", "b", "c"), 0, 1, -1, 2, 1),
		tabletest.Dictionary(arrow.PrimitiveTypes.Int32, tabletest.Texts("d", "b"), 1, 0, -1))
	output, _ := convertCodes(t, want.Parquet(t), arrowzarr.Options{ChunkRows: 3})
	root := openRoot(t, output)
	got := readColumn(t, root, "kind")
	var decoded []string
	codes, categories := got["codes"], got["categories"]
	for i := range codes.Bytes {
		if i%4 == 0 {
			if code := int8(codes.Bytes[i]); code < 0 {
				decoded = append(decoded, "-")
			} else {
				decoded = append(decoded, categories.Texts[code])
			}
		}
	}
	assert.Equal(t, "int32", codes.Type)
	assert.Equal(t, []string{"a", "b", "-", "c", "b", "b", "d", "-"}, decoded)
}

// A dictionary of more than a MiB is not copied for each batch.
func TestLargeParquetDictionariesConvert(t *testing.T) {
	in := tabletest.Single("d", tabletest.LargeDictionary())
	path := inputFile(t, in.Parquet(t, parquet.WithDictionaryPageSizeLimit(1<<30)))
	output, _ := convertFile(t, path, arrowzarr.Options{ChunkRows: 5000})
	verified, err := arrowzarr.Verify(t.Context(), path, output, arrowzarr.Options{})
	require.NoError(t, err)
	assert.Empty(t, verified.Difference)
}

// The types that pyarrow stores beside those of Parquet.
func TestParquetWithAnArrowSchemaConverts(t *testing.T) {
	path := filepath.Join("internal", "source", "parquet", "testdata", "types.parquet")
	output, _ := convertFile(t, path, arrowzarr.Options{})
	verified, err := arrowzarr.Verify(t.Context(), path, output, arrowzarr.Options{})
	require.NoError(t, err)
	assert.Empty(t, verified.Difference)
}

func TestParquetPagesMayBeLong(t *testing.T) {
	if testing.Short() {
		t.Skip("150 MB")
	}
	long := strings.Repeat("0123456789abcdef", 70<<16)
	in := tabletest.Single("a", tabletest.Texts(long, "x", long))
	path := inputFile(t, in.Parquet(t, parquet.WithDictionaryDefault(false), parquet.WithDataPageSize(1<<30)))
	output, _ := convertFile(t, path, arrowzarr.Options{})
	verified, err := arrowzarr.Verify(t.Context(), path, output, arrowzarr.Options{})
	require.NoError(t, err)
	assert.Empty(t, verified.Difference)
}

func TestRowsOfParquetWithoutColumnsAreCounted(t *testing.T) {
	footer := "\x15\x02" + // version 1
		"\x19\x1c\x48\x06schema\x15\x00\x00" + // a root without children
		"\x16\x04" + // 2 rows
		"\x19\x1c\x19\x0c\x16\x00\x16\x04\x00\x00" // a row group of no columns and 2 rows
	content := "PAR1" + footer + string([]byte{byte(len(footer)), 0, 0, 0}) + "PAR1"
	output, report := convertCodes(t, []byte(content), arrowzarr.Options{})
	assert.EqualValues(t, 2, report.Rows)
	table, err := arrowzarr.OpenTable(t.Context(), output, arrowzarr.TableOptions{})
	require.NoError(t, err)
	defer func() { require.NoError(t, table.Close()) }()
	assert.EqualValues(t, 2, table.NumRows())
}
