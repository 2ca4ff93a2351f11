package parquet

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/sourcetest"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
)

func jsonType(t *testing.T) arrow.DataType {
	kind, err := extensions.NewJSONType(arrow.BinaryTypes.String)
	require.NoError(t, err)
	return kind
}

// The types that pyarrow stores beside those of Parquet, in files that it wrote.
func TestParquetKeepsTheTypesOfItsArrowSchema(t *testing.T) {
	open := sourcetest.Local(filepath.Join("testdata", "types.parquet"), sourcetest.Options(), Open)
	stored := sourcetest.Info(t, open).Schema
	want := []string{
		"berlin timestamp[ms, tz=Europe/Berlin]", "newyork timestamp[ms, tz=America/New_York]", "plain timestamp[ms]",
		"json extension<arrow.json[storage_type=utf8]>", "uuid extension<arrow.uuid>", "bool8 extension<arrow.bool8>",
		"decimal32 decimal32(9, 2)", "decimal64 decimal64(18, 2)", "text_view string_view", "bytes_view binary_view",
		"durations list<item: duration[ms], nullable>",
		"json_large extension<arrow.json[storage_type=large_utf8]>", "json_view extension<arrow.json[storage_type=string_view]>",
		"flags struct<on: extension<arrow.bool8> nullable, n: int64 nullable>", "sorted map<utf8, int16, keys_sorted, items_nullable>",
		"tensors list<item: fixed_size_list<item: int16, nullable>[4], nullable>",
		"nested struct<x: decimal32(9, 2) nullable, t: timestamp[ms, tz=Europe/Berlin] nullable, v: string_view nullable>",
	}
	var got []string
	for _, f := range stored.Fields() {
		got = append(got, f.Name+" "+strings.ReplaceAll(f.Type.String(), "extension_type<storage=fixed_size_binary[16]>", "extension<arrow.uuid>"))
	}
	assert.Equal(t, want, got)
	rows, nulls := sourcetest.Values(t, open, nil, source.WholeInput)
	require.Len(t, rows, 3)
	assert.Equal(t, `"1.23"`, rows[0][6])
	assert.Equal(t, `"-99999.99"`, rows[2][6])
	assert.Equal(t, `"a text that does not fit into twelve bytes"`, rows[0][8])
	for i, n := range nulls {
		assert.EqualValues(t, 1, n, want[i])
	}
	// No element has an ID that stands for none.
	for _, f := range stored.Fields() {
		assert.NotContains(t, f.String(), "field_id")
		if nested, ok := f.Type.(arrow.NestedType); ok {
			for _, inner := range nested.Fields() {
				assert.NotContains(t, inner.String(), "field_id")
			}
		}
	}
	value, _ := stored.Metadata().GetValue("geo")
	assert.Equal(t, `{"version": "1.1"}`, value, "the file's own metadata")
	tensors, _ := stored.Field(15).Type.(*arrow.ListType).ElemField().Metadata.GetValue("ARROW:extension:name")
	assert.Equal(t, "arrow.fixed_shape_tensor", tensors)
}

// A stored schema with a type that arrow-go does not know, such as integers of 128 bits by
// polars, leaves the types of Parquet.
func TestParquetIsReadWithoutASchemaOfUnknownTypes(t *testing.T) {
	in := tabletest.New([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, {Name: "s", Type: arrow.BinaryTypes.String, Nullable: true}}, []arrow.Array{tabletest.FromJSON(t, arrow.PrimitiveTypes.Int64, "[1, 2]"), tabletest.Texts("a", "b")})
	message := (tabletest.Table{Schema: in.Schema}).Stream(t)
	bits := bytes.LastIndex(message, binary.LittleEndian.AppendUint32(nil, 64)) // of the integers
	binary.LittleEndian.PutUint32(message[bits:], 128)
	_, err := ipc.NewReader(bytes.NewReader(message))
	require.ErrorContains(t, err, "bits=128")
	var buf bytes.Buffer
	w, err := pqarrow.NewFileWriter(in.Schema, &buf, parquet.NewWriterProperties(), pqarrow.NewArrowWriterProperties())
	require.NoError(t, err)
	require.NoError(t, w.Write(in.Batches[0]))
	require.NoError(t, w.AppendKeyValueMetadata("ARROW:schema", base64.StdEncoding.EncodeToString(message)))
	require.NoError(t, w.AppendKeyValueMetadata("own", "kept"))
	require.NoError(t, w.AppendKeyValueMetadata("", "without a name"))
	require.NoError(t, w.Close())
	stored := sourcetest.Info(t, fileOf(t, buf.Bytes())).Schema
	require.True(t, arrow.TypeEqual(arrow.PrimitiveTypes.Int64, stored.Field(0).Type), stored)
	require.True(t, arrow.TypeEqual(arrow.BinaryTypes.String, stored.Field(1).Type), stored)
	assert.Equal(t, map[string]string{"own": "kept", "": "without a name"}, stored.Metadata().ToMap())
}

// Without an Arrow schema, Parquet's own types say what a column is.
func TestParquetJSONIsText(t *testing.T) {
	in := tabletest.New([]arrow.Field{{Name: "j", Type: jsonType(t), Nullable: true}}, []arrow.Array{tabletest.Random(tabletest.NewRand(1), jsonType(t), 5, 0.5)})
	assert.Equal(t, jsonType(t), sourcetest.Info(t, fileOf(t, in.ParquetWithoutSchema(t))).Schema.Field(0).Type)
}

// A logical type that is not known yet is read as the physical type.
func TestUnknownLogicalTypesOfParquetAreTheirPhysicalTypes(t *testing.T) {
	uuids := tabletest.Random(tabletest.NewRand(3), extensions.NewUUIDType(), 20, 0.2)
	content := tabletest.Single("u", uuids).ParquetWithoutSchema(t)
	// In Thrift's compact protocol, UUID is field 14 of LogicalType, and 9 is not used.
	uuid, unknown := []byte{14<<4 | 12, 0, 0}, []byte{9<<4 | 12, 0, 0}
	require.Equal(t, 1, bytes.Count(content, uuid))
	open := fileOf(t, bytes.Replace(content, uuid, unknown, 1))
	assert.Equal(t, &arrow.FixedSizeBinaryType{ByteWidth: 16}, sourcetest.Info(t, open).Schema.Field(0).Type)
	storage := tabletest.Single("u", uuids.(array.ExtensionArray).Storage())
	want, nulls := sourcetest.Values(t, fileOf(t, storage.Parquet(t)), nil, source.WholeInput)
	got, gotNulls := sourcetest.Values(t, open, nil, source.WholeInput)
	assert.Equal(t, want, got)
	assert.Equal(t, nulls, gotNulls)
}

// Timestamps of 96 bits have the zone of the Arrow schema, and none without one.
func TestInt96TimestampsHaveTheZoneOfTheArrowSchema(t *testing.T) {
	for _, zone := range []string{"", "Europe/Berlin"} {
		for _, stored := range []bool{true, false} {
			kind := &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: zone}
			in := tabletest.New([]arrow.Field{{Name: "t", Type: kind, Nullable: true}}, []arrow.Array{tabletest.Random(tabletest.NewRand(1), kind, 5, 0.3)})
			properties := []pqarrow.WriterOption{pqarrow.WithDeprecatedInt96Timestamps(true)}
			if stored {
				properties = append(properties, pqarrow.WithStoreSchema())
			}
			var out bytes.Buffer
			w, err := pqarrow.NewFileWriter(in.Schema, &out, parquet.NewWriterProperties(), pqarrow.NewArrowWriterProperties(properties...))
			require.NoError(t, err)
			require.NoError(t, w.Write(in.Batches[0]))
			require.NoError(t, w.Close())
			open := fileOf(t, out.Bytes())
			got := sourcetest.Info(t, open).Schema.Field(0).Type.(*arrow.TimestampType)
			counts, err := sourcetest.Count(open)
			require.NoError(t, err)
			assert.Equal(t, source.Counts{Rows: 5, Nulls: []int64{-1}}, counts, "they have no statistics")
			want := zone
			if !stored {
				want = ""
			}
			assert.Equal(t, want, got.TimeZone)
		}
	}
}
