package arrowzarr_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/zarr"
)

// attributesOf are those of the node of a column.
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

func TestColumnsSayWhatTheyAre(t *testing.T) {
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
				output, _ := convert(t, single("c", sample(newRand(1), test.kind, 4, share)).stream(t), arrowzarr.Options{})
				got := attributesOf(t, openRoot(t, output), "c")
				assert.Equal(t, test.text, got["arrow_type"])
				delete(got, "arrow_type")
				assert.Equal(t, want, got)
			}
		})
	}
}

func TestRootSaysWhatTheTableWas(t *testing.T) {
	metadata := arrow.MetadataFrom(map[string]string{"maker": "tests", "leer": ""})
	fieldMetadata := arrow.NewMetadata([]string{"unit"}, []string{"m/s²"})
	want := arrow.NewSchema([]arrow.Field{
		{Name: "speed", Type: arrow.PrimitiveTypes.Float32, Metadata: fieldMetadata},
		{Name: "when", Type: &arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: "America/New_York"}, Nullable: true},
		{Name: "kind", Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint16, ValueType: arrow.BinaryTypes.LargeString, Ordered: true}, Nullable: true},
		{Name: "Ünïcode name.", Type: arrow.BinaryTypes.StringView, Nullable: true},
		{Name: "cells", Type: arrow.FixedSizeListOfNonNullable(2, arrow.PrimitiveTypes.Uint8)},
	}, &metadata)
	for name, encode := range map[string]func(table, testing.TB) []byte{"file": encodings["file"], "stream": encodings["stream"]} {
		t.Run(name, func(t *testing.T) {
			output, _ := convert(t, encode(table{schema: want}, t), arrowzarr.Options{})
			root := openRoot(t, output).Metadata().Attributes
			assert.Equal(t, json.Number("0"), root["num_rows"])
			assert.Equal(t, []any{"speed", "when", "kind", "Ünïcode name.", "cells"}, root["column-order"])
			assertSchema(t, want, root["arrow_schema"])
		})
	}
	t.Run("chosen columns", func(t *testing.T) {
		output, _ := convert(t, table{schema: want}.stream(t), arrowzarr.Options{Columns: []string{"kind", "speed"}})
		root := openRoot(t, output).Metadata().Attributes
		assert.Equal(t, []any{"speed", "kind"}, root["column-order"])
		assertSchema(t, arrow.NewSchema([]arrow.Field{want.Field(0), want.Field(2)}, &metadata), root["arrow_schema"])
	})
}

// assertSchema reads a schema as any Arrow library would.
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

func TestConsolidatedMetadataIsThatOfTheNodes(t *testing.T) {
	columns := sampleTable(9, []int{5, 20}, 0, 0.5)
	output, _ := convert(t, columns.stream(t), arrowzarr.Options{ChunkRows: 10, ShardRows: 20})
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
