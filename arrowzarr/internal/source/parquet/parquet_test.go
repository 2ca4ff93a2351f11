package parquet

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
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/sourcetest"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
)

// fileOf returns an opener of a new file of a content.
func fileOf(t *testing.T, content []byte) sourcetest.Opener {
	t.Helper()
	return sourcetest.Local(sourcetest.WriteFile(t, "input", content), sourcetest.Options(), Open)
}

// readColumns returns the columns of a source, each as one array.
func readColumns(t *testing.T, open sourcetest.Opener) []arrow.Array {
	t.Helper()
	var read tabletest.Table
	require.NoError(t, sourcetest.Read(open, nil, source.WholeInput, func(b arrow.RecordBatch) {
		b.Retain()
		read.Batches = append(read.Batches, b)
	}))
	require.NotEmpty(t, read.Batches)
	columns := make([]arrow.Array, read.Batches[0].NumCols())
	for i := range columns {
		var err error
		columns[i], err = array.Concatenate(read.Column(i), memory.DefaultAllocator)
		require.NoError(t, err)
	}
	return columns
}

// rangeInputs returns files of several row groups and pages.
func rangeInputs(t *testing.T) map[string]sourcetest.Opener {
	inputs := map[string]sourcetest.Opener{}
	for _, nulls := range []float64{0, 0.3} {
		for name, types := range map[string][]arrow.DataType{"flat": sourcetest.Flat, "nested": sourcetest.Nested} {
			in := sourcetest.RangeTable(7, []int{13, 0, 1, 40, 7}, nulls, types...)
			one := sourcetest.RangeTable(7, []int{61}, nulls, types...)
			label := fmt.Sprintf("%s, nulls %v, ", name, nulls)
			inputs[label+"row groups"] = fileOf(t, in.Parquet(t, parquet.WithDataPageSize(64), parquet.WithBatchSize(3)))
			inputs[label+"pages V2"] = fileOf(t, one.Parquet(t, parquet.WithDataPageSize(64), parquet.WithBatchSize(3), parquet.WithDataPageVersion(parquet.DataPageV2), parquet.WithDictionaryDefault(false), parquet.WithPageIndexEnabled(true)))
		}
	}
	inputs["no rows"] = fileOf(t, sourcetest.RangeTable(8, nil, 0, sourcetest.Nested...).Parquet(t))
	return inputs
}

func TestRangesOfRowsAreSlicesOfTheWhole(t *testing.T) { sourcetest.TestRanges(t, rangeInputs(t)) }

func TestRowsAndNullsAreCountedWithoutReadingValues(t *testing.T) {
	sourcetest.TestCounts(t, rangeInputs(t), 40)
}

// Parquet stores structs and lists as several columns, which the columns of other fields
// must skip.
func TestColumnsBesideNestedOnes(t *testing.T) {
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
	rows, nulls := sourcetest.Values(t, fileOf(t, whole.Parquet(t)), []int{0, 3}, source.WholeInput)
	assert.Equal(t, [][]string{{`"1"`, `"q"`}, {`"2"`, `"r"`}}, rows)
	assert.Equal(t, []int64{0, 0}, nulls)
}

// arrow-go does not write the first offset of fixed-size lists: it relies on zeroed memory.
func TestFixedSizeListsAreReadIntoMemoryThatIsNotZeroed(t *testing.T) {
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
	options := sourcetest.Options()
	options.Allocator = usedMemory{options.Allocator}
	columns := readColumns(t, sourcetest.Local(sourcetest.WriteFile(t, "input", want.Parquet(t)), options, Open))
	require.Len(t, columns, 3)
	for i, got := range columns {
		whole, err := array.Concatenate(want.Column(i), memory.DefaultAllocator)
		require.NoError(t, err)
		assert.True(t, array.Equal(whole, got), "got %v, expected %v", got, whole)
	}
}

// usedMemory allocates memory that is not zeroed.
type usedMemory struct{ memory.Allocator }

func (m usedMemory) Allocate(size int) []byte {
	b := m.Allocator.Allocate(size)
	for i := range b {
		b[i] = 0x55
	}
	return b
}

func (m usedMemory) Reallocate(size int, b []byte) []byte {
	before := len(b)
	b = m.Allocator.Reallocate(size, b)
	for i := before; i < len(b); i++ {
		b[i] = 0x55
	}
	return b
}

// A footer that claims fewer rows than the row groups have must not lose them. Some writers
// leave its count at 0.
func TestFootersMustCountTheRowsOfTheirGroups(t *testing.T) {
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
			assert.Equal(t, []string{"x", "y", "z"}, sourcetest.Rows(t, fileOf(t, changed.Bytes())))
			continue
		}
		require.ErrorContains(t, sourcetest.ReadAll(fileOf(t, changed.Bytes())), fmt.Sprintf("%d rows in the footer, and 3 in its row groups", claimed))
	}
}

// Columns of a wide file keep no memory between two batches.
func TestWideFilesAreReadInParts(t *testing.T) {
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
	path := sourcetest.WriteFile(t, "input", tabletest.New(fields, batches...).Parquet(t))
	want, nulls := sourcetest.Values(t, sourcetest.Local(path, sourcetest.Options(), Open), nil, source.WholeInput)
	require.Len(t, want, 58)
	for _, limit := range []int64{400 << 10, 1 << 20} { // parts of 5 and 20 rows or so
		options := sourcetest.Options()
		options.MaxBuffer = limit
		open := sourcetest.Local(path, options, Open)
		got, gotNulls := sourcetest.Values(t, open, nil, source.WholeInput)
		assert.Equal(t, want, got)
		assert.Equal(t, nulls, gotNulls)
		some, _ := sourcetest.Values(t, open, []int{299, 4}, source.RowRange{From: 37, To: 50})
		require.Len(t, some, 13)
		for i, row := range some {
			assert.Equal(t, []string{want[37+i][299], want[37+i][4]}, row)
		}
	}
}

// A dictionary of more than a MiB is not copied for each batch.
func TestLargeDictionariesAreNotCopiedForEachBatch(t *testing.T) {
	in := tabletest.Single("d", tabletest.LargeDictionary())
	open := fileOf(t, in.Parquet(t, parquet.WithDictionaryPageSizeLimit(1<<30)))
	assert.Equal(t, in.Schema.Field(0).Type, sourcetest.Info(t, open).Schema.Field(0).Type)
	largest := 0
	require.NoError(t, sourcetest.Read(open, nil, source.RowRange{From: 0, To: 7}, func(b arrow.RecordBatch) {
		largest = max(largest, b.Column(0).(*array.Dictionary).Dictionary().Len())
	}))
	assert.LessOrEqual(t, largest, 7, "the dictionary of a batch has its own values only")
}

// deltas.parquet is by pyarrow; arrow-go does not read DELTA_BYTE_ARRAY of fixed length.
func TestDeltaEncodingsAreRead(t *testing.T) {
	columns := readColumns(t, sourcetest.Local(filepath.Join("testdata", "deltas.parquet"), sourcetest.Options(), Open))
	const n = 700
	require.Len(t, columns, 6)
	require.Equal(t, n, columns[0].Len())
	text := func(column, row int) string { return columns[column].ValueStr(row) }
	for i := range n {
		if i%11 == 0 {
			require.True(t, columns[0].IsNull(i), i)
		} else {
			require.Equal(t, fmt.Sprintf("%03d-%03d", i/10, i), string(columns[0].(*array.FixedSizeBinary).Value(i)))
		}
		hundredths := columns[1].(*array.Decimal128).Value(i)
		require.True(t, hundredths.FitsInPrecision(9))
		require.Equal(t, i*i-1000, int(hundredths.LowBits()))
		require.Equal(t, float32(i)/4, columns[2].(*array.Float16).Value(i).Float32())
		if i%5 == 0 {
			require.True(t, columns[3].IsNull(i), i)
		} else {
			require.Equal(t, fmt.Sprint(i*7919%1000-500), text(3, i))
		}
		power := int64(1) << (i % 63)
		if i%2 == 1 {
			power = -power
		}
		require.Equal(t, fmt.Sprint(power), text(4, i))
		list := columns[5].(*array.List)
		from, to := list.ValueOffsets(i)
		require.EqualValues(t, i%4, to-from, i)
		for at := from; at < to; at++ {
			require.Equal(t, fmt.Sprint(i/7+int(at-from)), list.ListValues().ValueStr(int(at)))
		}
	}
}
