package columns_test

import (
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview/columns"
)

// TestDictionariesAreJoinedToTheBit: zeros of two signs and NaNs of two payloads are
// different values, of equal dictionaries as arrow-go compares them, too.
func TestDictionariesAreJoinedToTheBit(t *testing.T) {
	nan := math.NaN()
	payload := math.Float64frombits(math.Float64bits(nan) ^ 2)
	coded := func(t *testing.T, dev arrowbuf.Device, values ...float64) arrow.Array {
		raw := memory.NewBufferBytes(arrow.Float64Traits.CastToBytes(values))
		dictionary := array.NewData(arrow.PrimitiveTypes.Float64, len(values), []*memory.Buffer{nil, raw}, nil, 0, 0)
		places := make([]int, len(values))
		for i := range places {
			places[i] = i
		}
		data := array.NewDataWithDictionary(&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.PrimitiveTypes.Float64},
			len(values), []*memory.Buffer{nil, integers(1, places)}, 0, 0, dictionary)
		return on(t, dev, array.MakeFromData(data))
	}
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, c := range []struct {
			a, b   []float64
			values int
		}{
			{[]float64{1, 0}, []float64{1, math.Copysign(0, -1)}, 3},
			{[]float64{nan, 0}, []float64{nan, 0}, 2},
			{[]float64{nan, 0}, []float64{payload, 0}, 3},
		} {
			got, err := columns.Concatenate(coded(t, dev, c.a...), coded(t, dev, c.b...))
			joined := toHost(t, dev, got, err).(*array.Dictionary)
			values := joined.Dictionary().(*array.Float64)
			require.Equal(t, c.values, values.Len(), "%v and %v", c.a, c.b)
			for i, want := range append(c.a, c.b...) {
				require.Equal(t, math.Float64bits(want), math.Float64bits(values.Value(joined.GetValueIndex(i))), "element %d of %v and %v", i, c.a, c.b)
			}
		}
	})
}
