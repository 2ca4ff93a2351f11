package parquet

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/sourcetest"
)

// parquetColumnOf is a column as Parquet stores it.
type parquetColumnOf struct {
	values     any // []int32, []parquet.Int96 or []parquet.ByteArray
	defs, reps []int16
}

// parquetOfNodes writes one row group of columns with a schema that Arrow's writer would not
// write.
func parquetOfNodes(t *testing.T, nodes []schema.Node, columns []parquetColumnOf, options ...parquet.WriterProperty) []byte {
	t.Helper()
	root, err := schema.NewGroupNode("schema", parquet.Repetitions.Required, nodes, -1)
	require.NoError(t, err)
	var buf bytes.Buffer
	w := file.NewParquetWriter(&buf, root, file.WithWriterProps(parquet.NewWriterProperties(options...)))
	group, err := w.AppendRowGroupChecked()
	require.NoError(t, err)
	for _, c := range columns {
		chunk, err := group.NextColumn()
		require.NoError(t, err)
		switch values := c.values.(type) {
		case []int32:
			_, err = chunk.(*file.Int32ColumnChunkWriter).WriteBatch(values, c.defs, c.reps)
		case []parquet.Int96:
			_, err = chunk.(*file.Int96ColumnChunkWriter).WriteBatch(values, c.defs, c.reps)
		case []parquet.ByteArray:
			_, err = chunk.(*file.ByteArrayColumnChunkWriter).WriteBatch(values, c.defs, c.reps)
		default:
			t.Fatalf("values of type %T", values)
		}
		require.NoError(t, err)
		require.NoError(t, chunk.Close())
	}
	require.NoError(t, group.Close())
	require.NoError(t, w.Close())
	return buf.Bytes()
}

// readRows returns the schema of a file and its rows as JSON.
func readRows(t *testing.T, content []byte) (*arrow.Schema, string) {
	t.Helper()
	open := fileOf(t, content)
	var batches []string
	require.NoError(t, sourcetest.Read(open, nil, source.WholeInput, func(b arrow.RecordBatch) {
		rows, err := b.MarshalJSON()
		require.NoError(t, err)
		batches = append(batches, strings.TrimSuffix(strings.TrimPrefix(string(rows), "["), "]"))
	}))
	return sourcetest.Info(t, open).Schema, "[" + strings.Join(batches, ",") + "]"
}

func int96(day uint32, nanoseconds int64) (v parquet.Int96) {
	binary.LittleEndian.PutUint64(v[:], uint64(nanoseconds))
	binary.LittleEndian.PutUint32(v[8:], 2440588+day)
	return v
}

// Spark writes times of any year as INT96. Years that nanoseconds hold stay nanoseconds, up
// to the first and the last of them.
func TestParquetINT96BeyondNanosecondsIsMicroseconds(t *testing.T) {
	const day = 24 * 3600 * int64(1e9)
	node := func(name string) schema.Node {
		return schema.NewInt96Node(name, parquet.Repetitions.Optional, -1)
	}
	first, last := int64(math.MinInt64), int64(math.MaxInt64)
	floor := first/day - 1
	negative := uint32(0)
	content := parquetOfNodes(t, []schema.Node{node("nanoseconds"), node("years")}, []parquetColumnOf{
		{[]parquet.Int96{int96(uint32(last/day), last%day), int96(negative+uint32(floor), first-floor*day), int96(0, 1)}, []int16{1, 1, 0, 1}, nil},
		// 9999-12-31, and the year 290000 as Spark 3.4 wrote it: both numbers have overflowed.
		{[]parquet.Int96{int96(2932896, day-1000), int96(negative-108302821, -32509551616000), int96(0, 5000)}, []int16{1, 1, 0, 1}, nil},
	})
	got, rows := readRows(t, content)
	assert.Equal(t, "timestamp[ns]", got.Field(0).Type.String())
	assert.Equal(t, "timestamp[us]", got.Field(1).Type.String())
	for _, want := range []string{
		"2262-04-11T23:47:16.854775807", "1677-09-21T00:12:43.145224192", "1970-01-01T00:00:00.000000001",
		"9999-12-31T23:59:59.999999", "9089380306800000000", "1970-01-01T00:00:00.000005",
	} {
		assert.Contains(t, rows, want)
	}

	mixed := parquetOfNodes(t, []schema.Node{node("a")}, []parquetColumnOf{{[]parquet.Int96{int96(2932896, 1)}, []int16{1}, nil}})
	require.ErrorContains(t, sourcetest.ReadAll(fileOf(t, mixed)), `column "a": INT96 with nanoseconds`)
}

// Elements of a repeated field without an annotation have its name and are never null. A
// list of lists may repeat groups named array.
func TestOldListsOfParquetHaveTheirTypes(t *testing.T) {
	repeated := func(name string) schema.Node {
		return schema.NewInt32Node(name, parquet.Repetitions.Repeated, -1)
	}
	inner, err := schema.NewGroupNodeLogical("array", parquet.Repetitions.Repeated, []schema.Node{repeated("array")}, schema.NewListLogicalType(), -1)
	require.NoError(t, err)
	outer, err := schema.NewGroupNodeLogical("lists", parquet.Repetitions.Required, []schema.Node{inner}, schema.NewListLogicalType(), -1)
	require.NoError(t, err)
	group, err := schema.NewGroupNode("group", parquet.Repetitions.Repeated, []schema.Node{repeated("n")}, -1)
	require.NoError(t, err)
	content := parquetOfNodes(t, []schema.Node{repeated("plain"), outer, group}, []parquetColumnOf{
		{[]int32{1, 2, 3}, []int16{1, 1, 0, 1}, []int16{0, 1, 0, 0}},
		{[]int32{1, 2, 3, 4}, []int16{2, 2, 2, 0, 1, 2}, []int16{0, 2, 1, 0, 0, 1}},
		{[]int32{1, 2, 3}, []int16{2, 2, 0, 1, 2}, []int16{0, 2, 0, 0, 1}},
	})
	got, rows := readRows(t, content)
	assert.Equal(t, "list<plain: int32>", got.Field(0).Type.String())
	assert.Equal(t, "list<array: list<array: int32>>", got.Field(1).Type.String())
	assert.Equal(t, "list<group: struct<n: list<n: int32>>>", got.Field(2).Type.String())
	assert.JSONEq(t, `[{"plain":[1,2],"lists":[[1,2],[3]],"group":[{"n":[1,2]}]},
		{"plain":[],"lists":[],"group":[]},
		{"plain":[3],"lists":[[],[4]],"group":[{"n":[]},{"n":[3]}]}]`, rows)
}

// Presto has written maps whose keys may be null, which Arrow does not have.
func TestParquetMapsWithKeysThatMayBeNullAreListsOfStructs(t *testing.T) {
	optional := func(name string) schema.Node {
		return schema.NewInt32Node(name, parquet.Repetitions.Optional, -1)
	}
	entries, err := schema.NewGroupNode("key_value", parquet.Repetitions.Repeated, []schema.Node{optional("key"), optional("value")}, -1)
	require.NoError(t, err)
	node, err := schema.NewGroupNodeLogical("m", parquet.Repetitions.Optional, []schema.Node{entries}, schema.MapLogicalType{}, -1)
	require.NoError(t, err)
	levels := [2][]int16{{3, 2, 0}, {0, 1, 0}}
	content := parquetOfNodes(t, []schema.Node{node, optional("n")}, []parquetColumnOf{
		{[]int32{7}, levels[0], levels[1]}, {[]int32{8}, levels[0], levels[1]}, {[]int32{9}, []int16{1, 0}, nil},
	})
	got, rows := readRows(t, content)
	assert.Equal(t, "struct<key_value: list<key_value: struct<key: int32 nullable, value: int32 nullable>>>", got.Field(0).Type.String())
	assert.JSONEq(t, `[{"m":{"key_value":[{"key":7,"value":8},{"key":null,"value":null}]},"n":9},{"m":null,"n":null}]`, rows)
}

// Until version 2, Arrow's C++ writer said of compressed pages that they are not.
func TestParquetPagesOfOldWritersAreCompressed(t *testing.T) {
	for _, c := range []struct {
		writer   string
		readable bool
	}{{"parquet-cpp version 1.5.1-SNAPSHOT", true}, {"parquet-cpp version 2.0.0", false}, {"parquet-go version 1", false}} {
		t.Run(c.writer, func(t *testing.T) {
			values := make([]int32, 1000)
			content := parquetOfNodes(t, []schema.Node{schema.NewInt32Node("a", parquet.Repetitions.Required, -1)}, []parquetColumnOf{{values, nil, nil}},
				parquet.WithCreatedBy(c.writer), parquet.WithCompression(compress.Codecs.Snappy), parquet.WithDictionaryDefault(false),
				parquet.WithStats(false), parquet.WithDataPageVersion(parquet.DataPageV2))
			// The last field of the page's header is 8, two after 6. is_compressed, which is
			// false, is put between them. 4,000 bytes follow.
			at := bytes.Index(content, []byte{0x2c, 0, 0, 0, 4000&0x7f | 0x80, 4000 >> 7})
			require.Positive(t, at)
			content = slices.Concat(content[:at], []byte{0x12, 0x1c}, content[at+1:])
			if !c.readable {
				require.ErrorContains(t, sourcetest.ReadAll(fileOf(t, content)), "cut off")
				return
			}
			_, rows := readRows(t, content)
			assert.Equal(t, 1000, strings.Count(rows, `{"a":0}`))
		})
	}
}

// parquet-avro writes lists whose repeated group is the element, which may be a map.
func TestElementsThatAreRepeatedGroupsOfParquetAreNeverNull(t *testing.T) {
	required := func(name string) schema.Node {
		return schema.NewInt32Node(name, parquet.Repetitions.Required, -1)
	}
	list := func(name string, repeated schema.Node) schema.Node {
		n, err := schema.NewGroupNodeLogical(name, parquet.Repetitions.Optional, []schema.Node{repeated}, schema.NewListLogicalType(), -1)
		require.NoError(t, err)
		return n
	}
	two, err := schema.NewGroupNode("element", parquet.Repetitions.Repeated, []schema.Node{required("x"), required("y")}, -1)
	require.NoError(t, err)
	one, err := schema.NewGroupNode("array", parquet.Repetitions.Repeated, []schema.Node{required("x")}, -1)
	require.NoError(t, err)
	entries, err := schema.NewGroupNode("map", parquet.Repetitions.Repeated, []schema.Node{required("key"), required("value")}, -1)
	require.NoError(t, err)
	maps, err := schema.NewGroupNodeLogical("array", parquet.Repetitions.Repeated, []schema.Node{entries}, schema.MapLogicalType{}, -1)
	require.NoError(t, err)
	structs := [2][]int16{{2, 2, 0, 1}, {0, 1, 0, 0}}
	inner := [2][]int16{{3, 3, 2, 0, 1}, {0, 2, 1, 0, 0}}
	content := parquetOfNodes(t, []schema.Node{list("two", two), list("one", one), list("maps", maps)}, []parquetColumnOf{
		{[]int32{1, 2}, structs[0], structs[1]}, {[]int32{3, 4}, structs[0], structs[1]}, {[]int32{5, 6}, structs[0], structs[1]},
		{[]int32{1, 2}, inner[0], inner[1]}, {[]int32{7, 8}, inner[0], inner[1]},
	})
	got, rows := readRows(t, content)
	assert.Equal(t, "list<element: struct<x: int32, y: int32>>", got.Field(0).Type.String())
	assert.Equal(t, "list<array: struct<x: int32>>", got.Field(1).Type.String())
	assert.Equal(t, "list<array: map<int32, int32, items_non_nullable>>", got.Field(2).Type.String())
	assert.JSONEq(t, `[{"two":[{"x":1,"y":3},{"x":2,"y":4}],"one":[{"x":5},{"x":6}],"maps":[[{"key":1,"value":7},{"key":2,"value":8}],[]]},
		{"two":null,"one":null,"maps":null},{"two":[],"one":[],"maps":[]}]`, rows)
}

// Java's BigDecimal may have more digits than a decimal of Arrow.
func TestParquetDecimalsOfTooManyDigitsAreBytes(t *testing.T) {
	decimal := func(digits int32) schema.Node {
		n, err := schema.NewPrimitiveNodeLogical("d", parquet.Repetitions.Required, schema.NewDecimalLogicalType(digits, 2), parquet.Types.ByteArray, 0, -1)
		require.NoError(t, err)
		return n
	}
	for digits, want := range map[int32]string{76: "decimal256(76, 2)", 77: "binary"} {
		content := parquetOfNodes(t, []schema.Node{decimal(digits)}, []parquetColumnOf{{[]parquet.ByteArray{{1}, {2, 3}}, nil, nil}})
		got, _ := readRows(t, content)
		assert.Equal(t, want, got.Field(0).Type.String())
	}
}

// parquet-go writes structs without fields as groups without columns.
func TestParquetGroupsWithoutColumnsAreLeftOut(t *testing.T) {
	group := func(name string, nodes ...schema.Node) schema.Node {
		n, err := schema.NewGroupNode(name, parquet.Repetitions.Optional, nodes, -1)
		require.NoError(t, err)
		return n
	}
	number := func(name string) schema.Node {
		return schema.NewInt32Node(name, parquet.Repetitions.Required, -1)
	}
	nodes := []schema.Node{number("a"), group("empty", group("inner")), group("s", group("inner"), number("b")), number("c")}
	content := parquetOfNodes(t, nodes, []parquetColumnOf{
		{[]int32{1, 2}, nil, nil}, {[]int32{3}, []int16{1, 0}, nil}, {[]int32{4, 5}, nil, nil},
	})
	got, rows := readRows(t, content)
	assert.Equal(t, "struct<b: int32>", got.Field(1).Type.String())
	assert.JSONEq(t, `[{"a":1,"s":{"b":3},"c":4},{"a":2,"s":null,"c":5}]`, rows)
}
