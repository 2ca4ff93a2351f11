package arrowzarr_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
	"github.com/quiver-gpu/quiver/zarr"
)

// The forms, and the arrays that they refer to, are those that anndata and awkward read.
func TestNestedColumnsAreAwkwardArrays(t *testing.T) {
	i32, text := arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String
	pair := arrow.StructOf(arrow.Field{Name: "a", Type: i32, Nullable: true}, arrow.Field{Name: "b", Type: text, Nullable: true})
	const masked = `{"class":"ByteMaskedArray","mask":"i8","valid_when":false,"form_key":`
	number := func(key string) string {
		return `{"class":"NumpyArray","primitive":"int32","form_key":"` + key + `"}`
	}
	str := func(key string) string {
		return `{"class":"ListOffsetArray","offsets":"i64","parameters":{"__array__":"string"},"form_key":"` + key + `","content":
			{"class":"NumpyArray","primitive":"uint8","parameters":{"__array__":"char"},"form_key":"` + key + `"}}`
	}
	int64s := func(values ...int64) contents { return numbers("int64", 8, values) }
	int32s := func(values ...int64) contents { return numbers("int32", 4, values) }
	bools := func(values ...int64) contents { return numbers("bool", 1, values) }
	bytes := func(s string) contents {
		return contents{Type: "uint8", Shape: []int64{int64(len(s))}, Bytes: []byte(s)}
	}
	for name, test := range map[string]struct {
		kind   arrow.DataType
		rows   string
		form   string
		arrays map[string]contents
	}{
		"list": {
			arrow.ListOf(i32), `[[1, 2], null, [], [3, null]]`,
			masked + `"list","content":{"class":"ListOffsetArray","offsets":"i64","form_key":"list","content":` + masked + `"item","content":` + number("item") + `}}}`,
			map[string]contents{
				"list-mask": bools(0, 1, 0, 0), "list-offsets": int64s(0, 2, 2, 2, 4),
				"item-mask": bools(0, 0, 0, 1), "item-data": int32s(1, 2, 3, 0),
			},
		},
		"struct": {
			pair, `[{"a": 1, "b": "x"}, null, {"b": "y"}]`,
			masked + `"struct","content":{"class":"RecordArray","fields":["a","b"],"form_key":"struct","contents":[` +
				masked + `"a","content":` + number("a") + `},` + masked + `"b","content":` + str("b") + `}]}}`,
			map[string]contents{
				"struct-mask": bools(0, 1, 0), "a-mask": bools(0, 1, 1), "a-data": int32s(1, 0, 0),
				"b-mask": bools(0, 1, 0), "b-offsets": int64s(0, 1, 1, 2), "b-data": bytes("xy"),
			},
		},
		"map": {
			arrow.MapOf(text, i32), `[[{"key": "k", "value": 1}, {"key": "l", "value": null}], null, []]`,
			masked + `"map","content":{"class":"ListOffsetArray","offsets":"i64","form_key":"map","content":
				{"class":"RecordArray","fields":["key","value"],"form_key":"entries","contents":[` + str("key") + `,` + masked + `"value","content":` + number("value") + `}]}}}`,
			map[string]contents{
				"map-mask": bools(0, 1, 0), "map-offsets": int64s(0, 2, 2, 2), "key-offsets": int64s(0, 1, 2), "key-data": bytes("kl"),
				"value-mask": bools(0, 1), "value-data": int32s(1, 0),
			},
		},
		"list of structs": {
			arrow.ListOf(pair), `[[{"a": 1, "b": "x"}], []]`,
			`{"class":"ListOffsetArray","offsets":"i64","form_key":"list","content":
				{"class":"RecordArray","fields":["a","b"],"form_key":"item","contents":[` + number("item.a") + `,` + str("item.b") + `]}}`,
			map[string]contents{
				"list-offsets": int64s(0, 1, 1), "item.a-data": int32s(1), "item.b-offsets": int64s(0, 1), "item.b-data": bytes("x"),
			},
		},
		// awkward takes no index in a union but a categorical, which floats and nested values are not.
		"union of a dictionary": {
			arrow.DenseUnionOf([]arrow.Field{
				{Name: "i", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
				{Name: "d", Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.PrimitiveTypes.Float32}, Nullable: true},
			}, []arrow.UnionTypeCode{0, 1}),
			`[[1, 0], [0, 7], [1, 0], [0, null]]`,
			`{"class":"UnionArray","tags":"i8","index":"i32","form_key":"union","contents":[
				` + masked + `"i","content":` + number("i") + `},
				{"class":"UnmaskedArray","content":{"class":"RecordArray","fields":["value"],"form_key":"d","contents":[
					{"class":"IndexedArray","index":"i32","form_key":"d","content":{"class":"NumpyArray","primitive":"float32","form_key":"d.value"}}]}}]}`,
			map[string]contents{
				"i-data": int32s(7, 0), "i-mask": bools(0, 1), "d-index": int32s(0, 0), "d.value-data": numbers("float32", 4, []int64{0}),
				"union-tags": numbers("int8", 1, []int64{1, 0, 1, 0}), "union-index": int32s(0, 0, 1, 1),
			},
		},
		"month_day_nano": {
			arrow.FixedWidthTypes.MonthDayNanoInterval, `[{"months": 1, "days": 2, "nanoseconds": 3}, null]`,
			masked + `"interval","content":{"class":"RecordArray","fields":["months","days","nanoseconds"],"form_key":"interval","contents":[` +
				number("months") + `,` + number("days") + `,{"class":"NumpyArray","primitive":"int64","form_key":"nanoseconds"}]}}`,
			map[string]contents{
				"interval-mask": bools(0, 1), "months-data": int32s(1, 0), "days-data": int32s(2, 0), "nanoseconds-data": int64s(3, 0),
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			column := tabletest.FromJSON(t, test.kind, test.rows)
			output, report := convertCodes(t, tabletest.Single("c", column).Stream(t), arrowzarr.Options{})
			assert.Equal(t, 1, report.Nested)
			root := openRoot(t, output)
			got := attributesOf(t, root, "c")
			assert.Equal(t, "awkward-array", got["encoding-type"])
			assert.Equal(t, "0.1.0", got["encoding-version"])
			rows, err := got["length"].(json.Number).Int64()
			require.NoError(t, err)
			assert.Equal(t, int64(column.Len()), rows)
			assert.JSONEq(t, test.form, got["form"].(string))
			group, err := root.OpenGroup(t.Context(), "c")
			require.NoError(t, err)
			children, err := group.Children(t.Context())
			require.NoError(t, err)
			arrays := map[string]contents{}
			for _, child := range children {
				arrays[child.Name] = readArray(t, root, "c/"+child.Name)
				m := child.Node.(*zarr.ArrayMetadata)
				assert.Equal(t, "array", m.Attributes["encoding-type"])
				assert.Equal(t, []string{"c." + child.Name}, m.DimensionNames)
			}
			assert.Equal(t, test.arrays, arrays)
		})
	}
}

// numbers returns the contents of a 1-D array of integers of a width.
func numbers(kind string, width int, values []int64) contents {
	c := contents{Type: kind, Shape: []int64{int64(len(values))}, Bytes: []byte{}}
	for _, v := range values {
		for i := range width {
			c.Bytes = append(c.Bytes, byte(v>>(8*i)))
		}
	}
	return c
}

func TestTextThatIsNotUTF8IsNamedWithoutInternals(t *testing.T) {
	// The bytes under the null are no UTF-8, either.
	offsets, data := []int32{0, 2, 3, 3, 4}, "é\xffx"
	text := func(bytes string) arrow.Array {
		buffers := []*memory.Buffer{memory.NewBufferBytes([]byte{0b1101}), memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets)), memory.NewBufferBytes([]byte(bytes))}
		return array.NewStringData(array.NewData(arrow.BinaryTypes.String, 4, buffers, nil, 1, 0))
	}
	lists := func(values arrow.Array) arrow.Array {
		ends := memory.NewBufferBytes(arrow.Int32Traits.CastToBytes([]int32{0, 4}))
		return array.NewListData(array.NewData(arrow.ListOf(values.DataType()), 1, []*memory.Buffer{nil, ends}, []arrow.ArrayData{values.Data()}, 0, 0))
	}
	indices := func(codes ...int8) arrow.Array {
		b := array.NewInt8Builder(memory.DefaultAllocator)
		b.AppendValues(codes, nil)
		return b.NewArray()
	}
	codes := func(values arrow.Array) arrow.Array {
		kind := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: values.DataType()}
		return array.NewDictionaryArray(kind, indices(0, 3), values)
	}
	for name, made := range map[string]func(bytes string) arrow.Array{
		"text": text, "dictionary": func(b string) arrow.Array { return codes(text(b)) },
		"list": func(b string) arrow.Array { return lists(text(b)) }, "dictionaries in lists": func(b string) arrow.Array {
			return lists(array.NewDictionaryArray(&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}, indices(0, 3, 0, 3), text(b)))
		},
	} {
		convertCodes(t, tabletest.Single("a", made(data)).File(t), arrowzarr.Options{})
		for _, bad := range []string{"\xc3a\xffx", "é\xff\xc3", "ab\xff\x80"} {
			message := refuse(t, arrowzarr.PartInput, inputFile(t, tabletest.Single("a", made(bad)).File(t)), arrowzarr.Options{})
			assert.Contains(t, message, `column "a": `, name)
			assert.Contains(t, message, "not UTF-8", name)
			assert.NotContains(t, message, "codec", name)
			assert.NotContains(t, message, ".arrow2zarr", name)
		}
	}
}

// Chunks that a user asks for may be longer than the arrays, but what is filled of them
// must fit into the memory.
func TestLongChunksOfNestedColumnsMustFitTheMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a second")
	}
	const rows = 400_000
	values := array.NewFloat64Builder(memory.DefaultAllocator)
	values.AppendValues(make([]float64, 10*rows), nil)
	ends := make([]int32, rows+1)
	for i := range ends {
		ends[i] = int32(10 * i)
	}
	kind := arrow.ListOf(arrow.PrimitiveTypes.Float64)
	data := array.NewData(kind, rows, []*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(ends))}, []arrow.ArrayData{values.NewArray().Data()}, 0, 0)
	path := inputFile(t, tabletest.Single("l", array.MakeFromData(data)).File(t))
	const least = 256 << 20
	for rows, want := range map[int64]string{
		4_200_000: "the chunks of nested columns that are being filled take more than",
		5_000_000: `column "l": encoding one chunk of list-offsets takes 120000000 bytes, more than half of --max-memory`,
		1 << 40:   `column "l": encoding one chunk of list-offsets takes 26388279066624 bytes, more than half of --max-memory`,
	} {
		message := refuse(t, arrowzarr.PartUsage, path, arrowzarr.Options{ChunkRows: rows, MaxMemory: least})
		assert.Contains(t, message, want)
		assert.Contains(t, message, "lower --chunk-rows")
	}
	for memory, rows := range map[int64]int64{least: 1_000_000, 1 << 30: 6_000_000} {
		output, _ := convertFile(t, path, arrowzarr.Options{ChunkRows: rows, MaxMemory: memory})
		verified, err := arrowzarr.Verify(t.Context(), path, output, arrowzarr.Options{})
		require.NoError(t, err)
		assert.Empty(t, verified.Difference)
	}
}

func TestListsWithOffsetsOutOfOrderAreRefused(t *testing.T) {
	for _, offsets := range [][]int32{
		{0, 2, 1, 3}, {0, 4, 4, 3}, {0, -1, 2, 3}, {1, 0, 2, 3}, {0, math.MaxInt32, math.MinInt32, -1, 3}, {0, 1, 2, 3, math.MinInt32, 3},
	} {
		values := tabletest.Numbered(0, 3)
		data := array.NewData(arrow.ListOf(values.DataType()), len(offsets)-1, []*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets))}, []arrow.ArrayData{values.Data()}, 0, 0)
		batches := tabletest.Single("c", array.MakeFromData(data)).Batches
		for _, rows := range []int64{0, 1, 2} {
			message := refuse(t, arrowzarr.PartInput, inputFile(t, writeWithQuiver(t, false, batches)), arrowzarr.Options{ChunkRows: rows})
			assert.Contains(t, message, "a list of elements [", "%v", offsets)
		}
	}
}

// The elements of lists need not follow those of the list before, and a chunk of offsets
// may end anywhere.
func TestListsShowTheirElementsOnly(t *testing.T) {
	whole := tabletest.FromJSON(t, arrow.ListOf(arrow.BinaryTypes.String), `[["a"], ["b", "cc"], [], ["d"], ["e", "", "f"], [], ["g"]]`)
	table := tabletest.Single("c", array.NewSlice(whole, 1, 3), array.NewSlice(whole, 4, 7), array.NewSlice(whole, 0, 1), whole, array.NewSlice(whole, 5, 6))
	input := inputFile(t, table.Stream(t))
	for _, rows := range []int64{0, 1, 2, 3, 5} {
		output, _ := convertFile(t, input, arrowzarr.Options{ChunkRows: rows})
		requireVerified(t, input, output)
		assert.Equal(t, "b", requireFirstText(t, output))
	}
}

// requireFirstText returns the first text of column c of an output, whose texts are inside
// of lists.
func requireFirstText(t *testing.T, output string) string {
	t.Helper()
	data := readArray(t, openRoot(t, output), "c/item-data")
	offsets := readArray(t, openRoot(t, output), "c/item-offsets")
	return string(data.Bytes[offsets.Bytes[0]:offsets.Bytes[8]])
}
