package ndview_test

import (
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

func TestFromArrowRefusesNullsAmongWhatTheColumnShows(t *testing.T) {
	i32, boolean := arrow.PrimitiveTypes.Int32, arrow.FixedWidthTypes.Boolean
	pairs, nested := listOf(2, i32), listOf(1, listOf(2, i32))
	tests := []struct {
		name  string
		dtype arrow.DataType
		json  string
		i, j  int
		nulls bool
	}{
		{"an element", i32, `[1, null, 3, 4]`, 0, 4, true},
		{"an element after the slice", i32, `[1, null, 3, 4]`, 0, 1, false},
		{"an element before the slice", i32, `[1, null, 3, 4]`, 2, 4, false},
		{"all elements", i32, `[null, null]`, 0, 2, true},
		{"no rows of nulls", i32, `[null, null]`, 1, 1, false},
		{"a boolean", boolean, `[true, null, true]`, 0, 3, true},
		{"a boolean beside the slice", boolean, `[true, null, true]`, 2, 3, false},
		{"a list", pairs, `[[1, 2], null, [3, 4]]`, 0, 3, true},
		{"a list beside the slice", pairs, `[[1, 2], null, [3, 4]]`, 2, 3, false},
		{"a list's element", pairs, `[[1, 2], [3, null], [5, 6]]`, 0, 3, true},
		{"a list's element in the slice", pairs, `[[1, 2], [3, null], [5, 6]]`, 1, 2, true},
		{"a list's element before the slice", pairs, `[[1, 2], [3, null], [5, 6]]`, 2, 3, false},
		{"a list's element after the slice", pairs, `[[1, 2], [3, null], [5, 6]]`, 0, 1, false},
		{"an inner list", nested, `[[[1, 2]], [null], [[3, 4]]]`, 0, 3, true},
		{"an inner list beside the slice", nested, `[[[1, 2]], [null], [[3, 4]]]`, 0, 1, false},
		{"an inner list's element", nested, `[[[1, 2]], [[3, null]], [[5, 6]]]`, 0, 2, true},
		{"an inner list's element beside the slice", nested, `[[[1, 2]], [[3, null]], [[5, 6]]]`, 2, 3, false},
		{"an extension's element", extensions.NewBool8Type(), `[true, null]`, 0, 2, true},
	}
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				shown(t, dev, fromJSON(t, tt.dtype, tt.json), tt.i, tt.j, func(t *testing.T, column arrow.Array) {
					a, err := ndview.FromArrow(column)
					if tt.nulls {
						assert.ErrorIs(t, err, ndview.ErrNulls)
						assert.ErrorContains(t, err, tt.dtype.String())
						return
					}
					require.NoError(t, err)
					defer a.Release()
					assert.EqualValues(t, tt.j-tt.i, a.Shape()[0])
				})
			})
		}
	})
}

// A list may say that it does not know its values' nulls.
func TestFromArrowCountsNullsThatNobodyHasCounted(t *testing.T) {
	values := fromJSON(t, arrow.PrimitiveTypes.Int32, `[1, 2, 3, null]`).Data()
	for n, nulls := range map[int]bool{1: false, 2: true} {
		child := array.NewData(values.DataType(), 4, slices.Clone(values.Buffers()), nil, array.UnknownNullCount, 0)
		defer child.Release()
		data := array.NewData(listOf(2, values.DataType()), n, []*memory.Buffer{nil}, []arrow.ArrayData{child}, 0, 0)
		defer data.Release()
		column := array.MakeFromData(data)
		defer column.Release()
		a, err := ndview.FromArrow(column)
		if nulls {
			assert.ErrorIs(t, err, ndview.ErrNulls)
			continue
		}
		assert.Equal(t, raw[int32](1, 2), elements(t, own(t, a, err)))
	}
}
