package arrowbuf_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

func TestBitwiseEqualOfAllTypes(t *testing.T) {
	for _, dtype := range allTypes {
		make := func(seed uint64) arrow.Array {
			arr := randomArray(t, checked(t), rand.New(rand.NewPCG(seed, 9)), dtype, 29, true)
			t.Cleanup(arr.Release)
			return arr
		}
		a, again, other := make(1), make(1), make(2)
		assert.True(t, arrowbuf.BitwiseEqual(a, again), dtype)
		part, same := array.NewSlice(a, 3, 20), array.NewSlice(again, 3, 20)
		assert.True(t, arrowbuf.BitwiseEqual(part, same), dtype)
		assert.False(t, arrowbuf.BitwiseEqual(a, part), dtype)
		part.Release()
		same.Release()
		assert.Equal(t, array.Equal(a, other), arrowbuf.BitwiseEqual(a, other), dtype)
	}
}

func TestBitwiseEqualComparesFloatBits(t *testing.T) {
	floats := func(values ...float64) arrow.Array {
		b := array.NewFloat64Builder(memory.DefaultAllocator)
		b.AppendValues(values, nil)
		return b.NewArray()
	}
	nan := math.NaN()
	payload := math.Float64frombits(math.Float64bits(nan) ^ 2)
	zero, negative := floats(1, 0), floats(1, math.Copysign(0, -1))
	require.True(t, array.Equal(zero, negative))
	assert.False(t, arrowbuf.BitwiseEqual(zero, negative))
	assert.True(t, arrowbuf.BitwiseEqual(floats(nan), floats(nan)))
	assert.False(t, arrowbuf.BitwiseEqual(floats(nan), floats(payload)))
	nested := func(values arrow.Array) arrow.Array {
		data := array.NewData(arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float64), 1, []*memory.Buffer{nil}, []arrow.ArrayData{values.Data()}, 0, 0)
		return array.MakeFromData(data)
	}
	require.True(t, array.Equal(nested(zero), nested(negative)))
	assert.False(t, arrowbuf.BitwiseEqual(nested(zero), nested(negative)))
	ints := array.NewInt64Builder(memory.DefaultAllocator)
	ints.AppendValues([]int64{1, 2}, nil)
	assert.False(t, arrowbuf.BitwiseEqual(zero, ints.NewArray()), "of other types")
}
