package arrowzarr_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
	"github.com/quiver-gpu/quiver/zarr"
)

// attributesOf returns the attributes of the node of a column.
func attributesOf(tb testing.TB, root *zarr.Group, name string) map[string]any {
	tb.Helper()
	switch node := root.Metadata().Consolidated[name].(type) {
	case *zarr.ArrayMetadata:
		return node.Attributes
	case *zarr.GroupMetadata:
		return node.Attributes
	}
	require.Fail(tb, "no such node", name)
	return nil
}

func TestColumnAttributesDescribeTheType(t *testing.T) {
	type attributes = map[string]any
	array := attributes{"encoding-type": "array", "encoding-version": "0.2.0"}
	text := attributes{"encoding-type": "string-array", "encoding-version": "0.2.0"}
	nullableText := attributes{"encoding-type": "nullable-string-array", "encoding-version": "0.1.0", "na-value": "NA"}
	nullableInteger := attributes{"encoding-type": "nullable-integer", "encoding-version": "0.1.0"}
	nullableBoolean := attributes{"encoding-type": "nullable-boolean", "encoding-version": "0.1.0"}
	digits := func(precision, scale string) attributes {
		return attributes{"precision": json.Number(precision), "scale": json.Number(scale)}
	}
	zone := func(name string) attributes { return attributes{"timezone": name} }
	tests := []struct {
		kind           arrow.DataType
		text           string // the attribute arrow_type
		whole, missing attributes
	}{
		{arrow.FixedWidthTypes.Boolean, "bool", array, nullableBoolean},
		{arrow.PrimitiveTypes.Int8, "int8", array, nullableInteger},
		{arrow.PrimitiveTypes.Uint64, "uint64", array, nullableInteger},
		{arrow.FixedWidthTypes.Float16, "float16", array, attributes{}},
		{arrow.PrimitiveTypes.Float64, "float64", array, attributes{}},
		{arrow.BinaryTypes.String, "utf8", text, nullableText},
		{arrow.BinaryTypes.LargeString, "large_utf8", text, nullableText},
		{arrow.BinaryTypes.StringView, "string_view", text, nullableText},
		{arrow.BinaryTypes.Binary, "binary", attributes{}, attributes{}},
		{&arrow.FixedSizeBinaryType{ByteWidth: 5}, "fixed_size_binary[5]", attributes{}, attributes{}},
		{arrow.FixedWidthTypes.Date32, "date32", attributes{}, attributes{}},
		{arrow.FixedWidthTypes.Time64ns, "time64[ns]", attributes{}, attributes{}},
		{&arrow.TimestampType{Unit: arrow.Second}, "timestamp[s]", attributes{}, attributes{}},
		{&arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "Europe/Oslo"}, "timestamp[us, tz=Europe/Oslo]", zone("Europe/Oslo"), zone("Europe/Oslo")},
		{&arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "+05:30"}, "timestamp[ns, tz=+05:30]", zone("+05:30"), zone("+05:30")},
		{arrow.FixedWidthTypes.Duration_ms, "duration[ms]", attributes{}, attributes{}},
		{&arrow.Decimal32Type{Precision: 9, Scale: 2}, "decimal32(9, 2)", digits("9", "2"), digits("9", "2")},
		{&arrow.Decimal64Type{Precision: 18, Scale: 0}, "decimal64(18, 0)", digits("18", "0"), digits("18", "0")},
		{&arrow.Decimal128Type{Precision: 38, Scale: 10}, "decimal(38, 10)", digits("38", "10"), digits("38", "10")},
		{&arrow.Decimal256Type{Precision: 76, Scale: -3}, "decimal256(76, -3)", digits("76", "-3"), digits("76", "-3")},
		{arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Float32), "fixed_size_list<item: float32, nullable>[3]", array, attributes{}},
		{extensions.NewUUIDType(), "extension<arrow.uuid>", attributes{}, attributes{}},
	}
	for _, test := range tests {
		t.Run(test.text, func(t *testing.T) {
			for share, want := range map[float64]attributes{0: test.whole, 1: test.missing} {
				output, _ := convertCodes(t, tabletest.Single("c", tabletest.Random(tabletest.NewRand(1), test.kind, 4, share)).Stream(t), arrowzarr.Options{})
				got := attributesOf(t, openRoot(t, output), "c")
				assert.Equal(t, test.text, got["arrow_type"])
				delete(got, "arrow_type")
				assert.Equal(t, want, got)
			}
		})
	}
}

func TestRootAttributesDescribeTheTable(t *testing.T) {
	metadata := arrow.MetadataFrom(map[string]string{"maker": "tests", "leer": ""})
	fieldMetadata := arrow.NewMetadata([]string{"unit"}, []string{"m/s²"})
	want := arrow.NewSchema([]arrow.Field{
		{Name: "speed", Type: arrow.PrimitiveTypes.Float32, Metadata: fieldMetadata},
		{Name: "when", Type: &arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: "America/New_York"}, Nullable: true},
		{Name: "kind", Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint16, ValueType: arrow.BinaryTypes.LargeString, Ordered: true}, Nullable: true},
		{Name: "Ünïcode name.", Type: arrow.BinaryTypes.StringView, Nullable: true},
		{Name: "cells", Type: arrow.FixedSizeListOfNonNullable(2, arrow.PrimitiveTypes.Uint8)},
	}, &metadata)
	for name, encode := range map[string]func(tabletest.Table, testing.TB) []byte{"file": encodings["file"], "stream": encodings["stream"]} {
		t.Run(name, func(t *testing.T) {
			output, _ := convertCodes(t, encode(tabletest.Table{Schema: want}, t), arrowzarr.Options{})
			root := openRoot(t, output).Metadata().Attributes
			assert.Equal(t, json.Number("0"), root["num_rows"])
			assert.Equal(t, []any{"speed", "when", "kind", "Ünïcode name.", "cells"}, root["arrow_columns"])
			assert.Equal(t, []any{"speed", "when", "kind", "Ünïcode name."}, root["column-order"], "a frame has no lists")
			assert.Equal(t, "dataframe", root["encoding-type"])
			assert.Equal(t, "_index", root["_index"])
			assertSchema(t, want, root["arrow_schema"])
		})
	}
	t.Run("chosen columns", func(t *testing.T) {
		output, _ := convertCodes(t, tabletest.Table{Schema: want}.Stream(t), arrowzarr.Options{Columns: []string{"kind", "speed"}})
		root := openRoot(t, output).Metadata().Attributes
		assert.Equal(t, []any{"speed", "kind"}, root["column-order"])
		assertSchema(t, arrow.NewSchema([]arrow.Field{want.Field(0), want.Field(2)}, &metadata), root["arrow_schema"])
	})
}

// assertSchema checks a schema that it reads from the start of an IPC stream.
func assertSchema(tb testing.TB, want *arrow.Schema, kept any) {
	tb.Helper()
	require.IsType(tb, "", kept)
	message, err := base64.StdEncoding.DecodeString(kept.(string))
	require.NoError(tb, err)
	r, err := ipc.NewReader(bytes.NewReader(message))
	require.NoError(tb, err)
	defer r.Release()
	assert.True(tb, want.Equal(r.Schema()), "got %s, expected %s", r.Schema(), want)
	got, wanted := r.Schema().Metadata(), want.Metadata()
	assert.True(tb, wanted.Equal(got), "got %s, expected %s", got, wanted)
}

func TestConsolidatedMetadataMatchesTheNodes(t *testing.T) {
	columns := tabletest.RandomTable(9, []int{5, 20}, 0, 0.5)
	output, _ := convertCodes(t, columns.Stream(t), arrowzarr.Options{ChunkRows: 10, ShardRows: 20})
	found := documents(t, output)
	var root struct {
		NodeType     string `json:"node_type"`
		Consolidated struct {
			Kind           string                     `json:"kind"`
			MustUnderstand bool                       `json:"must_understand"`
			Metadata       map[string]json.RawMessage `json:"metadata"`
		} `json:"consolidated_metadata"`
	}
	require.NoError(t, json.Unmarshal([]byte(found["."]), &root))
	assert.Equal(t, "group", root.NodeType)
	assert.Equal(t, "inline", root.Consolidated.Kind)
	assert.False(t, root.Consolidated.MustUnderstand)
	delete(found, ".")
	assert.Len(t, root.Consolidated.Metadata, len(found))
	for at, own := range found {
		if assert.Contains(t, root.Consolidated.Metadata, at) {
			assert.JSONEq(t, own, string(root.Consolidated.Metadata[at]), at)
		}
	}
}

// tensors returns a table with a column of fixed_shape_tensor, which arrow-go writes as a
// list.
func tensors(tb testing.TB, metadata string, width int32, values string) tabletest.Table {
	kind := arrow.FixedSizeListOf(width, arrow.PrimitiveTypes.Int8)
	field := arrow.Field{Name: "images", Type: kind, Metadata: arrow.NewMetadata(
		[]string{"ARROW:extension:name", "ARROW:extension:metadata"}, []string{"arrow.fixed_shape_tensor", metadata})}
	return tabletest.New([]arrow.Field{field}, []arrow.Array{tabletest.FromJSON(tb, kind, values)})
}

func TestTensorsKeepTheirShape(t *testing.T) {
	tests := []struct {
		metadata    string
		shape       []int64
		names       []string
		permutation string
	}{
		{`{"shape": [2, 3]}`, []int64{2, 2, 3}, []string{"row", "images_1", "images_2"}, ""},
		{`{"shape": [6]}`, []int64{2, 6}, []string{"row", "images_1"}, ""},
		{`{"shape": [3, 1, 2]}`, []int64{2, 3, 1, 2}, []string{"row", "images_1", "images_2", "images_3"}, ""},
		{`{"shape": [2, 3], "dim_names": ["y", "x"]}`, []int64{2, 2, 3}, []string{"row", "y", "x"}, ""},
		{`{"shape": [2, 3], "permutation": [1, 0]}`, []int64{2, 2, 3}, []string{"row", "images_1", "images_2"}, "[1 0]"},
		{`{"shape": [2, 3], "dim_names": ["y", "x"], "permutation": [1, 0]}`, []int64{2, 2, 3}, []string{"row", "y", "x"}, "[1 0]"},
	}
	for _, test := range tests {
		t.Run(test.metadata, func(t *testing.T) {
			input := tensors(t, test.metadata, 6, `[[1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12]]`)
			output, _ := convertCodes(t, input.Stream(t), arrowzarr.Options{})
			root := openRoot(t, output)
			assert.Equal(t, int8s("int8", test.shape, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12), readArray(t, root, "images"))
			images, err := root.OpenArray(t.Context(), "images")
			require.NoError(t, err)
			assert.Equal(t, test.names, images.Metadata().DimensionNames)
			permutation := images.Metadata().Attributes["permutation"]
			if test.permutation == "" {
				assert.Nil(t, permutation)
			} else {
				assert.Equal(t, test.permutation, fmt.Sprint(permutation))
			}
		})
	}
}

func TestTensorsWithMissingRowsAreGroups(t *testing.T) {
	input := tensors(t, `{"shape": [2, 1], "dim_names": ["y", "x"]}`, 2, `[[1, 2], null]`)
	output, _ := convertCodes(t, input.Stream(t), arrowzarr.Options{})
	root := openRoot(t, output)
	assert.Equal(t, int8s("int8", []int64{2, 2, 1}, 1, 2, 0, 0), readArray(t, root, "images/values"))
	assert.Equal(t, int8s("bool", []int64{2}, 0, 1), readArray(t, root, "images/mask"))
	values, err := root.OpenArray(t.Context(), "images/values")
	require.NoError(t, err)
	assert.Equal(t, []string{"row", "y", "x"}, values.Metadata().DimensionNames)
}

func TestTensorsOfInvalidShapeAreRefused(t *testing.T) {
	for _, metadata := range []string{
		``, `[`, `{}`, `{"shape": [2, 2]}`, `{"shape": [7]}`, `{"shape": [-2, -3]}`, `{"shape": [0]}`, `{"shape": "6"}`,
		`{"shape": [4611686018427387904, 4, 6]}`,
		`{"shape": [2, 3], "dim_names": ["x"]}`,
		`{"shape": [2, 3], "permutation": [0]}`, `{"shape": [2, 3], "permutation": [0, 0]}`, `{"shape": [2, 3], "permutation": [1, 2]}`,
	} {
		t.Run(metadata, func(t *testing.T) {
			input := tensors(t, metadata, 6, `[[1, 2, 3, 4, 5, 6]]`)
			message := refuse(t, arrowzarr.PartInput, inputFile(t, input.Stream(t)), arrowzarr.Options{})
			assert.Contains(t, message, `"images"`)
			assert.Contains(t, message, "fixed_shape_tensor")
		})
	}
}

// unsupported is the types that have no Zarr form, each with its name in errors.
var unsupported = []struct {
	kind arrow.DataType
	name string
}{
	{&arrow.FixedSizeBinaryType{ByteWidth: -3}, "fixed_size_binary[-3]"},
	{arrow.ListOf(&arrow.FixedSizeBinaryType{ByteWidth: -3}), "fixed_size_binary[-3]"},
}

func TestTypesWithoutZarrFormAreRefused(t *testing.T) {
	for _, test := range unsupported {
		t.Run(test.name, func(t *testing.T) {
			good := arrow.Field{Name: "good", Type: arrow.PrimitiveTypes.Int8}
			bad := arrow.Field{Name: "the bad one", Type: test.kind, Nullable: true}
			input := tabletest.Table{Schema: arrow.NewSchema([]arrow.Field{good, bad}, nil)}
			for _, content := range [][]byte{input.File(t), input.Stream(t)} {
				path := inputFile(t, content)
				message := refuse(t, arrowzarr.PartInput, path, arrowzarr.Options{})
				assert.Contains(t, message, `"the bad one"`)
				assert.Contains(t, message, test.name)
				output, _ := convertFile(t, path, arrowzarr.Options{Columns: []string{"good"}})
				requireTable(t, input.Choose(0), output)
			}
		})
	}
}

// Names that Zarr nodes cannot have are replaced, and the columns' own names kept.
func TestNamesThatNodesCannotHaveAreEscaped(t *testing.T) {
	for name, node := range map[string]string{
		"": "_", "a/b": "a_b", ".": "_.", "..": "_..", "__index_level_0__": "_index_level_0__", "zarr.json": "_zarr.json", "/": "_",
		`a\b`: "a_b", "nul\x00": "nul_", ".quiver-x": "_.quiver-x", strings.Repeat("n", 300): strings.Repeat("n", 255),
		strings.Repeat("ü", 200): strings.Repeat("ü", 127),
	} {
		t.Run(name, func(t *testing.T) {
			want := tabletest.Single(name, tabletest.Texts("a", "-"), tabletest.Texts("b"))
			input := inputFile(t, want.File(t))
			output, report := convertFile(t, input, arrowzarr.Options{ChunkRows: 1})
			requireTable(t, want, output)
			assert.Equal(t, []any{node}, openRoot(t, output).Metadata().Attributes["arrow_columns"])
			assert.Equal(t, map[string]string{node: name}, report.Renamed)
			requireVerified(t, input, output)
		})
	}
}

func TestOutputsWithLongNamesConvert(t *testing.T) {
	output := filepath.Join(t.TempDir(), strings.Repeat("o", 250))
	_, err := arrowzarr.Convert(t.Context(), inputFile(t, tabletest.Single("a", tabletest.Texts("b")).File(t)), output, arrowzarr.Options{})
	assert.NoError(t, err, "an output's may be as long, though what it is built in has a longer one")
}

func TestUnusualNamesConvert(t *testing.T) {
	for _, name := range []string{" ", "a b", ".building", ".quiver", "_", "%2F", "c", "values", "日本", "..a", "con", strings.Repeat("n", 200)} {
		t.Run(name, func(t *testing.T) {
			want := tabletest.Single(name, tabletest.Texts("a", "-"), tabletest.Texts("b"))
			output, _ := convertCodes(t, want.File(t), arrowzarr.Options{ChunkRows: 1})
			requireTable(t, want, output)
		})
	}
}

func TestDuplicateNamesAreNumbered(t *testing.T) {
	kind := arrow.PrimitiveTypes.Int8
	fields := []arrow.Field{
		{Name: "a", Type: kind}, {Name: "a_2", Type: kind}, {Name: "a", Type: kind}, {Name: "a", Type: kind},
		{Name: "", Type: kind}, {Name: "", Type: kind},
	}
	columns := make([]arrow.Array, len(fields))
	for i := range columns {
		columns[i] = tabletest.FromJSON(t, kind, fmt.Sprintf("[%d]", i))
	}
	want := tabletest.New(fields, columns)
	input := inputFile(t, want.Stream(t))
	output, _ := convertFile(t, input, arrowzarr.Options{})
	requireTable(t, want, output)
	assert.Equal(t, []any{"a", "a_2", "a_3", "a_4", "_", "_2"}, openRoot(t, output).Metadata().Attributes["arrow_columns"])
	requireVerified(t, input, output)
}
