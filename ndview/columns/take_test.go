package columns_test

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview/columns"
)

// indexArray returns an array of a type in which negative indices are null.
func indexArray(t testing.TB, dtype arrow.DataType, list []int) arrow.Array {
	t.Helper()
	builder := array.NewBuilder(memory.DefaultAllocator, dtype)
	defer builder.Release()
	for _, i := range list {
		if i < 0 {
			builder.AppendNull()
		} else {
			require.NoError(t, builder.AppendValueFromString(fmt.Sprint(i)))
		}
	}
	result := builder.NewArray()
	t.Cleanup(result.Release)
	return result
}

var indexTypes = []arrow.DataType{
	arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64,
	arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Uint32, arrow.PrimitiveTypes.Uint64,
}

func TestTakeAllTypes(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for k, dtype := range types {
			for seed := range 8 {
				m := newMaker(t, seed, seed%2 == 0)
				n := []int{1, 31, 100, 120}[m.rng.IntN(4)]
				arr := m.array(dtype, n, seed%3 > 0)
				from := m.below([]int{0, 3, 65, 300}[m.rng.IntN(4)], n)
				for j := range from {
					if seed > 3 && m.rng.IntN(4) == 0 {
						from[j] = -1
					}
				}
				indices := indexArray(t, indexTypes[(k+seed)%len(indexTypes)], from)
				if seed%2 == 0 {
					indices = on(t, dev, indices)
				}
				got, err := columns.Take(on(t, dev, arr), indices)
				requireElements(t, arr, from, toHost(t, dev, got, err))
			}
		}
	})
}

func TestTakeFromEmptyArrayAcceptsNullIndices(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, dtype := range types {
			arr := on(t, dev, newMaker(t, 1, false).array(dtype, 0, false))
			got, err := columns.Take(arr, indexArray(t, arrow.PrimitiveTypes.Int16, []int{-1, -1, -1}))
			requireElements(t, arr, []int{-1, -1, -1}, toHost(t, dev, got, err))
			got, err = columns.Take(arr, columns.Indices[int8]())
			require.Zero(t, toHost(t, dev, got, err).Len())
		}
	})
}

func TestTakeNamesTheFirstBadIndex(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		arr := on(t, dev, newMaker(t, 1, false).array(arrow.PrimitiveTypes.Int32, 10, false))
		many := make([]int32, 60_000)
		many[50_000], many[30_000] = 10, -3
		for want, indices := range map[string]arrow.Array{
			"index 10 at position 2 is outside 10 elements":            columns.Indices[int64](0, 9, 10, -1),
			"index -3 at position 30000 is outside 10 elements":        columns.Indices(many...),
			"index 18446744073709551615 at position 0 is outside":      columns.Indices[uint64](1<<64 - 1),
			"indices of type float32, want integers: invalid":          newMaker(t, 1, false).array(arrow.PrimitiveTypes.Float32, 3, false),
			"columns.Take: array of type int32: index 200 at position": columns.Indices[uint8](200),
		} {
			_, err := columns.Take(arr, indices)
			require.ErrorContains(t, err, want)
		}
		_, err := columns.Take(arr, columns.Indices(many...))
		require.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
	})
}

// Results hold references to the buffers that they share.
func TestResultsOutliveTheirInputs(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, dtype := range types {
			host := newMaker(t, 2, true).array(dtype, 60, false)
			moved, err := arrowbuf.CopyArrayTo(host, dev)
			require.NoError(t, err)
			slice := arrowbuf.NewSlice(moved, 5, 60)
			taken, err := columns.Take(slice, columns.Indices(1, 54, 7))
			require.NoError(t, err)
			joined, err := columns.Concatenate(slice, moved)
			require.NoError(t, err)
			slice.Release()
			moved.Release()
			requireElements(t, host, []int{6, 59, 12}, toHost(t, dev, taken, nil))
			requireJoined(t, []arrow.Array{array.NewSlice(host, 5, 60), host}, toHost(t, dev, joined, nil))
		}
	})
}
