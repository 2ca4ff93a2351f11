package arrowzarr_test

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
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
)

func jsonType(t *testing.T) arrow.DataType {
	kind, err := extensions.NewJSONType(arrow.BinaryTypes.String)
	require.NoError(t, err)
	return kind
}

// parquetOf writes a table without or with its Arrow schema.
func parquetOf(t *testing.T, in tabletest.Table, stored bool, options ...parquet.WriterProperty) []byte {
	t.Helper()
	arrowOptions := []pqarrow.WriterOption{}
	if stored {
		arrowOptions = append(arrowOptions, pqarrow.WithStoreSchema())
	}
	var buf bytes.Buffer
	w, err := pqarrow.NewFileWriter(in.Schema, &buf, parquet.NewWriterProperties(options...), pqarrow.NewArrowWriterProperties(arrowOptions...))
	require.NoError(t, err)
	for _, b := range in.Batches {
		require.NoError(t, w.Write(b))
	}
	require.NoError(t, w.Close())
	return buf.Bytes()
}

// The types that pyarrow stores beside those of Parquet, in files that it wrote.
func TestParquetKeepsTheTypesOfItsArrowSchema(t *testing.T) {
	facts := describe1(t, filepath.Join("internal", "source", "parquet", "testdata", "types.parquet"))
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
	for _, f := range facts.Schema.Fields() {
		got = append(got, f.Name+" "+strings.ReplaceAll(f.Type.String(), "extension_type<storage=fixed_size_binary[16]>", "extension<arrow.uuid>"))
	}
	assert.Equal(t, want, got)
	fields := make([]int, len(want))
	for i := range fields {
		fields[i] = i
	}
	rows, nulls := readRows(t, filepath.Join("internal", "source", "parquet", "testdata", "types.parquet"), fields, 0, -1)
	require.Len(t, rows, 3)
	assert.Equal(t, `"1.23"`, rows[0][6])
	assert.Equal(t, `"-99999.99"`, rows[2][6])
	assert.Equal(t, `"a text that does not fit into twelve bytes"`, rows[0][8])
	for i, n := range nulls {
		assert.EqualValues(t, 1, n, want[i])
	}
	// No element has an ID that stands for none.
	for _, f := range facts.Schema.Fields() {
		assert.NotContains(t, f.String(), "field_id")
		if nested, ok := f.Type.(arrow.NestedType); ok {
			for _, inner := range nested.Fields() {
				assert.NotContains(t, inner.String(), "field_id")
			}
		}
	}
	value, _ := facts.Schema.Metadata().GetValue("geo")
	assert.Equal(t, `{"version": "1.1"}`, value, "the file's own metadata")
	tensors, _ := facts.Schema.Field(15).Type.(*arrow.ListType).ElemField().Metadata.GetValue("ARROW:extension:name")
	assert.Equal(t, "arrow.fixed_shape_tensor", tensors)
	output, _ := convertFile(t, filepath.Join("internal", "source", "parquet", "testdata", "types.parquet"), arrowzarr.Options{})
	verified, err := arrowzarr.Verify(t.Context(), filepath.Join("internal", "source", "parquet", "testdata", "types.parquet"), output, arrowzarr.Options{})
	require.NoError(t, err)
	assert.Empty(t, verified.Difference)
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
	facts := describe1(t, inputFile(t, buf.Bytes()))
	require.True(t, arrow.TypeEqual(arrow.PrimitiveTypes.Int64, facts.Schema.Field(0).Type), facts.Schema)
	require.True(t, arrow.TypeEqual(arrow.BinaryTypes.String, facts.Schema.Field(1).Type), facts.Schema)
	assert.Equal(t, map[string]string{"own": "kept", "": "without a name"}, facts.Schema.Metadata().ToMap())
}

// Without an Arrow schema, Parquet's own types say what a column is.
func TestParquetJSONIsText(t *testing.T) {
	in := tabletest.New([]arrow.Field{{Name: "j", Type: jsonType(t), Nullable: true}}, []arrow.Array{tabletest.Random(tabletest.NewRand(1), jsonType(t), 5, 0.5)})
	facts := describe1(t, inputFile(t, parquetOf(t, in, false)))
	assert.Equal(t, jsonType(t), facts.Schema.Field(0).Type)
}

func TestParquetPagesMayBeLong(t *testing.T) {
	if testing.Short() {
		t.Skip("150 MB")
	}
	long := strings.Repeat("0123456789abcdef", 70<<16)
	in := tabletest.Single("a", tabletest.Texts(long, "x", long))
	path := inputFile(t, parquetOf(t, in, true, parquet.WithDictionaryDefault(false), parquet.WithDataPageSize(1<<30)))
	output, _ := convertFile(t, path, arrowzarr.Options{})
	verified, err := arrowzarr.Verify(t.Context(), path, output, arrowzarr.Options{})
	require.NoError(t, err)
	assert.Empty(t, verified.Difference)
}

// frameLZ4 is LZ4 as Hadoop writes it, in blocks.
type frameLZ4 struct{ compress.Codec }

func (frameLZ4) CompressBound(n int64) int64 { return 2*n + 64 }

func (frameLZ4) Encode(_, src []byte) []byte {
	var out []byte
	for len(src) > 0 {
		part := src[:min(len(src), 1000)]
		src = src[len(part):]
		block := make([]byte, lz4.CompressBlockBound(len(part)))
		n, err := lz4.CompressBlock(part, block, nil)
		if err != nil || n == 0 {
			panic("a block that cannot be compressed")
		}
		out = binary.BigEndian.AppendUint32(out, uint32(len(part)))
		out = append(binary.BigEndian.AppendUint32(out, uint32(n)), block[:n]...)
	}
	return out
}

func (c frameLZ4) EncodeLevel(dst, src []byte, _ int) []byte { return c.Encode(dst, src) }

func TestParquetOfLegacyLZ4Converts(t *testing.T) {
	before, err := compress.GetCodec(compress.Codecs.Lz4)
	require.NoError(t, err)
	defer compress.RegisterCodec(compress.Codecs.Lz4, before)
	raw, err := compress.GetCodec(compress.Codecs.Lz4Raw)
	require.NoError(t, err)
	want := tabletest.Numbers(0, 3000)
	for name, codec := range map[string]compress.Codec{"Hadoop's frames": frameLZ4{raw}, "one block": raw} {
		compress.RegisterCodec(compress.Codecs.Lz4, codec)
		content := parquetOf(t, want, true, parquet.WithCompression(compress.Codecs.Lz4), parquet.WithDictionaryDefault(false))
		compress.RegisterCodec(compress.Codecs.Lz4, before)
		rows := rowTexts(t, 1, inputFile(t, content))
		require.Len(t, rows, 3000, name)
		assert.Equal(t, "2999", rows[2999])
	}
}

// Spark 3.5 compresses the values of a page of nulls to no bytes.
func TestEmptyCompressedPagesAreRead(t *testing.T) {
	for _, c := range []compress.Compression{compress.Codecs.Snappy, compress.Codecs.Gzip, compress.Codecs.Brotli, compress.Codecs.Zstd, compress.Codecs.Lz4Raw, compress.Codecs.Lz4} {
		codec, err := compress.GetCodec(c)
		require.NoError(t, err)
		got, err := compress.Decode(codec, make([]byte, 8), nil)
		require.NoError(t, err, c)
		assert.Empty(t, got)
	}
}

func TestEncryptedParquetIsRefusedByName(t *testing.T) {
	for _, name := range []string{"encrypted_footer.parquet", "encrypted_columns.parquet"} {
		path := filepath.Join("internal", "source", "parquet", "testdata", name)
		message := refuse(t, arrowzarr.PartInput, path, arrowzarr.Options{})
		assert.Contains(t, message, "encrypted Parquet is not supported")
	}
}

// A logical type that is not known yet is read as the physical type.
func TestUnknownLogicalTypesOfParquetAreTheirPhysicalTypes(t *testing.T) {
	uuids := tabletest.Random(tabletest.NewRand(3), extensions.NewUUIDType(), 20, 0.2)
	content := parquetOf(t, tabletest.Single("u", uuids), false)
	// In Thrift's compact protocol, UUID is field 14 of LogicalType, and 9 is not used.
	uuid, unknown := []byte{14<<4 | 12, 0, 0}, []byte{9<<4 | 12, 0, 0}
	require.Equal(t, 1, bytes.Count(content, uuid))
	path := inputFile(t, bytes.Replace(content, uuid, unknown, 1))
	assert.Equal(t, &arrow.FixedSizeBinaryType{ByteWidth: 16}, describe1(t, path).Schema.Field(0).Type)
	output, _ := convertFile(t, path, arrowzarr.Options{})
	storage := inputFile(t, tabletest.Single("u", uuids.(array.ExtensionArray).Storage()).File(t))
	report, err := arrowzarr.Verify(t.Context(), storage, output, arrowzarr.Options{})
	require.NoError(t, err)
	assert.Empty(t, report.Difference)
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
			facts, err := arrowzarr.DescribeSource(inputFile(t, out.Bytes()))
			require.NoError(t, err)
			want := zone
			if !stored {
				want = ""
			}
			assert.Equal(t, want, facts.Schema.Field(0).Type.(*arrow.TimestampType).TimeZone)
		}
	}
}
