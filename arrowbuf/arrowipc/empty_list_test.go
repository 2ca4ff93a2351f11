package arrowipc_test

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"io"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// emptyListStream is the stream that pyarrow 24 writes, compressed with zlib, of the
// columns a, fixed_size_list<int32>[0], with [], null, [], and b, struct<x:
// fixed_size_list<string>[0]>, with {x: []}, {x: null}, null.
const emptyListStream = `eNqFkT0OwjAMhV9KAhEqUoYKZWDowMChWEBiYGBjYGRg4BAcgYHDMHCb8JIaESIKlhL/fXFtN4QQFgpwiDJGjSEMLC2K0vRBz/LWcgMVz1HsJd8TnDS0vcRYLtWLes1zJnPqONfHHXhuZK4dZ1zGQfR2v9lF+0HmntWbZfXmolcpplPcoWHvQ4zSNE5mVVXUbc83LFnLF7ZLqVaYIPtqxK8xlY3VqToGOvX94uNOPTNadnqRmQd4i81s9SX2y3/xrvB9wftsRnz09xaT9aXwXcr8P94UnCnyIf1H4AmIgC+p`

func emptyListType(t testing.TB, elem arrow.DataType) *arrowipc.EmptyListType {
	t.Helper()
	made, err := arrowipc.NewEmptyListType(arrow.Field{Name: "item", Type: elem, Nullable: true})
	require.NoError(t, err)
	return made
}

// listsOf returns lists, and the same as those of an EmptyListType if they are empty.
func listsOf(t testing.TB, elem arrow.DataType, text string) (lists, empty arrow.Array) {
	t.Helper()
	dtype := emptyListType(t, elem)
	lists, _, err := array.FromJSON(memory.DefaultAllocator, dtype.StorageType(), strings.NewReader(text))
	require.NoError(t, err)
	t.Cleanup(lists.Release)
	empty = array.NewExtensionArrayWithStorage(dtype, lists)
	t.Cleanup(empty.Release)
	return lists, empty
}

func TestListsOfSizeZeroOfPyarrowAreReadAndWritten(t *testing.T) {
	compressed, err := base64.StdEncoding.DecodeString(emptyListStream)
	require.NoError(t, err)
	inflater, err := zlib.NewReader(bytes.NewReader(compressed))
	require.NoError(t, err)
	raw, err := io.ReadAll(inflater)
	require.NoError(t, err)
	inner := arrow.StructOf(arrow.Field{Name: "x", Type: emptyListType(t, arrow.BinaryTypes.String), Nullable: true})
	want := arrow.NewSchema([]arrow.Field{
		{Name: "a", Type: emptyListType(t, arrow.PrimitiveTypes.Int32), Nullable: true}, {Name: "b", Type: inner, Nullable: true},
	}, nil)
	metadata, err := arrowipc.ReadMetadata(bytes.NewReader(raw))
	require.NoError(t, err)
	info, err := arrowipc.Inspect(metadata)
	require.NoError(t, err)
	assert.True(t, info.EmptyLists)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for way, open := range inputKinds {
			r, err := open(t, raw, dev)
			require.NoError(t, err, way)
			require.True(t, want.Equal(r.Schema()), "%v\n%v", want, r.Schema())
			assert.Equal(t, "fixed_size_list<item: int32, nullable>[0]", r.Schema().Field(0).Type.String())
			got, err := readAllBatches(t, r)
			r.Release()
			require.NoError(t, err)
			require.Len(t, got, 1)
			host, err := arrowbuf.CopyTo(got[0], arrowbuf.CPU())
			require.NoError(t, err)
			t.Cleanup(host.Release)
			text, err := host.MarshalJSON()
			require.NoError(t, err)
			assert.JSONEq(t, `[{"a": [], "b": {"x": []}}, {"a": null, "b": {"x": null}}, {"a": [], "b": null}]`, string(text))

			written := encodeWithQuiver(t, false, got)
			again, err := arrowipc.ReadMetadata(bytes.NewReader(written))
			require.NoError(t, err)
			info, err := arrowipc.Inspect(again)
			require.NoError(t, err)
			assert.True(t, info.EmptyLists, "written as another type")
		}
	})
}

func TestListsOfSizeZeroRoundTripInsideOfEveryType(t *testing.T) {
	lists, empty := listsOf(t, arrow.PrimitiveTypes.Int16, `[[], null, [], [], null, []]`)
	_, ofLists := listsOf(t, arrow.ListOf(arrow.BinaryTypes.String), `[[], null, [], [], null, []]`)
	_, ofCodes := listsOf(t, &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}, `[[], null, [], [], null, []]`)
	_, ofEmpty := listsOf(t, empty.DataType(), `[[], null, [], [], null, []]`)
	columns := map[string]arrow.Array{"plain": empty, "of lists": ofLists, "of codes": ofCodes, "of empty": ofEmpty}
	wrap := func(name string, dtype arrow.DataType, rows int, buffers ...[]byte) {
		all := []*memory.Buffer{nil}
		for _, b := range buffers {
			all = append(all, memory.NewBufferBytes(b))
		}
		data := array.NewData(dtype, rows, all, []arrow.ArrayData{empty.Data()}, 0, 0)
		defer data.Release()
		columns[name] = array.MakeFromData(data)
		t.Cleanup(columns[name].Release)
	}
	item := arrow.Field{Name: "item", Type: empty.DataType(), Nullable: true}
	wrap("struct", arrow.StructOf(item), 6)
	wrap("fixed", arrow.FixedSizeListOfField(2, item), 3)
	wrap("list", arrow.ListOfField(item), 3, arrow.Int32Traits.CastToBytes([]int32{0, 1, 1, 6}))
	wrap("large list", arrow.LargeListOfField(item), 2, arrow.Int64Traits.CastToBytes([]int64{0, 1, 6}))
	wrap("view", arrow.ListViewOfField(item), 2, arrow.Int32Traits.CastToBytes([]int32{3, 0}), arrow.Int32Traits.CastToBytes([]int32{3, 1}))
	wrap("union", arrow.SparseUnionOf([]arrow.Field{item}, []arrow.UnionTypeCode{5}), 6, bytes.Repeat([]byte{5}, 6))
	codes, _, err := array.FromJSON(memory.DefaultAllocator, arrow.PrimitiveTypes.Int8, strings.NewReader(`[5, 0, null, 1]`))
	require.NoError(t, err)
	defer codes.Release()
	columns["dictionary"] = array.NewDictionaryArray(&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: empty.DataType()}, codes, empty)
	defer columns["dictionary"].Release()

	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for name, column := range columns {
			for _, part := range []arrow.Array{column, array.NewSlice(column, 1, int64(column.Len()))} {
				batch := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: name, Type: part.DataType(), Nullable: true}}, nil), []arrow.Array{part}, int64(part.Len()))
				for _, options := range [][]arrowipc.Option{nil, {arrowipc.WithCodec(arrowipc.Zstd)}} {
					for _, file := range []bool{false, true} {
						raw := encodeWithQuiver(t, file, []arrow.RecordBatch{batch}, options...)
						r, err := inputKinds["reader"](t, raw, dev)
						require.NoError(t, err, name)
						got, err := readAllBatches(t, r)
						r.Release()
						require.NoError(t, err, name)
						require.Len(t, got, 1)
						host, err := arrowbuf.CopyTo(got[0], arrowbuf.CPU())
						require.NoError(t, err, name)
						assert.True(t, arrow.TypeEqual(part.DataType(), host.Column(0).DataType()), name)
						assert.True(t, arrowbuf.BitwiseEqual(part, host.Column(0)), "%s: %v, expected %v", name, host.Column(0), part)
						host.Release()
					}
				}
				batch.Release()
			}
		}
	})
	_, full := listsOf(t, arrow.PrimitiveTypes.Int16, `[[], [1]]`)
	_, err = arrowipc.EncodeRecordBatch(array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "full", Type: full.DataType()}}, nil), []arrow.Array{full}, 2))
	require.ErrorIs(t, err, arrow.ErrInvalid)
	assert.ErrorContains(t, err, "elements in lists of size 0")
	require.Equal(t, 6, lists.Len())
}

func TestSchemaWithListsOfSizeZeroIsUnchangedByAnotherEncoding(t *testing.T) {
	empty := emptyListType(t, arrow.PrimitiveTypes.Float64)
	m := arrow.MapOf(arrow.BinaryTypes.String, empty)
	m.KeysSorted = true
	ends := arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, empty)
	ends.ValueNullable = false
	metadata := arrow.MetadataFrom(map[string]string{"k": "v"})
	item := arrow.Field{Name: "element", Type: empty, Metadata: metadata}
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "first", Type: arrow.StructOf(arrow.Field{Name: "s", Type: arrow.StructOf()}, item), Nullable: true, Metadata: metadata},
		{Name: "map", Type: m}, {Name: "runs", Type: ends},
		{Name: "codes", Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int16, ValueType: arrow.ListOfField(item), Ordered: true}},
		{Name: "union", Type: arrow.DenseUnionOf([]arrow.Field{item, {Name: "text", Type: arrow.BinaryTypes.String}}, []arrow.UnionTypeCode{3, 1})},
		{Name: "views", Type: arrow.LargeListViewOfField(item)}, {Name: "fixed", Type: arrow.FixedSizeListOfField(3, item)},
		{Name: "last", Type: emptyListType(t, arrow.StructOf(item))},
	}, &metadata)
	encoded, err := arrowipc.EncodeSchema(schema)
	require.NoError(t, err)
	d, err := arrowipc.NewDecoder(encoded, arrowbuf.CPU())
	require.NoError(t, err)
	defer d.Release()
	require.True(t, schema.Equal(d.Schema()), "%v\n%v", schema, d.Schema())
	assert.Equal(t, schema.String(), d.Schema().String())
	again, err := arrowipc.EncodeSchema(d.Schema())
	require.NoError(t, err)
	assert.Equal(t, encoded, again)

	_, err = arrowipc.NewEmptyListType(arrow.Field{})
	require.ErrorIs(t, err, arrow.ErrInvalid)
	_, err = empty.Deserialize(arrow.PrimitiveTypes.Int8, "")
	require.ErrorIs(t, err, arrow.ErrInvalid)
}
