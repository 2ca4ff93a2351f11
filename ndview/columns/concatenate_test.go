package columns_test

import (
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview/columns"
	"github.com/stretchr/testify/require"
)

// requireJoined checks that an array is others, one behind the other.
func requireJoined(t testing.TB, parts []arrow.Array, got arrow.Array) {
	t.Helper()
	require.True(t, arrow.TypeEqual(parts[0].DataType(), got.DataType()), got.DataType())
	at := 0
	for _, part := range parts {
		require.LessOrEqual(t, at+part.Len(), got.Len())
		requireElementsAt(t, part, upTo(part.Len()), got, at)
		at += part.Len()
	}
	require.Equal(t, at, got.Len())
}

func TestConcatenateOfAllTypes(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, dtype := range types {
			for seed := range 8 {
				m := newMaker(t, seed, seed%2 == 0)
				var parts, moved []arrow.Array
				for range 1 + m.rng.IntN(4) {
					m.nulls = seed%2 == 0 && m.rng.IntN(3) > 0
					n := []int{0, 1, 31, 64, 100}[m.rng.IntN(5)]
					part := m.array(dtype, n, m.rng.IntN(2) == 0)
					parts, moved = append(parts, part), append(moved, on(t, dev, part))
					if m.rng.IntN(2) == 0 { // and a slice of the same array
						from := m.rng.IntN(n + 1)
						parts = append(parts, array.NewSlice(part, int64(from), int64(n)))
						moved = append(moved, arrowbuf.NewSlice(moved[len(moved)-1], int64(from), int64(n)))
						t.Cleanup(parts[len(parts)-1].Release)
						t.Cleanup(moved[len(moved)-1].Release)
					}
				}
				got, err := columns.Concatenate(moved...)
				requireJoined(t, parts, toHost(t, dev, got, err))
			}
		}
	})
}

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
