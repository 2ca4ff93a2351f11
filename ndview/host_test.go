package ndview_test

import (
	"math"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/float16"
	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/dtype"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestHostValuesRoundTrip(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		roundTrip(t, dev, ndview.Bool, []bool{true, false, true, true})
		roundTrip(t, dev, ndview.Int8, []int8{-128, 127, 0, 1})
		roundTrip(t, dev, ndview.Uint16, []uint16{0, 1, 2, math.MaxUint16})
		roundTrip(t, dev, ndview.Float16, []float16.Num{float16.New(1), float16.New(-1), float16.Inf(), {}})
		roundTrip(t, dev, ndview.BFloat16, []dtype.BFloat16Num{dtype.NewBFloat16(1), dtype.NewBFloat16(-2), 0, 0x7f80})
		roundTrip(t, dev, ndview.Timedelta64(ndview.Nanosecond, 1), []time.Duration{1, time.Hour, 0, -1})
		roundTrip(t, dev, ndview.Datetime64(ndview.Second, 1), []arrow.Timestamp{1, 2, 3, 4})
		roundTrip(t, dev, ndview.Int32, []int32{math.MinInt32, math.MaxInt32, 0, 1})
		roundTrip(t, dev, ndview.Float32, []float32{1.5, -2, float32(math.Inf(1)), 0})
		roundTrip(t, dev, ndview.Float64, []float64{1.5, -2, math.Inf(-1), 0})
		roundTrip(t, dev, ndview.Datetime64(ndview.Nanosecond, 1), []int64{math.MinInt64, 0, 1, 2})
		roundTrip(t, dev, ndview.Complex128, []complex128{1i, 2, 3 + 4i, 0})
		type celsius float32
		roundTrip(t, dev, ndview.Float32, []celsius{20, 21, 22, 23})
	})
}

// roundTrip checks four values, and an empty array.
func roundTrip[T ndview.Element](t *testing.T, dev arrowbuf.Device, dtype ndview.DType, values []T) {
	t.Helper()
	a, err := ndview.FromHost(dev, dtype, values, 2, 2)
	ndtest.Own(t, a, err)
	assert.Equal(t, dtype, a.DType())
	assert.Equal(t, dev, a.Device())
	got, err := ndview.ToHost[T](a)
	require.NoError(t, err)
	assert.Equal(t, values, got)

	transposed, err := a.Transpose()
	ndtest.Own(t, transposed, err)
	got, err = ndview.ToHost[T](transposed)
	require.NoError(t, err)
	assert.Equal(t, []T{values[0], values[2], values[1], values[3]}, got)

	none, err := ndview.FromHost(dev, dtype, []T{}, 0, 2)
	ndtest.Own(t, none, err)
	got, err = ndview.ToHost[T](none)
	require.NoError(t, err)
	assert.Empty(t, got)
}

func TestHostValuesOfWrongSizeReturnErrDType(t *testing.T) {
	_, err := ndview.FromHost(arrowbuf.CPU(), ndview.Int64, count(2), 2)
	assert.ErrorIs(t, err, ndview.ErrDType)
	assert.ErrorContains(t, err, "int32")
	a := ndtest.FromHost(t, arrowbuf.CPU(), ndview.Int32, count(2), 2)
	data, err := ndview.ToHost[uint8](a)
	assert.ErrorIs(t, err, ndview.ErrDType)
	assert.Nil(t, data)
}

// An int32 is not a float32 of its bits: 1 would become 1e-45.
func TestHostValuesOfAnotherTypeReturnErrDType(t *testing.T) {
	dev := arrowbuf.CPU()
	refuses := func(err error, names ...string) {
		t.Helper()
		require.ErrorIs(t, err, ndview.ErrDType)
		for _, name := range names {
			assert.ErrorContains(t, err, name)
		}
	}
	_, err := ndview.FromHost(dev, ndview.Float32, []int32{1, 2, 3}, 3)
	refuses(err, "ndview.FromHost", "int32", "float32")
	_, err = ndview.FromHost(dev, ndview.Float16, []uint16{1}, 1)
	refuses(err, "uint16", "float16")
	_, err = ndview.FromHost(dev, ndview.Bool, []uint8{2}, 1)
	refuses(err, "uint8", "bool")
	_, err = ndview.FromHost(dev, ndview.Bytes(4), []int32{1}, 1)
	refuses(err, "int32", "V4")
	_, err = ndview.FromHost(dev, seconds, []time.Duration{1}, 1)
	refuses(err, "time.Duration", "datetime64[s]")

	a := ndtest.FromHost(t, dev, ndview.Int32, count(3), 3)
	values, err := ndview.ToHost[float32](a)
	refuses(err, "ndview.ToHost", "float32", "int32")
	assert.Nil(t, values)
	refuses(ndview.Read(a, make([]uint32, 3)), "ndview.Read", "uint32", "int32")

	bits, err := a.View(ndview.Float32) // which says what is meant
	ndtest.Own(t, bits, err)
	values, err = ndview.ToHost[float32](bits)
	require.NoError(t, err)
	assert.Equal(t, math.Float32frombits(1), values[1])
}

func TestReadFillsASliceOfTheCaller(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Int32, count(6), 2, 3)
		dst := make([]int32, 6)
		require.NoError(t, ndview.Read(a, dst))
		assert.Equal(t, count(6), dst)
		transposed := ndtest.View(t)(a.Transpose())
		require.NoError(t, ndview.Read(transposed, dst))
		assert.Equal(t, []int32{0, 3, 1, 4, 2, 5}, dst)
		for _, n := range []int{0, 5, 7} {
			assert.ErrorIs(t, ndview.Read(a, make([]int32, n)), ndview.ErrShape)
		}
		assert.NoError(t, ndview.Read(index(t, a, ndview.Span(1, 1)), []int32{}))
	})
	a := ndtest.FromHost(t, arrowbuf.CPU(), ndview.Float64, make([]float64, 100), 10, 10)
	dst := make([]float64, 100)
	assert.Zero(t, testing.AllocsPerRun(100, func() { _ = ndview.Read(a, dst) }), "allocations of Read")
}

func TestBytesOfElementsRoundTrip(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		bits := ndtest.Raw(1.5, -2.0, 0.25, 8.0)
		for _, dtype := range []ndview.DType{ndview.Float64, ndview.Bytes(8), ndview.Int64, seconds} {
			a, err := ndview.FromBytes(dev, dtype, bits, 2, -1)
			ndtest.Own(t, a, err)
			assert.Equal(t, []int64{2, 2}, a.Shape())
			got, err := a.Bytes()
			require.NoError(t, err)
			assert.Equal(t, bits, got)
		}
		for _, c := range []struct {
			n     int
			shape []int64
		}{{31, []int64{4}}, {32, []int64{3}}, {32, []int64{-1, -1}}, {32, []int64{-2}}, {32, []int64{-1, 3}}, {0, []int64{-1, 0}}} {
			_, err := ndview.FromBytes(dev, ndview.Float64, make([]byte, c.n), c.shape...)
			assert.ErrorIs(t, err, ndview.ErrShape, c)
			assert.ErrorContains(t, err, "ndview.FromBytes: ")
		}
		_, err := ndview.FromBytes(dev, ndview.DType{}, bits, 4)
		assert.ErrorIs(t, err, ndview.ErrDType)
	})
}

func TestHostMemoryOfWrongLengthReturnsErrShape(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, n := range []int64{3, 5} {
			_, err := ndview.FromHost(dev, ndview.Int32, count(n), 2, 2)
			assert.ErrorIs(t, err, ndview.ErrShape)
		}
		_, err := ndview.FromHost(dev, ndview.Int32, count(4), -2, -2)
		assert.ErrorIs(t, err, ndview.ErrShape)
		_, err = ndview.FromHost(dev, ndview.Int32, count(0), 1<<40, 1<<40)
		assert.ErrorIs(t, err, ndview.ErrShape)

		a := ndtest.FromHost(t, dev, ndview.Int32, count(4), 2, 2)
		for _, n := range []int{0, 15, 17} {
			assert.ErrorIs(t, a.CopyToHost(make([]byte, n)), ndview.ErrShape)
			assert.ErrorIs(t, a.CopyFromHost(make([]byte, n)), ndview.ErrShape)
		}
		assert.Equal(t, ndtest.Raw(count(4)...), ndtest.Elements(t, a), "a failed call must not write")
	})
}

func TestHostBytesShareMemory(t *testing.T) {
	a := ndtest.FromHost(t, arrowbuf.CPU(), ndview.Int32, count(6), 3, 2)
	row, err := a.Slice(0, 1, 2)
	ndtest.Own(t, row, err)
	host, ok := row.HostBytes()
	require.True(t, ok)
	assert.Len(t, host, 8)
	assert.Equal(t, 8, cap(host), "a slice must not grow beyond the array")
	copy(host, ndtest.Raw[int32](-1, -2))
	assert.Equal(t, ndtest.Raw[int32](0, 1, -1, -2, 4, 5), ndtest.Elements(t, a))

	transposed, err := a.Transpose()
	ndtest.Own(t, transposed, err)
	_, ok = transposed.HostBytes()
	assert.False(t, ok, "not in C order")

	device := ndtest.OtherThan(t, arrowbuf.CPU())
	_, ok = ndtest.FromHost(t, device, ndview.Int32, count(6), 6).HostBytes()
	assert.False(t, ok, "not on the host")
}

func TestItemReturnsTheOnlyElement(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Int16, []int16{-7, 8}, 2)
		for _, shape := range [][]int64{{}, {1}, {1, 1}} {
			one, err := ndview.FromBuffer(a.Buffer(), ndview.Int16, 2, shape, nil)
			ndtest.Own(t, one, err)
			item, err := one.Item()
			require.NoError(t, err)
			assert.Equal(t, ndview.Int16, item.Natural())
			assert.Equal(t, int64(8), item.Value())
		}
		_, err := a.Item()
		assert.ErrorIs(t, err, ndview.ErrShape)
		_, err = ndtest.FromHost(t, dev, ndview.Int16, []int16{}, 0).Item()
		assert.ErrorIs(t, err, ndview.ErrShape)
	})
}

func TestBytesAreInCOrder(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Int16, []int16{1, 2, 3, 4, 5, 6}, 2, 3)
		transposed, err := a.Transpose()
		ndtest.Own(t, transposed, err)
		data, err := transposed.Bytes()
		require.NoError(t, err)
		assert.Equal(t, ndtest.Raw[int16](1, 4, 2, 5, 3, 6), data)
	})
}

func TestHostCopiesMayOverlap(t *testing.T) {
	square := ndtest.FromHost(t, arrowbuf.CPU(), ndview.Int32, count(9), 3, 3)
	transposed, err := square.Transpose()
	ndtest.Own(t, transposed, err)
	inPlace, ok := square.HostBytes()
	require.True(t, ok)
	require.NoError(t, transposed.CopyToHost(inPlace))
	assert.Equal(t, ndtest.Raw[int32](0, 3, 6, 1, 4, 7, 2, 5, 8), ndtest.Elements(t, square))
	require.NoError(t, transposed.CopyFromHost(inPlace))
	assert.Equal(t, ndtest.Raw(count(9)...), ndtest.Elements(t, square))
}

func TestTooLargeHostCopiesReturnErrOutOfMemory(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		one := ndtest.FromHost(t, dev, ndview.Int8, []int8{5}, 1)
		many, err := one.BroadcastTo(1<<30, 1<<30)
		ndtest.Own(t, many, err)
		_, err = many.Bytes()
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfMemory)
		_, err = ndview.ToHost[int8](many)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfMemory)
	})
}

func TestFromSliceInfersTypeAndShape(t *testing.T) {
	type celsius float32
	ns := ndview.Timedelta64(ndview.Nanosecond, 1)
	at := time.Date(2024, 2, 29, 12, 0, 0, 5, time.UTC)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, c := range []struct {
			slice any
			dtype ndview.DType
			shape []int64
			bits  []byte
		}{
			{[]bool{true, false}, ndview.Bool, []int64{2}, []byte{1, 0}},
			{[]int8{-1}, ndview.Int8, []int64{1}, ndtest.Raw[int8](-1)},
			{[]int16{-1, 2}, ndview.Int16, []int64{2}, ndtest.Raw[int16](-1, 2)},
			{[]int32{-1, 2}, ndview.Int32, []int64{2}, ndtest.Raw[int32](-1, 2)},
			{[]int64{-1, 2}, ndview.Int64, []int64{2}, ndtest.Raw[int64](-1, 2)},
			{[]int{-1, 2}, ndview.Int64, []int64{2}, ndtest.Raw[int64](-1, 2)},
			{[]uint8{1, 2}, ndview.Uint8, []int64{2}, []byte{1, 2}},
			{[]uint16{1, 2}, ndview.Uint16, []int64{2}, ndtest.Raw[uint16](1, 2)},
			{[]uint32{1, 2}, ndview.Uint32, []int64{2}, ndtest.Raw[uint32](1, 2)},
			{[]uint64{1, math.MaxUint64}, ndview.Uint64, []int64{2}, ndtest.Raw[uint64](1, math.MaxUint64)},
			{[]uint{1, 2}, ndview.Uint64, []int64{2}, ndtest.Raw[uint64](1, 2)},
			{[]float32{1.5, 2}, ndview.Float32, []int64{2}, ndtest.Raw[float32](1.5, 2)},
			{[]celsius{1.5, 2}, ndview.Float32, []int64{2}, ndtest.Raw[float32](1.5, 2)},
			{[]float64{1.5, 2}, ndview.Float64, []int64{2}, ndtest.Raw(1.5, 2.0)},
			{[]complex64{1i}, ndview.Complex64, []int64{1}, ndtest.Raw[complex64](1i)},
			{[]complex128{1i}, ndview.Complex128, []int64{1}, ndtest.Raw(1i)},
			{[]float16.Num{float16.New(1)}, ndview.Float16, []int64{1}, ndtest.Raw[uint16](0x3c00)},
			{[]dtype.BFloat16Num{0x3f80}, ndview.BFloat16, []int64{1}, ndtest.Raw[uint16](0x3f80)},
			{[]time.Duration{time.Second}, ns, []int64{1}, ndtest.Raw[int64](1e9)},
			{[]time.Time{at}, ndview.Datetime64(ndview.Nanosecond, 1), []int64{1}, ndtest.Raw(at.UnixNano())},
			{[]arrow.Date64{86400000}, ndview.Datetime64(ndview.Millisecond, 1), []int64{1}, ndtest.Raw[int64](86400000)},
			{[]float32{}, ndview.Float32, []int64{0}, nil},
			{[]float32(nil), ndview.Float32, []int64{0}, nil},
			{[3]int16{1, 2, 3}, ndview.Int16, []int64{3}, ndtest.Raw[int16](1, 2, 3)},
			{[][]int16{{1, 2, 3}, {4, 5, 6}}, ndview.Int16, []int64{2, 3}, ndtest.Raw[int16](1, 2, 3, 4, 5, 6)},
			{[2][2]int16{{1, 2}, {3, 4}}, ndview.Int16, []int64{2, 2}, ndtest.Raw[int16](1, 2, 3, 4)},
			{[][2]int16{}, ndview.Int16, []int64{0, 2}, nil},
			{[][]int16{{}, {}}, ndview.Int16, []int64{2, 0}, nil},
			{[][][]int16{}, ndview.Int16, []int64{0, 0, 0}, nil},
			{[][][]bool{{{true}, {false}}, {{false}, {true}}, {{true}, {true}}}, ndview.Bool, []int64{3, 2, 1}, []byte{1, 0, 0, 1, 1, 1}},
			{[][]time.Time{{at}, {at}}, ndview.Datetime64(ndview.Nanosecond, 1), []int64{2, 1}, ndtest.Raw(at.UnixNano(), at.UnixNano())},
		} {
			a, err := ndview.FromSlice(dev, c.slice)
			ndtest.Own(t, a, err)
			assert.Equal(t, c.dtype, a.DType(), "%T", c.slice)
			assert.Equal(t, c.shape, a.Shape(), "%T", c.slice)
			assert.Equal(t, dev, a.Device())
			ndtest.RequireBytes(t, c.bits, ndtest.Elements(t, a), c.slice)
		}
	})
}

func TestFromSliceTakesAShape(t *testing.T) {
	dev := arrowbuf.CPU()
	for _, c := range []struct {
		slice       any
		shape, want []int64
	}{
		{count(6), []int64{2, 3}, []int64{2, 3}},
		{count(6), []int64{-1, 2}, []int64{3, 2}},
		{count(1), []int64{1, 1, -1}, []int64{1, 1, 1}},
		{[][]int32{{0, 1, 2}, {3, 4, 5}}, []int64{-1}, []int64{6}},
		{[]int32{}, []int64{3, 0}, []int64{3, 0}},
	} {
		a, err := ndview.FromSlice(dev, c.slice, c.shape...)
		ndtest.Own(t, a, err)
		assert.Equal(t, c.want, a.Shape())
		assert.Equal(t, count(a.Size()), append([]int32{}, ndtest.HostOf[int32](t, a)...))
	}
	for _, shape := range [][]int64{{5}, {-1, 4}, {-1, -1}, {-2, -3}, {0, -1}, {7, -1}, {1 << 40, 1 << 40}} {
		_, err := ndview.FromSlice(dev, count(6), shape...)
		assert.ErrorIs(t, err, ndview.ErrShape, shape)
		assert.ErrorContains(t, err, "ndview.FromSlice: ")
	}
}

func TestFromSliceNamesThePlaceThatDiffers(t *testing.T) {
	dev := arrowbuf.CPU()
	for _, c := range []struct {
		slice any
		place string
	}{
		{[][]float32{{1, 2}, {3}}, "slice[1] has length 1, want 2"},
		{[][]float32{{1, 2}, nil}, "slice[1] has length 0, want 2"},
		{[][][]int8{{{1}, {2}}, {{3}, {4, 5}}}, "slice[1][1] has length 2, want 1"},
		{[][][]int8{{{1}, {2}}, {{3}}}, "slice[1] has length 1, want 2"},
	} {
		_, err := ndview.FromSlice(dev, c.slice)
		require.ErrorIs(t, err, ndview.ErrShape)
		assert.ErrorContains(t, err, c.place)
	}
	_, err := ndview.FromSlice(dev, [][]time.Time{{time.Unix(0, 0)}, {{}}})
	assert.ErrorIs(t, err, ndview.ErrRange)
	assert.ErrorContains(t, err, "slice[1][0]")
}

func TestFromSliceRefusesOtherValues(t *testing.T) {
	type nested []nested
	for _, v := range []any{nested{nested{}}, nil, 1, "text", []string{"a"}, []any{1}, map[int]int{}, []arrow.Timestamp{1}, [][]struct{}{}, []*int{nil}, struct{}{}} {
		_, err := ndview.FromSlice(arrowbuf.CPU(), v)
		assert.ErrorIs(t, err, ndview.ErrDType, "%T", v)
		assert.ErrorContains(t, err, "ndview.FromSlice: ")
	}
	_, err := ndview.FromSlice(nil, []int8{1})
	assert.ErrorIs(t, err, arrowbuf.ErrDevice)
}

// A slice of the array's own type is written in place, without a temporary array.
func TestAssignReadsSlicesOfItsOwnType(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := empty(t, dev, ndview.Float16, 2, 2)
		require.NoError(t, a.Assign([]float16.Num{float16.New(1), float16.New(2), float16.New(3), float16.New(4)}))
		assert.Equal(t, []uint16{0x3c00, 0x4000, 0x4200, 0x4400}, ndtest.HostOf[uint16](t, a))
		require.NoError(t, ndtest.View(t)(a.Transpose()).Assign([]uint16{1, 2, 3, 4}), "integers are cast by value")
		assert.Equal(t, []uint16{0x3c00, 0x4200, 0x4000, 0x4400}, ndtest.HostOf[uint16](t, a))
		d := empty(t, dev, seconds, 2)
		require.NoError(t, d.Assign([]time.Time{time.Unix(5, 0), time.Unix(-7, 0)}))
		assert.Equal(t, []int64{5, -7}, ndtest.HostOf[int64](t, d))
	})
}
