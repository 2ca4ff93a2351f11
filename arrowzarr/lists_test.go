package arrowzarr_test

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// fromJSON is an array of the values in a JSON list.
func fromJSON(tb testing.TB, t arrow.DataType, values string) arrow.Array {
	tb.Helper()
	b := array.NewBuilder(memory.DefaultAllocator, t)
	require.NoError(tb, b.UnmarshalJSON([]byte(values)))
	return b.NewArray()
}

// int8s are the contents of an array of int8 or bool.
func int8s(kind string, shape []int64, values ...byte) contents {
	return contents{Type: kind, Shape: shape, Bytes: append([]byte{}, values...)}
}

// The arrays of lists, spelled out: what is missing where.
func TestListsBecomeArraysOfMoreAxes(t *testing.T) {
	pair := arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Int8)
	square := arrow.FixedSizeListOf(2, pair)
	tests := []struct {
		name   string
		kind   arrow.DataType
		values string
		want   map[string]contents
	}{
		{"whole", pair, `[[1, 2], [3, 4], [5, 6]]`, map[string]contents{
			"": int8s("int8", []int64{3, 2}, 1, 2, 3, 4, 5, 6),
		}},
		{"missing rows", pair, `[[1, 2], null]`, map[string]contents{
			"values": int8s("int8", []int64{2, 2}, 1, 2, 0, 0),
			"mask":   int8s("bool", []int64{2}, 0, 1),
		}},
		{"missing elements", pair, `[[1, null], [3, 4]]`, map[string]contents{
			"values":       int8s("int8", []int64{2, 2}, 1, 0, 3, 4),
			"element_mask": int8s("bool", []int64{2, 2}, 0, 1, 0, 0),
		}},
		{"missing rows and elements", pair, `[[1, null], null]`, map[string]contents{
			"values":       int8s("int8", []int64{2, 2}, 1, 0, 0, 0),
			"mask":         int8s("bool", []int64{2}, 0, 1),
			"element_mask": int8s("bool", []int64{2, 2}, 0, 1, 0, 0),
		}},
		{"lists of lists", square, `[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]`, map[string]contents{
			"": int8s("int8", []int64{2, 2, 2}, 1, 2, 3, 4, 5, 6, 7, 8),
		}},
		{"missing lists in lists", square, `[[[1, 2], null], [[5, null], [7, 8]]]`, map[string]contents{
			"values":       int8s("int8", []int64{2, 2, 2}, 1, 2, 0, 0, 5, 0, 7, 8),
			"element_mask": int8s("bool", []int64{2, 2, 2}, 0, 0, 1, 1, 0, 1, 0, 0),
		}},
		{"bits", arrow.FixedSizeListOf(3, arrow.FixedWidthTypes.Boolean), `[[true, false, true], [false, null, true]]`, map[string]contents{
			"values":       int8s("bool", []int64{2, 3}, 1, 0, 1, 0, 0, 1),
			"element_mask": int8s("bool", []int64{2, 3}, 0, 0, 0, 0, 1, 0),
		}},
		{"no rows", pair, `[]`, map[string]contents{"": int8s("int8", []int64{0, 2})}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			input := inputFile(t, single("c", fromJSON(t, test.kind, test.values)).file(t))
			for _, rows := range []int64{0, 1} {
				output, _ := convertFile(t, input, arrowzarr.Options{ChunkRows: rows})
				requireColumn(t, openRoot(t, output), "c", test.want)
				cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
					output, _ := convertFile(t, input, arrowzarr.Options{Device: dev, ChunkRows: rows})
					requireColumn(t, openRoot(t, output), "c", test.want)
				})
			}
		})
	}
}

// tensors is a column of fixed_shape_tensor, which arrow-go knows as a list.
func tensors(tb testing.TB, metadata string, width int32, values string) table {
	kind := arrow.FixedSizeListOf(width, arrow.PrimitiveTypes.Int8)
	field := arrow.Field{Name: "images", Type: kind, Metadata: arrow.NewMetadata(
		[]string{"ARROW:extension:name", "ARROW:extension:metadata"}, []string{"arrow.fixed_shape_tensor", metadata})}
	return newTable([]arrow.Field{field}, []arrow.Array{fromJSON(tb, kind, values)})
}

func TestTensorsHaveTheirShape(t *testing.T) {
	tests := []struct {
		metadata    string
		shape       []int64
		names       []string
		permutation string
	}{
		{`{"shape": [2, 3]}`, []int64{2, 2, 3}, nil, ""},
		{`{"shape": [6]}`, []int64{2, 6}, nil, ""},
		{`{"shape": [3, 1, 2]}`, []int64{2, 3, 1, 2}, nil, ""},
		{`{"shape": [2, 3], "dim_names": ["y", "x"]}`, []int64{2, 2, 3}, []string{"", "y", "x"}, ""},
		{`{"shape": [2, 3], "permutation": [1, 0]}`, []int64{2, 2, 3}, nil, "[1 0]"},
		{`{"shape": [2, 3], "dim_names": ["y", "x"], "permutation": [1, 0]}`, []int64{2, 2, 3}, []string{"", "y", "x"}, "[1 0]"},
	}
	for _, test := range tests {
		t.Run(test.metadata, func(t *testing.T) {
			input := tensors(t, test.metadata, 6, `[[1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12]]`)
			output, _ := convert(t, input.stream(t), arrowzarr.Options{})
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
	output, _ := convert(t, input.stream(t), arrowzarr.Options{})
	root := openRoot(t, output)
	assert.Equal(t, int8s("int8", []int64{2, 2, 1}, 1, 2, 0, 0), readArray(t, root, "images/values"))
	assert.Equal(t, int8s("bool", []int64{2}, 0, 1), readArray(t, root, "images/mask"))
	values, err := root.OpenArray(t.Context(), "images/values")
	require.NoError(t, err)
	assert.Equal(t, []string{"", "y", "x"}, values.Metadata().DimensionNames)
}

func TestTensorsThatDoNotFitAreRefused(t *testing.T) {
	for _, metadata := range []string{
		``, `[`, `{}`, `{"shape": [2, 2]}`, `{"shape": [7]}`, `{"shape": [-2, -3]}`, `{"shape": [0]}`, `{"shape": "6"}`,
		`{"shape": [4611686018427387904, 4, 6]}`,
		`{"shape": [2, 3], "dim_names": ["x"]}`,
		`{"shape": [2, 3], "permutation": [0]}`, `{"shape": [2, 3], "permutation": [0, 0]}`, `{"shape": [2, 3], "permutation": [1, 2]}`,
	} {
		t.Run(metadata, func(t *testing.T) {
			input := tensors(t, metadata, 6, `[[1, 2, 3, 4, 5, 6]]`)
			message := refuse(t, arrowzarr.PartInput, inputFile(t, input.stream(t)), arrowzarr.Options{})
			assert.Contains(t, message, `"images"`)
			assert.Contains(t, message, "fixed_shape_tensor")
		})
	}
}
