package arrowbuf_test

import (
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// A host touch of device memory ends these tests with a fault.
func TestArraysOfEveryTypeGoToADeviceAndBack(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for _, dtype := range movable {
			t.Run(dtype.String(), func(t *testing.T) { testType(t, dev, dtype, false) })
			t.Run(dtype.String()+" with nulls", func(t *testing.T) { testType(t, dev, dtype, true) })
		}
	})
}

func testType(t *testing.T, dev arrowbuf.Device, dtype arrow.DataType, nulls bool) {
	rng := rand.New(rand.NewPCG(1, uint64(dtype.ID())))
	const n = 29
	host := randomArray(t, checked(t), rng, dtype, n, nulls)
	defer host.Release()
	whole := copyArray(t, host, dev)
	defer whole.Release()
	requireSame(t, host, whole)
	bounds := [][2]int{{0, n}, {n, n}, {8, 8}, {8, 25}, {n - 1, n}}
	for range 2 {
		i := rng.IntN(n)
		bounds = append(bounds, [2]int{i, i + rng.IntN(n-i)})
	}
	for _, b := range bounds {
		testSlice(t, host, whole, b[0], b[1])
	}
}

// testSlice checks elements [i, j) of the same array on the host and on a
// device: cut on the host and moved, moved and cut, and moved again.
func testSlice(t *testing.T, host arrow.Array, whole *arrowbuf.Array, i, j int) {
	slice := array.NewSlice(host, int64(i), int64(j))
	defer slice.Release()
	moved := copyArray(t, slice, whole.Device())
	defer moved.Release()
	requireSame(t, slice, moved)
	assert.Zero(t, moved.Data().Offset())
	cut := whole.Slice(i, j)
	defer cut.Release()
	requireSame(t, slice, cut)
	other := copyArray(t, cut, counted(whole.Device()))
	defer other.Release()
	requireSame(t, slice, other)
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
	if host.Len() > 0 || !hasDenseUnion(host.DataType()) { // arrow-go panics printing an empty slice of one
		require.Equal(t, host.String(), dev.String())
	}
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
