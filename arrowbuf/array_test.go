package arrowbuf_test

import (
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// A host touch of device memory ends these tests with a fault.
func TestArraysOfEveryTypeGoToADeviceAndBack(t *testing.T) {
	for _, dtype := range movable {
		for _, nulls := range []bool{false, true} {
			name := dtype.String()
			if nulls {
				name += " with nulls"
			}
			t.Run(name, func(t *testing.T) {
				mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
				defer mem.AssertSize(t, 0)
				dev := newFake(t)
				rng := rand.New(rand.NewPCG(1, uint64(dtype.ID())))
				const n = 67
				host := randomArray(t, mem, rng, dtype, n, nulls)
				defer host.Release()
				bounds := [][2]int{{0, n}, {0, 0}, {n, n}, {8, 8}, {8, 33}, {n - 1, n}}
				for range 6 {
					i := rng.IntN(n)
					bounds = append(bounds, [2]int{i, i + rng.IntN(n-i)})
				}
				whole := copyArray(t, host, dev)
				defer whole.Release()
				requireSame(t, host, whole)
				for _, b := range bounds {
					// Cut on the host and moved, and moved and cut there.
					slice := array.NewSlice(host, int64(b[0]), int64(b[1]))
					moved := copyArray(t, slice, dev)
					requireSame(t, slice, moved)
					assert.Less(t, moved.Data().Offset(), 8)
					cut := whole.Slice(b[0], b[1])
					requireSame(t, slice, cut)
					again := copyArray(t, cut, newFake(t))
					requireSame(t, slice, again)
					again.Release()
					cut.Release()
					moved.Release()
					slice.Release()
				}
			})
		}
	}
}

func copyArray(t testing.TB, arr arrow.Array, dev arrowbuf.Device) *arrowbuf.Array {
	t.Helper()
	moved, err := arrowbuf.CopyArrayTo(arr, dev)
	require.NoError(t, err)
	require.IsType(t, (*arrowbuf.Array)(nil), moved)
	require.Same(t, dev, arrowbuf.DeviceOf(moved))
	return moved.(*arrowbuf.Array)
}

// requireSame checks a device array against the host's, method by method.
func requireSame(t testing.TB, host arrow.Array, dev *arrowbuf.Array) {
	t.Helper()
	require.Equal(t, host.Len(), dev.Len())
	require.True(t, arrow.TypeEqual(host.DataType(), dev.DataType()))
	require.Equal(t, host.NullN(), dev.NullN())
	require.Equal(t, host.String(), dev.String())
	got, err := dev.MarshalJSON()
	require.NoError(t, err)
	if host.Len() > 0 { // arrow-go writes some empty arrays as [], some as null
		want, err := host.MarshalJSON()
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(got))
	}
	for i := range host.Len() {
		require.Equal(t, host.IsNull(i), dev.IsNull(i), i)
		require.Equal(t, host.IsValid(i), dev.IsValid(i), i)
		require.Equal(t, host.ValueStr(i), dev.ValueStr(i), i)
		require.Equal(t, host.GetOneForMarshal(i), dev.GetOneForMarshal(i), i)
	}
	back, err := dev.ToHost()
	require.NoError(t, err)
	defer back.Release()
	require.NotSame(t, dev, back)
	require.IsType(t, host, back)
	require.True(t, array.Equal(host, back), "want %v\ngot %v", host, back)
	require.Same(t, arrowbuf.CPU(), arrowbuf.DeviceOf(back))
}
