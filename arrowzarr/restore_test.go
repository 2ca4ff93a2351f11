package arrowzarr_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/sourcetest"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
)

// requireVerified checks that an output equals its input, by Verify and by restoring it.
func requireVerified(tb testing.TB, input, output string) {
	tb.Helper()
	report, err := arrowzarr.Verify(tb.Context(), input, output, arrowzarr.Options{})
	require.NoError(tb, err)
	require.Empty(tb, report.Difference)
	want := readTable(tb, input)
	assert.Equal(tb, want.Rows(), report.Rows)
	if !bytes.HasPrefix(readFile(tb, input), []byte("PAR1")) {
		restored := filepath.Join(tb.TempDir(), "restored.arrow")
		_, err := arrowzarr.Restore(tb.Context(), output, restored, arrowzarr.RestoreOptions{BatchRows: 13})
		require.NoError(tb, err)
		requireEqualTables(tb, want, readTable(tb, restored))
	}
}

func readFile(tb testing.TB, path string) []byte {
	tb.Helper()
	content, err := os.ReadFile(path)
	require.NoError(tb, err)
	return content
}

// requireEqualTables compares tables whose batches may differ in length, by arrow-go's
// comparison and bitwise.
func requireEqualTables(tb testing.TB, want, got tabletest.Table) {
	tb.Helper()
	require.True(tb, want.Schema.Equal(got.Schema), "got schema %s, expected %s", got.Schema, want.Schema)
	wanted := want.Schema.Metadata()
	require.True(tb, wanted.Equal(got.Schema.Metadata()))
	require.Equal(tb, want.Rows(), got.Rows())
	for i, field := range want.Schema.Fields() {
		a, b := slotsOf(want.Column(i)), slotsOf(got.Column(i))
		for row := range a {
			require.True(tb, equalSlots(a[row], b[row]), "column %q of %s, row %d: got %s, expected %s", field.Name, field.Type, row, b[row], a[row])
		}
	}
}

// slotsOf returns each row as an array of one value.
func slotsOf(chunks []arrow.Array) (slots []arrow.Array) {
	for _, c := range chunks {
		for i := range c.Len() {
			slots = append(slots, array.NewSlice(c, int64(i), int64(i)+1))
		}
	}
	return slots
}

// equalSlots compares by BitwiseEqual and by what the values print, since the first
// compares dictionaries with their unused values.
func equalSlots(a, b arrow.Array) bool {
	return arrowbuf.BitwiseEqual(a, b) || a.ValueStr(0) == b.ValueStr(0) && arrow.TypeEqual(a.DataType(), b.DataType())
}

// nestedTypes is each kind of type that becomes an awkward array, and those that are
// decoded.
func nestedTypes() []arrow.DataType {
	i32, text := arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String
	pair := arrow.StructOf(arrow.Field{Name: "a", Type: i32, Nullable: true}, arrow.Field{Name: "b", Type: text, Nullable: true})
	union := []arrow.Field{{Name: "i", Type: i32, Nullable: true}, {Name: "s", Type: text, Nullable: true}, {Name: "n", Type: arrow.Null, Nullable: true}}
	codes := []arrow.UnionTypeCode{5, 7, 100}
	return []arrow.DataType{
		arrow.ListOf(i32), arrow.LargeListOf(text), arrow.ListViewOf(arrow.FixedWidthTypes.Boolean), arrow.LargeListViewOf(arrow.BinaryTypes.LargeBinary),
		arrow.ListOf(arrow.ListOf(arrow.BinaryTypes.StringView)), arrow.ListOf(pair), pair, arrow.StructOf(),
		arrow.StructOf(arrow.Field{Name: "a/b", Type: pair, Nullable: true}, arrow.Field{Name: "", Type: arrow.ListOf(pair), Nullable: true}, arrow.Field{Name: "", Type: i32, Nullable: true}),
		arrow.MapOf(text, i32), arrow.MapOf(i32, arrow.ListOf(arrow.FixedWidthTypes.Date32)),
		arrow.SparseUnionOf(union, codes), arrow.DenseUnionOf(union, codes),
		arrow.DenseUnionOf([]arrow.Field{{Name: "u", Type: arrow.SparseUnionOf(union, codes), Nullable: true}, union[0]}, codes[:2]),
		arrow.DenseUnionOf(union[:1], codes[:1]), arrow.ListOf(arrow.SparseUnionOf(union[:2], codes[:2])),
		arrow.FixedWidthTypes.MonthInterval, arrow.FixedWidthTypes.DayTimeInterval, arrow.FixedWidthTypes.MonthDayNanoInterval,
		arrow.ListOf(arrow.FixedWidthTypes.MonthDayNanoInterval), arrow.ListOf(arrow.FixedWidthTypes.MonthInterval),
		arrow.RunEndEncodedOf(i32, text), arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Float64),
		arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int64, arrow.ListOf(i32)),
		arrow.FixedSizeListOf(2, text), arrow.FixedSizeListOf(3, arrow.FixedWidthTypes.Timestamp_us), arrow.FixedSizeListOf(2, &arrow.Decimal128Type{Precision: 30, Scale: 2}),
		arrow.FixedSizeListOf(2, pair), arrow.FixedSizeListOf(2, arrow.ListOf(i32)),
		arrow.ListOf(arrow.Null), arrow.ListOf(&arrow.Decimal256Type{Precision: 76, Scale: 3}), arrow.ListOf(&arrow.FixedSizeBinaryType{ByteWidth: 3}),
		arrow.ListOf(&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: text}),
		arrow.ListOf(&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint32, ValueType: i32}),
		arrow.ListOf(arrow.FixedWidthTypes.Float16), arrow.ListOf(arrow.FixedWidthTypes.Duration_s), arrow.ListOf(arrow.FixedSizeListOf(2, i32)),
		arrow.ListOf(&arrow.FixedSizeBinaryType{ByteWidth: 0}),
		arrow.SparseUnionOf([]arrow.Field{
			{Name: "n", Type: arrow.StructOf(arrow.Field{Name: "null", Type: arrow.Null, Nullable: true}), Nullable: true},
			{Name: "l", Type: arrow.LargeListViewOf(arrow.Null), Nullable: true}, {Name: "i", Type: i32, Nullable: true},
		}, []arrow.UnionTypeCode{0, 1, 2}),
	}
}

// nestedTable returns a table of all nested types, of sliced arrays.
func nestedTable(seed uint64, lengths []int, nulls ...float64) tabletest.Table {
	rng := tabletest.NewRand(seed)
	var fields []arrow.Field
	for i, t := range nestedTypes() {
		fields = append(fields, arrow.Field{Name: fmt.Sprintf("%02d", i), Type: t, Nullable: true})
	}
	for i, t := range []arrow.ExtensionType{extensions.NewUUIDType(), extensions.NewBool8Type()} {
		fields = append(fields, arrow.Field{Name: fmt.Sprintf("ext %d", i), Type: arrow.ListOf(t), Nullable: true})
	}
	var batches [][]arrow.Array
	for b, n := range lengths {
		var columns []arrow.Array
		for _, f := range fields {
			columns = append(columns, slicedSample(rng, f.Type, n, nulls[b%len(nulls)]))
		}
		batches = append(batches, columns)
	}
	return tabletest.New(fields, batches...)
}

// slicedSample returns a slice of n values of a longer sample.
func slicedSample(rng *rand.Rand, t arrow.DataType, n int, nulls float64) arrow.Array {
	if list, ok := t.(*arrow.ListType); ok && list.Elem().ID() == arrow.EXTENSION {
		inner := slicedSample(rng, arrow.ListOf(list.Elem().(arrow.ExtensionType).StorageType()), n, nulls)
		data := inner.Data()
		child := data.Children()[0]
		typed := array.NewData(list.Elem(), child.Len(), child.Buffers(), child.Children(), child.NullN(), child.Offset())
		return array.MakeFromData(array.NewData(t, data.Len(), data.Buffers(), []arrow.ArrayData{typed}, data.NullN(), data.Offset()))
	}
	before, after := rng.IntN(10), rng.IntN(10)
	if text := t.String(); strings.Contains(text, "list_view") || strings.Contains(text, "union") {
		before, after = 0, 0 // arrow-go fails to write such slices
	}
	whole := tabletest.Random(rng, t, before+n+after, nulls)
	return array.NewSlice(whole, int64(before), int64(before+n))
}

// Every nested type is stored in chunks of any length, and restored equal.
func TestNestedTypesAreRestored(t *testing.T) {
	for seed, c := range []struct {
		lengths      []int
		nulls        []float64
		chunk, shard int64
	}{
		{[]int{20}, []float64{0}, 0, 0},
		{[]int{20, 0, 7}, []float64{0.3}, 0, 0},
		{[]int{9, 30, 1, 50}, []float64{0, 0.3}, 7, 0},
		{[]int{9, 30, 1, 50}, []float64{0.3, 0}, 7, 21},
		{[]int{12}, []float64{1}, 5, 0},
		{[]int{0}, []float64{0}, 0, 0},
		{nil, nil, 7, 21},
		{[]int{300}, []float64{0.1}, 16, 16},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			if testing.Short() && seed != 1 && seed != 3 { // these have shards, nulls and several batches
				t.Skip("takes seconds")
			}
			t.Parallel()
			want := nestedTable(uint64(seed), c.lengths, c.nulls...)
			for name, encode := range map[string]func(tabletest.Table, testing.TB) []byte{"file": encodings["file"], "stream": encodings["stream"]} {
				if name == "file" && len(c.lengths) > 1 {
					continue // a file cannot replace dictionaries inside of lists
				}
				t.Run(name, func(t *testing.T) {
					input := inputFile(t, encode(want, t))
					output, _ := convertFile(t, input, arrowzarr.Options{ChunkRows: c.chunk, ShardRows: c.shard})
					requireTable(t, want, output)
					requireVerified(t, input, output)
				})
			}
		})
	}
}

func TestEveryTypeIsRestored(t *testing.T) {
	for seed, nulls := range []float64{0, 0.3, 1} {
		want := withoutListsOfLists(tabletest.RandomTable(uint64(seed), []int{9, 0, 40}, nulls))
		input := inputFile(t, want.Stream(t))
		output, _ := convertFile(t, input, arrowzarr.Options{ChunkRows: 16})
		requireVerified(t, input, output)
	}
}

// Restore writes the columns that are chosen, with the table's metadata.
func TestSomeColumnsAreRestored(t *testing.T) {
	want := tabletest.RandomTable(3, []int{20}, 0.2)
	output, _ := convertFile(t, inputFile(t, want.Stream(t)), arrowzarr.Options{})
	names := []string{want.Schema.Field(0).Name, want.Schema.Field(2).Name}
	restored := filepath.Join(t.TempDir(), "restored.arrow")
	report, err := arrowzarr.Restore(t.Context(), output, restored, arrowzarr.RestoreOptions{Columns: []string{"*"}, Exclude: names})
	require.NoError(t, err)
	assert.Equal(t, want.Schema.NumFields()-2, report.Columns)
	others := []int{1}
	for i := 3; i < want.Schema.NumFields(); i++ {
		others = append(others, i)
	}
	requireEqualTables(t, withoutListsOfLists(want.Choose(others...)), withoutListsOfLists(readTable(t, restored)))
	_, err = arrowzarr.Restore(t.Context(), output, filepath.Join(t.TempDir(), "none.arrow"), arrowzarr.RestoreOptions{MaxMemory: 1 << 20})
	assert.ErrorContains(t, err, "max memory")
}

// A row group is smaller where the values of a large dictionary would take much memory.
func TestRowGroupsOfLargeDictionariesAreSmall(t *testing.T) {
	kind := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}
	b := array.NewDictionaryBuilder(memory.DefaultAllocator, kind).(*array.BinaryDictionaryBuilder)
	const rows, values = 2000, 400
	for i := range rows {
		require.NoError(t, b.AppendString(strings.Repeat(fmt.Sprint(i%values, " "), 1000)))
	}
	want := tabletest.Single("text", b.NewArray())
	output, _ := convertFile(t, inputFile(t, want.Stream(t)), arrowzarr.Options{})
	restored := filepath.Join(t.TempDir(), "restored.parquet")
	opened := openTable(t, output, arrowzarr.TableOptions{BatchBytes: 1 << 20})
	var content bytes.Buffer
	require.NoError(t, opened.WriteParquet(t.Context(), &content))
	require.NoError(t, os.WriteFile(restored, content.Bytes(), 0o666))
	r, err := file.OpenParquetFile(restored, false)
	require.NoError(t, err)
	assert.Greater(t, r.NumRowGroups(), 1)
	require.NoError(t, r.Close())
	report, err := arrowzarr.Verify(t.Context(), restored, output, arrowzarr.Options{})
	require.NoError(t, err)
	assert.Empty(t, report.Difference)
}

// Every column that Parquet cannot hold is named, with what can.
func TestColumnsThatParquetCannotHoldAreNamed(t *testing.T) {
	interval := tabletest.FromJSON(t, arrow.FixedWidthTypes.MonthDayNanoInterval, `[{"months": 1, "days": 2, "nanoseconds": 3}]`)
	tags := array.NewInt8Builder(memory.DefaultAllocator)
	tags.Append(0)
	union, err := array.NewSparseUnionFromArrays(tags.NewArray().(*array.Int8), []arrow.Array{tabletest.Floats(1)})
	require.NoError(t, err)
	want := tabletest.New([]arrow.Field{
		{Name: "x", Type: arrow.PrimitiveTypes.Float64, Nullable: true}, {Name: "span", Type: interval.DataType(), Nullable: true}, {Name: "either", Type: union.DataType(), Nullable: true},
	}, []arrow.Array{tabletest.Floats(1), interval, union})
	output, _ := convertFile(t, inputFile(t, want.Stream(t)), arrowzarr.Options{})
	restored := filepath.Join(t.TempDir(), "restored.parquet")
	_, err = arrowzarr.Restore(t.Context(), output, restored, arrowzarr.RestoreOptions{})
	require.Error(t, err)
	for _, text := range []string{`"span"`, `"either"`, "month_day_nano_interval", "sparse_union", ".arrow or .arrows"} {
		assert.ErrorContains(t, err, text)
	}
	assert.NotContains(t, err.Error(), `"x"`)
	assert.NoFileExists(t, restored)
}

// Types that arrow-go cannot write to Parquet are restored to it, also inside lists,
// structs and extension types: durations, views, small decimals, list views and missing
// lists of a fixed_size_list.
func TestRestoreToParquetKeepsTypesThatParquetLacks(t *testing.T) {
	rng := tabletest.NewRand(3)
	var fields []arrow.Field
	var columns []arrow.Array
	for _, kind := range []arrow.DataType{
		arrow.FixedWidthTypes.Duration_s, arrow.FixedWidthTypes.Duration_ns, arrow.BinaryTypes.StringView, arrow.BinaryTypes.BinaryView,
		&arrow.Decimal32Type{Precision: 9, Scale: 2}, &arrow.Decimal64Type{Precision: 18, Scale: 3},
		arrow.StructOf(arrow.Field{Name: "d", Type: arrow.FixedWidthTypes.Duration_ms, Nullable: true}),
		arrow.ListViewOf(arrow.BinaryTypes.StringView), arrow.LargeListViewOf(arrow.ListViewOf(arrow.PrimitiveTypes.Int8)),
		arrow.ListViewOf(arrow.FixedSizeListOf(2, arrow.LargeListOf(arrow.BinaryTypes.LargeBinary))),
		arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Int16), arrow.FixedSizeListOf(2, arrow.ListOf(arrow.FixedSizeListOf(2, arrow.BinaryTypes.String))),
	} {
		fields = append(fields, arrow.Field{Name: kind.String(), Type: kind, Nullable: true})
		columns = append(columns, tabletest.Random(rng, kind, 40, 0.3))
	}
	for name, input := range map[string]string{
		"by arrow-go": inputFile(t, tabletest.New(fields, columns).File(t)),
		"by pyarrow":  filepath.Join("internal", "source", "parquet", "testdata", "types.parquet"),
	} {
		t.Run(name, func(t *testing.T) {
			output, _ := convertFile(t, input, arrowzarr.Options{})
			restored := filepath.Join(t.TempDir(), "restored.parquet")
			_, err := arrowzarr.Restore(t.Context(), output, restored, arrowzarr.RestoreOptions{BatchRows: 13})
			require.NoError(t, err)
			report, err := arrowzarr.Verify(t.Context(), restored, output, arrowzarr.Options{})
			require.NoError(t, err)
			assert.Empty(t, report.Difference)
		})
	}
}

// Parquet has the values of runs and of dictionaries of lists, and the Arrow schema their
// types.
func TestRunsAreRestoredToParquetAsTheirValues(t *testing.T) {
	i32, text := arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String
	rng := tabletest.NewRand(8)
	var fields []arrow.Field
	var columns []arrow.Array
	for _, kind := range []arrow.DataType{
		arrow.RunEndEncodedOf(i32, text), arrow.RunEndEncodedOf(i32, arrow.ListOf(i32)), arrow.ListOf(arrow.RunEndEncodedOf(i32, arrow.PrimitiveTypes.Float64)),
		arrow.StructOf(arrow.Field{Name: "r", Type: arrow.RunEndEncodedOf(i32, text), Nullable: true}),
	} {
		fields = append(fields, arrow.Field{Name: kind.String(), Type: kind, Nullable: true})
		columns = append(columns, array.NewSlice(tabletest.Random(rng, kind, 40, 0.3), 0, 30))
	}
	want := tabletest.New(fields, columns)
	restored, _ := restoredParquet(t, want)
	got := readTable(t, restored)
	for i, column := range columns {
		decoded := plainText(column)
		for row, value := range plainText(got.Column(i)...) {
			require.Equal(t, decoded[row], value, "%s, row %d", fields[i].Type, row)
		}
	}
}

// Parquet has no negative scales. The decimals are restored to it as ones of scale 0,
// except of more digits than it has.
func TestDecimalsOfNegativeScaleAreRestoredToParquet(t *testing.T) {
	var fields []arrow.Field
	var columns []arrow.Array
	kinds := []arrow.DataType{
		&arrow.Decimal32Type{Precision: 5, Scale: -2}, &arrow.Decimal64Type{Precision: 10, Scale: -2}, &arrow.Decimal128Type{Precision: 36, Scale: -2},
		&arrow.Decimal128Type{Precision: 38, Scale: -2}, &arrow.Decimal256Type{Precision: 20, Scale: -2}, &arrow.Decimal256Type{Precision: 74, Scale: -2},
	}
	for _, kind := range kinds {
		width := kind.(arrow.FixedWidthDataType).Bytes()
		values := make([]byte, 4*width)
		for row, n := range []int64{12, 7, -1, 99} {
			for i := range width {
				values[row*width+i] = byte(n >> min(8*i, 63))
			}
		}
		buffers := []*memory.Buffer{memory.NewBufferBytes([]byte{0b1101}), memory.NewBufferBytes(values)}
		fields = append(fields, arrow.Field{Name: kind.String(), Type: kind, Nullable: true})
		columns = append(columns, array.MakeFromData(array.NewData(kind, 4, buffers, nil, 1, 0)))
	}
	want := tabletest.New(fields, columns)
	restored, _ := restoredParquet(t, want)
	got := readTable(t, restored)
	for i, kind := range kinds {
		assert.Equal(t, []string{"1200", "(null)", "-100", "9900"}, plainText(got.Column(i)...), kind)
	}

	long := arrow.Field{Name: "long", Type: &arrow.Decimal256Type{Precision: 76, Scale: -2}}
	output, _ := convertFile(t, inputFile(t, tabletest.New([]arrow.Field{long}).Stream(t)), arrowzarr.Options{})
	_, err := arrowzarr.Restore(t.Context(), output, filepath.Join(t.TempDir(), "long.parquet"), arrowzarr.RestoreOptions{})
	assert.ErrorContains(t, err, `column "long" of type decimal256(76, -2) has no form in Parquet`)
}

// restoredParquet converts a table, and restores that to Parquet.
func restoredParquet(t *testing.T, in tabletest.Table) (restored, output string) {
	t.Helper()
	output, _ = convertFile(t, inputFile(t, in.Stream(t)), arrowzarr.Options{})
	restored = filepath.Join(t.TempDir(), "restored.parquet")
	_, err := arrowzarr.Restore(t.Context(), output, restored, arrowzarr.RestoreOptions{})
	require.NoError(t, err)
	return restored, output
}

// plainText returns what the values of arrays print.
func plainText(chunks ...arrow.Array) (all []string) {
	for _, c := range chunks {
		for i := range c.Len() {
			all = append(all, c.ValueStr(i))
		}
	}
	return all
}

// The decimals of a struct stay in their rows where a struct is null.
func TestDecimalsInNullStructsAreRestoredToParquet(t *testing.T) {
	kind := arrow.StructOf(arrow.Field{Name: "d", Type: &arrow.Decimal128Type{Precision: 9, Scale: 2}})
	decimals := array.NewDecimal128Builder(memory.DefaultAllocator, kind.Field(0).Type.(*arrow.Decimal128Type))
	for i := range 8 {
		decimals.Append(decimal128.FromI64(int64(i)))
	}
	validity := memory.NewBufferBytes([]byte{0b10110110})
	structs := array.MakeFromData(array.NewData(kind, 8, []*memory.Buffer{validity}, []arrow.ArrayData{decimals.NewArray().Data()}, 3, 0))
	want := tabletest.New([]arrow.Field{{Name: "s", Type: kind, Nullable: true}}, []arrow.Array{structs})
	restored, output := restoredParquet(t, want)
	report, err := arrowzarr.Verify(t.Context(), restored, output, arrowzarr.Options{})
	require.NoError(t, err)
	assert.Empty(t, report.Difference)
}

// The fields of a variant have an order in Parquet, but not in Arrow.
func TestFieldsOfVariantsAreRestoredToTheirColumns(t *testing.T) {
	kind, err := extensions.NewVariantType(arrow.StructOf(
		arrow.Field{Name: "value", Type: arrow.BinaryTypes.Binary}, arrow.Field{Name: "metadata", Type: arrow.BinaryTypes.Binary}))
	require.NoError(t, err)
	storage := array.NewStructBuilder(memory.DefaultAllocator, kind.StorageType().(*arrow.StructType))
	for range 5 {
		storage.Append(true)
		storage.FieldBuilder(0).(*array.BinaryBuilder).AppendString("the value")
		storage.FieldBuilder(1).(*array.BinaryBuilder).AppendString("the metadata")
	}
	values := array.NewExtensionArrayWithStorage(kind, storage.NewArray())
	restored, _ := restoredParquet(t, tabletest.Single("v", values))
	r, err := file.OpenParquetFile(restored, false)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	for i, want := range []string{"the metadata", "the value"} {
		column, err := r.RowGroup(0).Column(i)
		require.NoError(t, err)
		got, levels := make([]parquet.ByteArray, 5), make([]int16, 5)
		_, read, err := column.(*file.ByteArrayColumnChunkReader).ReadBatch(5, got, levels, nil)
		require.NoError(t, err)
		require.Equal(t, 5, read)
		assert.Equal(t, want, string(got[4]))
	}
}

// Metadata of Arrow may be any bytes, and that of Parquet is text.
func TestMetadataThatIsNoTextIsRestoredToParquet(t *testing.T) {
	want := tabletest.New([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Float64}}, []arrow.Array{tabletest.Floats(1)})
	kept := arrow.NewMetadata([]string{"text", "\xff"}, []string{"日本", "\x00\x80"})
	want.Schema = arrow.NewSchema(want.Schema.Fields(), &kept)
	restored, _ := restoredParquet(t, want)
	got := sourcetest.Info(t, sourceOf(arrowzarr.InputOptions{}, restored)).Schema.Metadata()
	for i, key := range kept.Keys() {
		value, _ := got.GetValue(key)
		assert.Equal(t, kept.Values()[i], value)
	}
}
