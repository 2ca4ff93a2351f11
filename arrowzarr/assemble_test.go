package arrowzarr_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// int8s returns the contents of an array of int8 or bool.
func int8s(kind string, shape []int64, values ...byte) contents {
	return contents{Type: kind, Shape: shape, Bytes: append([]byte{}, values...)}
}

// The tests give the arrays of values and masks literally.
func TestFixedSizeListsBecomeArraysOfMoreAxes(t *testing.T) {
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
			input := inputFile(t, tabletest.Single("c", tabletest.FromJSON(t, test.kind, test.values)).File(t))
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
