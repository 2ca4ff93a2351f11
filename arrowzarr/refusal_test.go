package arrowzarr_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
)

// unsupported is the types that have no Zarr form, each with what an error must
// call it.
var unsupported = []struct {
	kind arrow.DataType
	name string
}{
	{arrow.StructOf(arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int8}), "struct<x: int8>"},
	{arrow.ListOf(arrow.PrimitiveTypes.Int32), "list<item: int32, nullable>"},
	{arrow.LargeListOf(arrow.PrimitiveTypes.Int32), "large_list<item: int32, nullable>"},
	{arrow.ListViewOf(arrow.PrimitiveTypes.Int32), "list_view<item: int32, nullable>"},
	{arrow.LargeListViewOf(arrow.PrimitiveTypes.Int32), "large_list_view<item: int32, nullable>"},
	{arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int8), "map<utf8, int8"},
	{arrow.SparseUnionOf([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int8}}, []arrow.UnionTypeCode{0}), "sparse_union"},
	{arrow.DenseUnionOf([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int8}}, []arrow.UnionTypeCode{0}), "dense_union"},
	{arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String), "run_end_encoded"},
	{arrow.FixedWidthTypes.MonthInterval, "month_interval"},
	{arrow.FixedWidthTypes.DayTimeInterval, "day_time_interval"},
	{arrow.FixedWidthTypes.MonthDayNanoInterval, "month_day_nano_interval"},
	{arrow.FixedSizeListOf(2, arrow.BinaryTypes.String), "fixed_size_list<item: utf8, nullable>[2]"},
	{arrow.FixedSizeListOf(2, arrow.FixedWidthTypes.Date32), "fixed_size_list<item: date32, nullable>[2]"},
	{arrow.FixedSizeListOf(2, &arrow.Decimal128Type{Precision: 3}), "fixed_size_list<item: decimal(3, 0), nullable>[2]"},
	{arrow.FixedSizeListOf(2, arrow.ListOf(arrow.PrimitiveTypes.Int8)), "fixed_size_list<item: list"},
	{&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.ListOf(arrow.PrimitiveTypes.Int8)}, "dictionary<values=list"},
	{&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.Null}, "dictionary values of type null"},
	{&arrow.FixedSizeBinaryType{ByteWidth: -3}, "fixed_size_binary[-3]"},
}

func TestTypesWithoutZarrFormAreRefused(t *testing.T) {
	for _, test := range unsupported {
		t.Run(test.name, func(t *testing.T) {
			good := arrow.Field{Name: "good", Type: arrow.PrimitiveTypes.Int8}
			bad := arrow.Field{Name: "the bad one", Type: test.kind, Nullable: true}
			input := table{schema: arrow.NewSchema([]arrow.Field{good, bad}, nil)}
			for _, content := range [][]byte{input.file(t), input.stream(t)} {
				path := inputFile(t, content)
				message := refuse(t, arrowzarr.PartInput, path, arrowzarr.Options{})
				assert.Contains(t, message, `"the bad one"`)
				assert.Contains(t, message, test.name)
				output, _ := convertFile(t, path, arrowzarr.Options{Columns: []string{"good"}})
				requireTable(t, input.choose(0), output)
			}
		})
	}
}

func TestNamesThatNoNodeCanHaveAreRefused(t *testing.T) {
	for _, name := range []string{"", "a/b", ".", "..", "...", "__hidden", "zarr.json", "/", "bad\xff", ".quiver-x"} {
		t.Run(name, func(t *testing.T) {
			input := single(name, texts("a")).file(t)
			message := refuse(t, arrowzarr.PartInput, inputFile(t, input), arrowzarr.Options{})
			assert.Contains(t, message, strconv.Quote(name))
		})
	}
}

func TestNamesThatNoFileCanHaveAreRefused(t *testing.T) {
	input := inputFile(t, single(strings.Repeat("n", 300), texts("a")).file(t))
	assert.Contains(t, refuse(t, arrowzarr.PartInput, input, arrowzarr.Options{}), "the name has 300 bytes, where files have 255 at most")
	output := filepath.Join(t.TempDir(), strings.Repeat("o", 250))
	_, err := arrowzarr.Convert(t.Context(), inputFile(t, single("a", texts("b")).file(t)), output, arrowzarr.Options{})
	assert.NoError(t, err, "an output's may be as long, though what it is built in has a longer one")
}

func TestNamesThatLookStrangeAreNot(t *testing.T) {
	for _, name := range []string{" ", "a b", ".building", ".quiver", "_", "%2F", "c", "values", "日本", "..a", "a\\b", "con", strings.Repeat("n", 200)} {
		t.Run(name, func(t *testing.T) {
			want := single(name, texts("a", "-"), texts("b"))
			output, _ := convert(t, want.file(t), arrowzarr.Options{ChunkRows: 1})
			requireTable(t, want, output)
		})
	}
}

func TestDuplicateNamesAreRefused(t *testing.T) {
	kind := arrow.PrimitiveTypes.Int8
	input := table{schema: arrow.NewSchema([]arrow.Field{{Name: "a", Type: kind}, {Name: "b", Type: kind}, {Name: "a", Type: kind}}, nil)}
	path := inputFile(t, input.stream(t))
	for _, columns := range [][]string{nil, {"a"}} {
		message := refuse(t, arrowzarr.PartInput, path, arrowzarr.Options{Columns: columns})
		assert.Contains(t, message, `"a" occurs more than once`)
	}
	output, _ := convertFile(t, path, arrowzarr.Options{Columns: []string{"b"}})
	requireTable(t, input.choose(1), output)
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	path := inputFile(t, single("a", texts("x")).file(t))
	for want, options := range map[string]arrowzarr.Options{
		`no column is named "b": expected some of "a"`: {Columns: []string{"a", "b"}},
		"jobs: -1":       {Jobs: -1},
		"chunk rows: -1": {ChunkRows: -1},
		"shard rows: -4": {ChunkRows: 2, ShardRows: -4},
		"shard rows: 4, expected a multiple of the chunk rows, which must": {ShardRows: 4},
		"shard rows: 5, expected a multiple":                               {ChunkRows: 2, ShardRows: 5},
		"max memory: 1000 bytes, expected at least":                        {MaxMemory: 1000},
		"max memory: -1 bytes":                                             {MaxMemory: -1},
		`codec "lz4": expected none`:                                       {Codec: arrowzarr.Codec{Name: "lz4"}},
		`codec "": expected none`:                                          {Codec: arrowzarr.Codec{Level: 3}},
		"expected a level from -131072 to 22, not 100":                     {Codec: arrowzarr.Codec{Name: "zstd", Level: 100}},
		"lower --chunk-rows, or raise --max-memory":                        {ChunkRows: 1 << 31},
		"lower --shard-rows, raise --chunk-rows":                           {ChunkRows: 1, ShardRows: 1 << 40},
	} {
		assert.Contains(t, refuse(t, arrowzarr.PartUsage, path, options), want)
	}
}

func TestInputsThatAreNoTablesAreRefused(t *testing.T) {
	columns := sampleTable(1, []int{20, 20}, 0.3)
	file, stream := columns.file(t), columns.stream(t)
	parquet := single("a", texts("x", "y")).parquet(t)
	footer := make([]byte, 8)
	binary.LittleEndian.PutUint32(footer, 1<<31-1)
	tests := map[string]struct {
		content []byte
		want    string
	}{
		"empty":                      {nil, "is empty: expected an Arrow IPC file or stream, or a Parquet file"},
		"text":                       {[]byte("name,value\na,1\n"), "is neither an Arrow IPC file or stream nor a Parquet file"},
		"one byte":                   {[]byte{0xff}, "is neither an Arrow IPC file or stream nor a Parquet file"},
		"Feather version 1":          {[]byte("FEA1....and more"), "Feather version 1"},
		"IPC file cut in half":       {file[:len(file)/2], "Arrow IPC file"},
		"IPC file without its end":   {file[:len(file)-1], "Arrow IPC file"},
		"IPC file of its magic":      {[]byte("ARROW1\x00\x00"), "Arrow IPC file"},
		"IPC stream cut in schema":   {stream[:100], "Arrow IPC stream"},
		"IPC stream cut in a batch":  {stream[:len(stream)*2/3], ""},
		"IPC stream with a tail":     {append(stream[:len(stream)-8:len(stream)-8], "garbage follows"...), ""},
		"continuation only":          {[]byte{0xff, 0xff, 0xff, 0xff, 8, 0, 0, 0}, "Arrow IPC stream"},
		"Parquet cut in half":        {parquet[:len(parquet)/2], "Parquet file"},
		"Parquet of its magic":       {[]byte("PAR1"), "Parquet file"},
		"Parquet with a long footer": {append(append([]byte("PAR1"), footer[:4]...), "PAR1"...), "Parquet file"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			message := refuse(t, arrowzarr.PartInput, inputFile(t, test.content), arrowzarr.Options{})
			assert.Contains(t, message, test.want)
			assert.NotContains(t, message, "goroutine")
		})
	}
}

func TestInputsThatCannotBeOpenedAreRefused(t *testing.T) {
	dir := t.TempDir()
	assert.Contains(t, refuse(t, arrowzarr.PartInput, dir, arrowzarr.Options{}), "is a directory: expected an Arrow IPC file or stream, or a Parquet file")
	missing := filepath.Join(dir, "missing.arrow")
	assert.Contains(t, refuse(t, arrowzarr.PartInput, missing, arrowzarr.Options{}), missing)
	secret := inputFile(t, single("a", texts("x")).file(t))
	require.NoError(t, os.Chmod(secret, 0))
	if _, err := os.ReadFile(secret); err == nil {
		t.Skip("this user reads everything")
	}
	assert.Contains(t, refuse(t, arrowzarr.PartInput, secret, arrowzarr.Options{}), "permission denied")
}

func TestTextThatIsNotUTF8IsRefused(t *testing.T) {
	for name, kind := range map[string]arrow.BinaryDataType{"utf8": arrow.BinaryTypes.String, "large_utf8": arrow.BinaryTypes.LargeString} {
		t.Run(name, func(t *testing.T) {
			b := array.NewBinaryBuilder(memory.DefaultAllocator, kind)
			b.AppendString("fine")
			b.AppendString("bro\xffken")
			b.AppendString("fine")
			for _, rows := range []int64{0, 1} {
				input := single("words", b.NewArray()).stream(t)
				message := refuse(t, arrowzarr.PartInput, inputFile(t, input), arrowzarr.Options{ChunkRows: rows})
				assert.Contains(t, message, `column "words"`)
				assert.Contains(t, message, "UTF-8")
				b.AppendString("\xf0\x28\x8c\x28")
			}
		})
	}
	t.Run("dictionary", func(t *testing.T) {
		input := single("words", encoded(arrow.PrimitiveTypes.Int8, texts("fine", "bro\xffken"), 0)).stream(t)
		message := refuse(t, arrowzarr.PartInput, inputFile(t, input), arrowzarr.Options{})
		assert.Contains(t, message, `column "words"`)
		assert.Contains(t, message, "UTF-8")
	})
}
