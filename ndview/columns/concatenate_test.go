package columns_test

import (
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview/columns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// requireJoined requires that an array is the concatenation of parts.
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

func TestConcatenateAllTypes(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, dtype := range types {
			for seed := range 8 {
				m := newMaker(t, seed, seed%2 == 0)
				var parts, moved []arrow.Array
				for range 1 + m.rng.IntN(4) {
					m.nulls = seed%2 == 0 && m.rng.IntN(3) > 0
					n := []int{0, 1, 31, 64, 100}[m.rng.IntN(5)]
					part := m.array(dtype, n, m.rng.IntN(2) == 0)
					parts, moved = append(parts, part), append(moved, on(t, dev, part))
					if m.rng.IntN(2) == 0 { // adds a slice of the same array
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

// Zeros of both signs and NaNs with different payloads are different values, although
// arrow-go considers their dictionaries equal.
func TestConcatenateComparesDictionaryValuesBitwise(t *testing.T) {
	nan := math.NaN()
	payload := math.Float64frombits(math.Float64bits(nan) ^ 2)
	coded := func(t *testing.T, dev arrowbuf.Device, values ...float64) arrow.Array {
		raw := memory.NewBufferBytes(arrow.Float64Traits.CastToBytes(values))
		dictionary := array.NewData(arrow.PrimitiveTypes.Float64, len(values), []*memory.Buffer{nil, raw}, nil, 0, 0)
		indices := make([]int, len(values))
		for i := range indices {
			indices[i] = i
		}
		data := array.NewDataWithDictionary(&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.PrimitiveTypes.Float64},
			len(values), []*memory.Buffer{nil, integers(1, indices)}, 0, 0, dictionary)
		return on(t, dev, array.MakeFromData(data))
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
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

func TestConcatenateRejectsMismatchedArrays(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		m := newMaker(t, 1, false)
		a, b := on(t, dev, m.array(arrow.PrimitiveTypes.Int8, 3, false)), on(t, dev, m.array(arrow.PrimitiveTypes.Int16, 3, false))
		_, err := columns.Concatenate(a, b)
		require.ErrorIs(t, err, arrow.ErrInvalid)
		require.ErrorContains(t, err, "array 1 is of type int16, want int8")
		_, err = columns.Concatenate()
		require.Error(t, err)
		if dev != arrowbuf.CPU() {
			_, err = columns.Concatenate(a, m.array(arrow.PrimitiveTypes.Int8, 3, false))
			require.ErrorIs(t, err, arrowbuf.ErrDevice)
			_, err = columns.Take(m.array(arrow.PrimitiveTypes.Int8, 3, false), on(t, dev, columns.Indices(1)))
			require.ErrorIs(t, err, arrowbuf.ErrDevice)
		}
	})
}

func TestConcatenateMergesDictionaries(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, value := range []arrow.DataType{
			arrow.BinaryTypes.String, arrow.BinaryTypes.LargeBinary, arrow.BinaryTypes.StringView, arrow.PrimitiveTypes.Int16,
			&arrow.Decimal128Type{Precision: 38}, arrow.FixedWidthTypes.Boolean, arrow.ListOf(arrow.PrimitiveTypes.Int8), arrow.Null,
		} {
			m := newMaker(t, 4, true)
			dtype := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint8, ValueType: value}
			a, b := m.array(dtype, 50, true), m.array(dtype, 30, false)
			got, err := columns.Concatenate(on(t, dev, a), on(t, dev, b), on(t, dev, a))
			host := toHost(t, dev, got, err)
			requireJoined(t, []arrow.Array{a, b, a}, host)
			require.LessOrEqual(t, host.(*array.Dictionary).Dictionary().Len(), 22, value) // a occurs twice, its values once
		}
		m := newMaker(t, 4, true)
		dictionaryOfSize := func(n int) arrow.Array {
			values := make([]int, n)
			for i := range values {
				values[i] = 1000*n + i
			}
			dictionary := array.NewData(arrow.PrimitiveTypes.Int32, n, []*memory.Buffer{nil, integers(4, values)}, nil, 0, 0)
			data := array.NewDataWithDictionary(&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.PrimitiveTypes.Int32},
				5, []*memory.Buffer{nil, integers(1, m.below(5, n))}, 0, 0, dictionary)
			return on(t, dev, array.MakeFromData(data))
		}
		got, err := columns.Concatenate(dictionaryOfSize(100), dictionaryOfSize(28))
		require.Equal(t, 128, toHost(t, dev, got, err).(*array.Dictionary).Dictionary().Len())
		_, err = columns.Concatenate(dictionaryOfSize(100), dictionaryOfSize(29))
		require.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
		require.ErrorContains(t, err, "dictionary of 129 values exceeds indices of type int8; cast to wider indices first")
	})
}

// The result has the type and field names of the first array even if that is empty.
func TestConcatenateKeepsTypeOfFirstArray(t *testing.T) {
	list := func(item string, values ...int32) arrow.Array {
		b := array.NewListBuilderWithField(memory.DefaultAllocator, arrow.Field{Name: item, Type: arrow.PrimitiveTypes.Int32, Nullable: true})
		defer b.Release()
		for _, v := range values {
			b.Append(true)
			b.ValueBuilder().(*array.Int32Builder).Append(v)
		}
		return b.NewArray()
	}
	none, one, two := list("item"), list("element", 1), list("element", 2)
	for _, arrays := range [][]arrow.Array{{none, one}, {none, one, two}} {
		joined, err := columns.Concatenate(arrays...)
		require.NoError(t, err)
		assert.Equal(t, none.DataType().String(), joined.DataType().String())
		assert.Equal(t, len(arrays)-1, joined.Len())
		joined.Release()
	}
}

func TestConcatenateValidatesLengthsBeforeAllocating(t *testing.T) {
	good := array.NewData(arrow.FixedWidthTypes.Boolean, 8, []*memory.Buffer{nil, memory.NewBufferBytes([]byte{1})}, nil, 0, 0)
	bad := array.NewData(arrow.FixedWidthTypes.Boolean, 1<<40, []*memory.Buffer{nil, memory.NewBufferBytes([]byte{1})}, nil, 0, 0)
	_, err := columns.Concatenate(part{data: good}, part{data: bad})
	assert.ErrorIs(t, err, arrow.ErrInvalid)
	assert.NotErrorIs(t, err, arrowbuf.ErrOutOfMemory)
}
