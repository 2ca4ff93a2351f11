package arrowzarr_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
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

// A file of one column has several row groups that are read at once.
func TestRowGroupsReadAtOnceKeepTheirOrder(t *testing.T) {
	var batches []arrow.Array
	next := int64(0)
	for _, rows := range []int{5, 1, 0, 300, 2, 2, 0, 77, 1000, 3} {
		b := array.NewInt64Builder(memory.DefaultAllocator)
		for range rows {
			b.Append(next)
			next++
		}
		batches = append(batches, b.NewArray())
	}
	want := tabletest.Single("x", batches...)
	content := want.Parquet(t, parquet.WithCompression(compress.Codecs.Snappy))
	for jobs := 1; jobs <= 5; jobs++ {
		for _, rows := range []int64{0, 7} {
			output, _ := convertFile(t, inputFile(t, content), arrowzarr.Options{Jobs: jobs, ChunkRows: rows})
			requireTable(t, want, output)
		}
	}
	// Row groups before a damaged one are read, and nothing waits for those after it.
	damaged := bytes.Clone(content)
	for i := range damaged[len(damaged)/2 : len(damaged)/2+400] {
		damaged[len(damaged)/2+i] = 0xff
	}
	message := refuse(t, arrowzarr.PartInput, inputFile(t, damaged), arrowzarr.Options{Jobs: 4})
	assert.Contains(t, message, "after row")
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

// Parquet stores structs and lists as several columns, which the columns of other fields
// must skip.
func TestParquetColumnsBesideNestedOnes(t *testing.T) {
	nested := arrow.StructOf(arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int8}, arrow.Field{Name: "y", Type: arrow.BinaryTypes.String})
	whole := tabletest.New([]arrow.Field{
		{Name: "before", Type: arrow.PrimitiveTypes.Int16},
		{Name: "point", Type: nested, Nullable: true},
		{Name: "tags", Type: arrow.ListOf(arrow.BinaryTypes.String), Nullable: true},
		{Name: "after", Type: arrow.BinaryTypes.String},
	}, []arrow.Array{
		tabletest.FromJSON(t, arrow.PrimitiveTypes.Int16, `[1, 2]`),
		tabletest.FromJSON(t, nested, `[{"x": 1, "y": "a"}, null]`),
		tabletest.FromJSON(t, arrow.ListOf(arrow.BinaryTypes.String), `[["a", "b"], []]`),
		array.NewSlice(tabletest.Texts("p", "q", "r"), 1, 3),
	})
	output, _ := convertCodes(t, whole.Parquet(t), arrowzarr.Options{Columns: []string{"before", "after"}})
	requireTable(t, whole.Choose(0, 3), output)
}

// arrow-go does not write the first offset of fixed-size lists: it relies on zeroed memory,
// also if the memory was another buffer before.
func TestParquetFixedSizeListsConvert(t *testing.T) {
	build := func(seed, rows int) (arrow.Array, arrow.Array) {
		pairs := array.NewFixedSizeListBuilder(memory.DefaultAllocator, 2, arrow.PrimitiveTypes.Int16)
		squares := array.NewFixedSizeListBuilder(memory.DefaultAllocator, 2, arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Float32))
		inner := squares.ValueBuilder().(*array.FixedSizeListBuilder)
		for i := range rows {
			pairs.Append(true)
			squares.Append(true)
			for k := range 2 {
				pairs.ValueBuilder().(*array.Int16Builder).Append(int16(seed + 2*i + k))
				inner.Append(true)
				for j := range 3 {
					inner.ValueBuilder().(*array.Float32Builder).Append(float32(seed + 6*i + 3*k + j))
				}
			}
		}
		return pairs.NewArray(), squares.NewArray()
	}
	want := tabletest.Table{Schema: arrow.NewSchema([]arrow.Field{
		{Name: "pairs", Type: arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Int16)},
		{Name: "squares", Type: arrow.FixedSizeListOf(2, arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Float32))},
		{Name: "numbers", Type: arrow.PrimitiveTypes.Int64},
	}, nil)}
	for seed := range 12 {
		const rows = 40
		pairs, squares := build(1000*seed, rows)
		numbers := array.NewInt64Builder(memory.DefaultAllocator)
		for i := range rows {
			numbers.Append(-int64(seed*rows+i) - 1)
		}
		want.Batches = append(want.Batches, array.NewRecordBatch(want.Schema, []arrow.Array{pairs, squares, numbers.NewArray()}, rows))
	}
	input := inputFile(t, want.Parquet(t))
	for range 5 {
		output, _ := convertFile(t, input, arrowzarr.Options{ChunkRows: 7})
		requireTable(t, want, output)
	}
}

// A footer that claims fewer rows than the row groups have must not lose them. Some writers
// leave its count at 0.
func TestParquetFootersMustCountTheRowsOfTheirGroups(t *testing.T) {
	for _, claimed := range []int64{0, 2, 4} {
		content := tabletest.Single("a", tabletest.Texts("x", "y", "z")).Parquet(t)
		r, err := file.NewParquetReader(bytes.NewReader(content))
		require.NoError(t, err)
		footer := r.MetaData()
		footer.FileMetaData.NumRows = claimed
		var changed bytes.Buffer
		size := int(binary.LittleEndian.Uint32(content[len(content)-8:]))
		changed.Write(content[:len(content)-8-size])
		n, err := footer.WriteTo(&changed, nil)
		require.NoError(t, err)
		changed.Write(binary.LittleEndian.AppendUint32(nil, uint32(n)))
		changed.WriteString("PAR1")
		if claimed == 0 {
			output, _ := convertCodes(t, changed.Bytes(), arrowzarr.Options{})
			requireTable(t, tabletest.Single("a", tabletest.Texts("x", "y", "z")), output)
			continue
		}
		message := refuse(t, arrowzarr.PartInput, inputFile(t, changed.Bytes()), arrowzarr.Options{})
		assert.Contains(t, message, fmt.Sprintf("%d rows in the footer, and 3 in its row groups", claimed))
	}
}

// Columns of a wide file keep no memory between two batches.
func TestWideParquetConverts(t *testing.T) {
	rng := tabletest.NewRand(11)
	fields := make([]arrow.Field, 300)
	var batches [][]arrow.Array
	for i := range fields {
		kind := []arrow.DataType{arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String, arrow.ListOf(arrow.PrimitiveTypes.Int8)}[i%3]
		fields[i] = arrow.Field{Name: fmt.Sprint(i), Type: kind, Nullable: true}
	}
	for _, n := range []int{40, 0, 1, 17} {
		columns := make([]arrow.Array, len(fields))
		for i, f := range fields {
			columns[i] = tabletest.Random(rng, f.Type, n, 0.2)
		}
		batches = append(batches, columns)
	}
	path := inputFile(t, tabletest.New(fields, batches...).Parquet(t))
	all := make([]int, len(fields))
	for i := range all {
		all[i] = i
	}
	want, nulls := readRows(t, path, all, 0, -1)
	require.Len(t, want, 58)
	for _, limit := range []int64{400 << 10, 1 << 20} { // parts of 5 and 20 rows or so
		arrowzarr.TestMaxBuffer = limit
		got, gotNulls := readRows(t, path, all, 0, -1)
		assert.Equal(t, want, got)
		assert.Equal(t, nulls, gotNulls)
		some, _ := readRows(t, path, []int{299, 4}, 37, 50)
		require.Len(t, some, 13)
		for i, row := range some {
			assert.Equal(t, []string{want[37+i][299], want[37+i][4]}, row)
		}
	}
	arrowzarr.TestMaxBuffer = 64 << 20
}

// A dictionary of more than a MiB is not copied for each batch.
func TestLargeParquetDictionariesConvert(t *testing.T) {
	n := 90_000
	indices := make([]int, n)
	for i := range indices {
		indices[i] = (i * 7) % n
		if i%100 == 0 {
			indices[i] = -1
		}
	}
	in := tabletest.Single("d", tabletest.Dictionary(arrow.PrimitiveTypes.Int32, tabletest.Numbered(1_000_000, n), indices...))
	path := inputFile(t, in.Parquet(t, parquet.WithDictionaryPageSizeLimit(1<<30)))
	assert.Equal(t, in.Schema.Field(0).Type, describe1(t, path).Schema.Field(0).Type)
	output, _ := convertFile(t, path, arrowzarr.Options{ChunkRows: 5000})
	verified, err := arrowzarr.Verify(t.Context(), path, output, arrowzarr.Options{})
	require.NoError(t, err)
	assert.Empty(t, verified.Difference)
	largest := 0
	require.NoError(t, arrowzarr.ReadSource([]string{path}, []int{0}, 0, 7, func(b arrow.RecordBatch) {
		largest = max(largest, b.Column(0).(*array.Dictionary).Dictionary().Len())
	}))
	assert.LessOrEqual(t, largest, 7, "the dictionary of a batch has its own values only")
}

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
	defer func(most int64) { arrowzarr.TestMaxBuffer = most }(arrowzarr.TestMaxBuffer)
	arrowzarr.TestMaxBuffer = 16 << 20
	path := inputFile(t, stripedTable(40).Parquet(t))
	sizes, err := arrowzarr.StripSizes(path, 40)
	require.NoError(t, err)
	assert.Greater(t, len(sizes), 1, "8 MB of values")
	for _, size := range sizes {
		assert.Less(t, size, arrowzarr.TestMaxBuffer/3)
	}
}

// readRows returns the rows of a range as text, and the nulls of each field.
func readRows(t *testing.T, path string, fields []int, from, to int64) (rows [][]string, nulls []int64) {
	t.Helper()
	nulls = make([]int64, len(fields))
	err := arrowzarr.ReadSource([]string{path}, fields, from, to, func(b arrow.RecordBatch) {
		for i := range int(b.NumRows()) {
			var row []string
			for _, column := range b.Columns() {
				text := "null"
				if !column.IsNull(i) {
					text = fmt.Sprintf("%q", column.ValueStr(i))
				}
				row = append(row, text)
			}
			rows = append(rows, row)
		}
		for i, column := range b.Columns() {
			nulls[i] += int64(column.NullN())
		}
	})
	require.NoError(t, err)
	return rows, nulls
}
