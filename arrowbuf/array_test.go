package arrowbuf_test

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// A host access to device memory ends these tests with a fault.
func TestArraysOfAllTypesRoundTrip(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for _, dtype := range allTypes {
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

// testSlice checks elements [i, j) of an array on the host and on a device: sliced on
// the host and copied, copied and sliced, and copied to another device.
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

// requireSame compares each method of a device array with the host array's.
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
	back, err := arrowbuf.CopyArrayTo(dev, arrowbuf.CPU())
	require.NoError(t, err)
	defer back.Release()
	require.NotSame(t, dev, back)
	require.IsType(t, host, back)
	require.True(t, array.Equal(host, back), "want %v\ngot %v", host, back)
	require.Same(t, arrowbuf.CPU(), arrowbuf.DeviceOf(back))
}

func TestNewArrayDistinguishesDeviceMemory(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		host := randomBatch(t, checked(t), 20, allTypes...)
		moved := copyBatch(t, host, dev)
		defer moved.Release()
		for i, column := range host.Columns() {
			own := arrowbuf.NewArray(column.Data())
			assert.IsType(t, column, own)
			own.Release()
			if dtype := column.DataType(); dtype.ID() == arrow.NULL || arrow.TypeEqual(dtype, arrow.StructOf()) && column.NullN() == 0 {
				continue // the array has no memory to recognize the device by
			}
			there := arrowbuf.NewArray(moved.Column(i).Data())
			assert.IsType(t, (*arrowbuf.Array)(nil), there, column.DataType())
			assert.Same(t, dev, arrowbuf.DeviceOf(there))
			assert.Equal(t, column.String(), there.String())
			there.Release()
		}
	})
}

// arrow-go's own arrays over device memory can be copied, although the host must not
// read their values.
func TestCopyArrayToAcceptsArrowGoArraysOverDeviceMemory(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		host := randomBatch(t, checked(t), 20, arrow.PrimitiveTypes.Int32)
		moved := copyBatch(t, host, dev)
		defer moved.Release()
		raw := array.MakeFromData(moved.Column(0).Data())
		defer raw.Release()
		require.IsType(t, (*array.Int32)(nil), raw)
		assert.Same(t, dev, arrowbuf.DeviceOf(raw))
		back, err := arrowbuf.CopyArrayTo(raw, arrowbuf.CPU())
		require.NoError(t, err)
		defer back.Release()
		assert.True(t, array.Equal(host.Column(0), back))
		shared := copyArray(t, raw, dev)
		defer shared.Release()
		assert.Equal(t, host.Column(0).String(), shared.String())
	})
}

func TestArrayConcurrentUse(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		host := randomBatch(t, checked(t), 100, arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int32)
		moved := copyBatch(t, host, dev)
		defer moved.Release()
		slice := moved.NewSlice(3, 80)
		defer slice.Release()
		want := host.NewSlice(3, 80)
		defer want.Release()
		nulls := []int{want.Column(0).NullN(), want.Column(1).NullN()} // counted here: arrow-go's NullN is not safe for concurrent use
		var wg sync.WaitGroup
		for range 4 {
			slice.Retain()
			wg.Go(func() {
				defer slice.Release()
				for i, column := range slice.Columns() {
					assert.Equal(t, nulls[i], column.NullN())
					assert.Equal(t, want.Column(i).IsNull(7), column.IsNull(7))
					assert.Equal(t, want.Column(i).String(), column.String())
				}
			})
		}
		wg.Wait()
	})
}

func TestArrayExtraReleasePanics(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		moved := copyArray(t, randomBatch(t, checked(t), 5, arrow.PrimitiveTypes.Int8).Column(0), dev)
		moved.Retain()
		moved.Release()
		moved.Release()
		assert.Panics(t, moved.Release)
	})
}

// Methods of arrow.Array cannot return an error.
func TestArrayMethodsPanicWithDeviceError(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		moved := copyArray(t, randomBatch(t, checked(t), 50, arrow.BinaryTypes.String).Column(0), dev)
		defer moved.Release()
		slice := moved.Slice(3, 40)
		defer slice.Release()
		dev.failCopies.Store(true)
		defer dev.failCopies.Store(false)
		for name, look := range map[string]func(){
			"NullN":    func() { slice.NullN() },
			"IsNull":   func() { slice.IsNull(0) },
			"ValueStr": func() { _ = slice.ValueStr(0) },
			"String":   func() { _ = slice.String() },
		} {
			t.Run(name, func(t *testing.T) {
				defer func() {
					err, _ := recover().(error)
					assert.ErrorIs(t, err, errBroken)
				}()
				look()
			})
		}
	})
}

func TestNullBitmapBytesOfSliceKeepsOffset(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		host := randomBatch(t, checked(t), 200, arrow.PrimitiveTypes.Int8).Column(0)
		moved := copyArray(t, host, dev)
		defer moved.Release()
		slice := moved.Slice(101, 150)
		defer slice.Release()
		bits := slice.NullBitmapBytes()
		require.Len(t, bits, 19)
		assert.Equal(t, make([]byte, 12), bits[:12])
		assert.Equal(t, host.NullBitmapBytes()[12:19], bits[12:])
	})
}
