package ndview_test

import (
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// arrayMaker makes an array on a device.
type arrayMaker func(t *testing.T, dev arrowbuf.Device) *ndview.NDBuffer

func vectorOf[T ndview.Element](dtype ndview.DType, values ...T) arrayMaker {
	return arrayOf(dtype, values, int64(len(values)))
}

func arrayOf[T ndview.Element](dtype ndview.DType, values []T, shape ...int64) arrayMaker {
	return func(t *testing.T, dev arrowbuf.Device) *ndview.NDBuffer {
		return ndtest.FromHost(t, dev, dtype, values, shape...)
	}
}

// TestAllEqualMatchesZarr covers the cases of zarr-python's all_equal
// (zarr-buffers-and-stores.md 1.3, executed there with NumPy).
func TestAllEqualMatchesZarr(t *testing.T) {
	f32 := math.Float32frombits
	tests := []struct {
		name  string
		a     arrayMaker
		other any
		want  bool
	}{
		{"nothing equals None", vectorOf(ndview.Float64, 0.0), nil, false},
		{"-0.0 is not 0.0", vectorOf(ndview.Float64, negativeZero), 0.0, false},
		{"0.0 is not -0.0", vectorOf(ndview.Float64, 0.0), negativeZero, false},
		{"-0.0 is -0.0", vectorOf(ndview.Float64, negativeZero), negativeZero, true},
		{"0.0 is 0.0", vectorOf(ndview.Float64, 0.0, 0.0), 0.0, true},
		{"-0.0 is the integer 0", vectorOf(ndview.Float64, negativeZero), 0, true},
		{"-0.0 is not float32(0)", vectorOf(ndview.Float64, negativeZero), float32(0), false},
		{"0.0 is float32(0)", vectorOf(ndview.Float64, 0.0), float32(0), true},
		{"-0.0 is not an array of 0.0", vectorOf(ndview.Float64, negativeZero), vectorOf(ndview.Float64, 0.0), false},
		{"-0.0 of float16 is not 0.0", vectorOf(ndview.Float16, uint16(0x8000)), 0.0, false},
		{"-0.0 of float16 is -0.0", vectorOf(ndview.Float16, uint16(0x8000)), negativeZero, true},
		{"arrays of zeros of either sign are equal", vectorOf(ndview.Float64, negativeZero, 0, 1), vectorOf(ndview.Float64, 0, negativeZero, 1), true},
		{"NaN is NaN", vectorOf(ndview.Float64, nan, nan), nan, true},
		{"NaNs of any payload and sign", vectorOf(ndview.Float32, f32(0x7fc00001), f32(0xffc00000), f32(0x7f800001)), nan, true},
		{"NaNs of either array", vectorOf(ndview.Float32, f32(0x7fc00001), 1), vectorOf(ndview.Float32, f32(0xffc00000), 1), true},
		{"NaN is no number", vectorOf(ndview.Float64, nan, 1), nan, false},
		{"NaT is NaT", vectorOf(seconds, int64(math.MinInt64)), vectorOf(seconds, int64(math.MinInt64), math.MinInt64), true},
		{"complex NaNs", vectorOf(ndview.Complex128, complex(nan, 1)), complex(nan, 2), true},
		{"complex [-0.0+0j] is 0j", vectorOf(ndview.Complex128, complex(negativeZero, 0)), 0i, true},
		{"complex [-0.0+0j] is not 0.0", vectorOf(ndview.Complex128, complex(negativeZero, 0)), 0.0, false},
		{"complex 0j is 0.0", vectorOf(ndview.Complex128, 0i), 0.0, true},
		{"integers are 0.0", vectorOf(ndview.Int32, int32(0), 0), 0.0, true},
		{"an integer is not 1.5", vectorOf(ndview.Int32, int32(1)), 1.5, false},
		{"integers are a float of their value", vectorOf(ndview.Int32, int32(2), 2), 2.0, true},
		{"integers are never NaN", vectorOf(ndview.Int64, int64(0)), nan, false},
		{"an integer is what promotion makes of it", vectorOf(ndview.Int64, int64(1<<53+1)), float64(1 << 53), true},
		{"uint64 and int64 are compared exactly", vectorOf(ndview.Uint64, uint64(1<<63)), vectorOf(ndview.Int64, int64(math.MinInt64), math.MinInt64), false},
		{"float32 0.1 is not 0.1", vectorOf(ndview.Float32, float32(0.1)), 0.1, false},
		{"float32 0.1 is float32 0.1", vectorOf(ndview.Float32, float32(0.1)), float32(0.1), true},
		{"int8 is not 300", vectorOf(ndview.Int8, int8(44)), 300, false},
		{"bool is False", vectorOf(ndview.Bool, false, false), false, true},
		{"bool is 0.0", vectorOf(ndview.Bool, false, false), 0.0, true},
		{"bool is not True", vectorOf(ndview.Bool, true, false), true, false},
		{"no elements are anything", arrayOf(ndview.Float64, []float64{}, 0, 3), 7.0, true},
		{"no elements are no elements", arrayOf(ndview.Float64, []float64{}, 0, 3), arrayOf(ndview.Float64, []float64{1, 2, 3}, 3), true},
		{"without axes", arrayOf(ndview.Float64, []float64{2}), 2.0, true},
		{"broadcast up", vectorOf(ndview.Int16, int16(1)), vectorOf(ndview.Int16, int16(1), 1, 1), true},
		{"broadcast up, not equal", vectorOf(ndview.Int16, int16(1)), vectorOf(ndview.Int16, int16(1), 1, 2), false},
		{"broadcast down", arrayOf(ndview.Float32, []float32{1, 2, 3, 1, 2, 3}, 2, 3), vectorOf(ndview.Float32, float32(1), 2, 3), true},
		{"broadcast both ways", arrayOf(ndview.Int64, []int64{5, 5, 5}, 3, 1), arrayOf(ndview.Int64, []int64{5, 5}, 1, 2), true},
		{"arrays of different types", vectorOf(ndview.Int16, int16(1), 2), vectorOf(ndview.Float64, 1.0, 2), true},
		{"arrays of different types, not equal", vectorOf(ndview.Int16, int16(1), 2), vectorOf(ndview.Float64, 1.0, 2.5), false},
		{"bytes", vectorOf(ndview.Bytes(2), uint16(7), 7), vectorOf(ndview.Bytes(2), uint16(7), 7), true},
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, tt := range tests {
			other := tt.other
			if m, ok := other.(arrayMaker); ok {
				other = m(t, dev)
			}
			got, err := tt.a(t, dev).AllEqual(other, true)
			if assert.NoError(t, err, tt.name) {
				assert.Equal(t, tt.want, got, tt.name)
			}
		}
	})
}

func TestAllEqualDistinguishesNaNs(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for name, a := range map[string]arrayMaker{
			"float16":    vectorOf(ndview.Float16, uint16(0x7e00)),
			"bfloat16":   vectorOf(ndview.BFloat16, uint16(0x7fc0)),
			"float32":    vectorOf(ndview.Float32, float32(nan)),
			"float64":    vectorOf(ndview.Float64, nan),
			"complex64":  vectorOf(ndview.Complex64, complex64(complex(nan, 0))),
			"complex128": vectorOf(ndview.Complex128, complex(0, nan)),
			"datetime64": vectorOf(seconds, int64(math.MinInt64)),
		} {
			for _, equalNaN := range []bool{true, false} {
				x, y := a(t, dev), a(t, dev)
				got, err := x.AllEqual(y, equalNaN)
				require.NoError(t, err, name)
				assert.Equal(t, equalNaN, got, name)
			}
		}
	})
}

// TestAllEqualComparesHalvesAsNumbers covers kernels that compare several halves per
// word.
func TestAllEqualComparesHalvesAsNumbers(t *testing.T) {
	kinds := map[ndview.DType]struct{ zero, one, infinity uint16 }{
		ndview.Float16: {0, 0x3c00, 0x7c00}, ndview.BFloat16: {0, 0x3f80, 0x7f80},
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for dtype, k := range kinds {
			values := []uint16{k.zero, k.zero + 1, k.one, k.infinity - 1, k.infinity, k.infinity + 1, 0x7fff}
			for _, v := range values {
				values = append(values, v|0x8000)
			}
			for _, a := range values {
				for _, b := range values {
					for _, nanEqual := range []bool{false, true} {
						isNaN := func(v uint16) bool { return v&0x7fff > k.infinity }
						want := a == b || (a|b)&0x7fff == 0
						if isNaN(a) || isNaN(b) {
							want = nanEqual && isNaN(a) && isNaN(b)
						}
						x, y := slices.Repeat([]uint16{k.one, k.zero}, 20), slices.Repeat([]uint16{k.one, k.zero}, 20)
						i := 14 + int(a+b)%2 // either half of a word
						x[i], y[i] = a, b
						got, err := ndtest.FromHost(t, dev, dtype, x, 40).AllEqual(ndtest.FromHost(t, dev, dtype, y, 40), nanEqual)
						require.NoError(t, err)
						require.Equal(t, want, got, "%s: %#x and %#x, NaNs are equal: %v", dtype, a, b, nanEqual)
					}
				}
			}
		}
	})
}

func TestAllEqualComparesRecordsByField(t *testing.T) {
	record, err := ndview.Record(16, ndview.Field{Name: "n", DType: ndview.Int16, Offset: 2},
		ndview.Field{Name: "x", DType: ndview.Float32, Offset: 4, Shape: []int64{2}})
	require.NoError(t, err)
	type row struct {
		pad  uint16
		n    int16
		x    [2]float32
		tail uint32
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		rows := func(rows ...row) *ndview.NDBuffer {
			return ndtest.At(t, ndtest.Upload(t, dev, ndtest.Raw(rows...)), record, 0, int64(len(rows)))
		}
		check := func(want bool, x, y *ndview.NDBuffer) {
			t.Helper()
			got, err := x.AllEqual(y, true)
			require.NoError(t, err)
			assert.Equal(t, want, got)
		}
		x := rows(row{1, 2, [2]float32{3, 4}, 5}, row{1, 2, [2]float32{3, 4}, 5})
		check(true, x, rows(row{9, 2, [2]float32{3, 4}, 9}))
		check(false, x, rows(row{1, 2, [2]float32{3, 5}, 5}))
		check(false, x, rows(row{1, 3, [2]float32{3, 4}, 5}))
		withNaN := row{0, 2, [2]float32{float32(nan), 4}, 0}
		check(false, rows(withNaN, withNaN), rows(withNaN, withNaN))
		got, err := x.Equal(rows(row{9, 2, [2]float32{3, 4}, 9}, row{1, 2, [2]float32{3, 4}, 5}))
		require.NoError(t, err)
		assert.False(t, got, "the gaps differ")
	})
}

// Arrays on one device are compared there: one result is copied to the host, no elements.
func TestEqualArraysOfADeviceAreNotCopiedToTheHost(t *testing.T) {
	var copies atomic.Int64
	d := cudatest.Start(t, cudatest.Config{Fail: func(call string, _ int) cudabuf.Result {
		if call == "cuMemcpyDtoHAsync" {
			copies.Add(1)
		}
		return 0
	}})
	dev, err := d.Device(0)
	require.NoError(t, err)
	const n = 16 << 20 // elements would take several copies
	x, err := ndview.Zeros(dev, ndview.Float32, n)
	ndtest.Own(t, x, err)
	y, err := ndview.Zeros(dev, ndview.Float32, n)
	ndtest.Own(t, y, err)
	for name, compare := range map[string]func() (bool, error){
		"Equal":                func() (bool, error) { return x.Equal(y) },
		"AllEqual":             func() (bool, error) { return x.AllEqual(y, true) },
		"AllEqual of a number": func() (bool, error) { return x.AllEqual(0.0, true) },
	} {
		copies.Store(0)
		same, err := compare()
		require.NoError(t, err)
		assert.True(t, same, name)
		assert.EqualValues(t, 1, copies.Load(), name)
	}
}

func TestAllEqualRefusesIncomparableTypes(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		x := ndtest.FromHost(t, dev, ndview.Int32, []int32{1, 2, 3, 4, 5, 6}, 2, 3)
		_, err := x.AllEqual(ndtest.FromHost(t, dev, ndview.Int32, []int32{1, 2}, 2), true)
		assert.ErrorIs(t, err, ndview.ErrShape)
		_, err = x.AllEqual(ndtest.FromHost(t, dev, seconds, []int64{1, 2, 3}, 3), true)
		assert.ErrorIs(t, err, ndview.ErrDType)
		_, err = x.AllEqual("text", true)
		assert.ErrorIs(t, err, ndview.ErrDType)
		released, err := ndview.Empty(dev, ndview.Int32, 3)
		require.NoError(t, err)
		released.Release()
		_, err = x.AllEqual(released, true)
		assert.ErrorIs(t, err, arrowbuf.ErrReleased)
	})
}

// TestAllEqualFindsOneDifferentElement places the element at any position in arrays of
// every size, layout and alignment.
func TestAllEqualFindsOneDifferentElement(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, dtype := range []ndview.DType{ndview.Int8, ndview.Float16, ndview.Int16, ndview.Float32, ndview.Float64, ndview.Int64,
			ndview.Complex64, ndview.Complex128, ndview.Bytes(3), ndview.Bytes(16), ndview.Bytes(24), seconds} {
			size := dtype.Size()
			for _, n := range []int64{1, 15, 16, 17, 1023, 5000} {
				data := make([]byte, size*(n+1))
				for i := range data {
					data[i] = byte(i*7+i>>6) & 0x3f
				}
				x := ndtest.Upload(t, dev, data)
				for _, where := range []int64{0, n / 2, n - 1} {
					y := ndtest.Upload(t, dev, data)
					for _, skip := range []int64{0, 1} {
						a, b := ndtest.At(t, x, dtype, skip*size, n), ndtest.At(t, y, dtype, skip*size, n)
						checkEqual(t, true, a, b)
						_, err := y.CopyFromHost([]byte{0x55}, (skip+where)*size+size/2)
						require.NoError(t, err)
						checkEqual(t, false, a, b)
						_, err = y.CopyFromHost(data[(skip+where)*size+size/2:][:1], (skip+where)*size+size/2)
						require.NoError(t, err)
					}
				}
				back := index(t, ndtest.At(t, x, dtype, 0, n), ndview.SpanStep(ndview.Open, ndview.Open, -2))
				copied, err := back.Copy(ndview.OrderC)
				checkEqual(t, true, back, ndtest.Own(t, copied, err))
				if n > 2 {
					checkEqual(t, false, back, index(t, ndtest.At(t, x, dtype, 0, n), ndview.SpanStep(ndview.Open, ndview.Open, 2)))
				}
			}
		}
	})
}

// checkEqual compares the results of AllEqual and Equal with want.
func checkEqual(t *testing.T, want bool, a, b *ndview.NDBuffer) {
	t.Helper()
	got, err := a.AllEqual(b, false)
	require.NoError(t, err)
	require.Equal(t, want, got, "AllEqual %s %v", a.DType(), a.Shape())
	got, err = a.Equal(b)
	require.NoError(t, err)
	require.Equal(t, want, got, "Equal %s %v", a.DType(), a.Shape())
}

// TestAllEqualAcceptsUnalignedArrays compares arrays at equal and at different offsets
// in a 16-byte word.
func TestAllEqualAcceptsUnalignedArrays(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, dtype := range []ndview.DType{ndview.Int8, ndview.Float16, ndview.Float32, ndview.Int64} {
			const n = 1000
			size := dtype.Size()
			data := make([]byte, size*(n+32))
			for i := range data {
				data[i] = byte(i * 37 >> 3)
			}
			one := ndtest.Upload(t, dev, data)
			for x := range int64(17) {
				for y := range int64(17) {
					moved := slices.Concat(make([]byte, y*size), data[x*size:])
					two := ndtest.Upload(t, dev, moved[:min(len(moved), len(data))])
					a, err := ndview.FromBuffer(one, dtype, x*size, []int64{n}, nil)
					a = ndtest.Own(t, a, err)
					b, err := ndview.FromBuffer(two, dtype, y*size, []int64{n}, nil)
					b = ndtest.Own(t, b, err)
					same, err := a.AllEqual(b, true)
					require.NoError(t, err)
					assert.True(t, same, "%s at %d and %d", dtype, x, y)
					same, err = a.Equal(b)
					require.NoError(t, err)
					assert.True(t, same, "%s at %d and %d, bitwise", dtype, x, y)
				}
			}
		}
	})
}

func TestEqualComparesBitsTypesAndShapesAcrossDevices(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, other := range []arrowbuf.Device{dev, arrowbuf.CPU(), ndtest.OtherThan(t, dev)} {
			x := ndtest.FromHost(t, dev, ndview.Float32, []float32{0, 1, 2, float32(nan)}, 2, 2)
			check := func(want bool, y *ndview.NDBuffer) {
				t.Helper()
				for _, pair := range [][2]*ndview.NDBuffer{{x, y}, {y, x}} {
					got, err := pair[0].Equal(pair[1])
					require.NoError(t, err)
					assert.Equal(t, want, got)
				}
			}
			check(true, ndtest.FromHost(t, other, ndview.Float32, []float32{0, 1, 2, float32(nan)}, 2, 2))
			check(false, ndtest.FromHost(t, other, ndview.Float32, []float32{float32(negativeZero), 1, 2, float32(nan)}, 2, 2))
			check(false, ndtest.FromHost(t, other, ndview.Float32, []float32{0, 1, 2, float32(nan)}, 4))
			check(false, ndtest.FromHost(t, other, ndview.Int32, []int32{0, 0x3f800000, 0x40000000, 0x7fc00000}, 2, 2))
		}
	})
}

func TestAllEqualComparesTimesOfAnyUnit(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		const nat = math.MinInt64
		days := ndtest.FromHost(t, dev, ndview.Datetime64(ndview.Day, 1), []int64{1, 1, 1}, 3)
		nats := ndtest.FromHost(t, dev, ndview.Datetime64(ndview.Day, 1), []int64{nat, nat}, 2)
		seconds := ndtest.FromHost(t, dev, ndview.Datetime64(ndview.Second, 1), []int64{86400, 86400, 86400}, 3)
		late := ndtest.FromHost(t, dev, ndview.Datetime64(ndview.Second, 1), []int64{86400, 86400, 86401}, 3)
		ages := ndtest.FromHost(t, dev, ndview.Datetime64(ndview.Year, 1), []int64{0, 1 << 40, 0}, 3)
		far, err := ndview.NewScalar(ndview.Datetime64(ndview.Year, 1), int64(1)<<40)
		require.NoError(t, err)
		none, err := ndview.NewScalar(ndview.Datetime64(ndview.Second, 1), ndtest.Raw[int64](nat))
		require.NoError(t, err)
		for about, c := range map[string]struct {
			a        *ndview.NDBuffer
			other    any
			equalNaN bool
			want     bool
		}{
			"arrays":                 {days, seconds, true, true},
			"the other way round":    {seconds, days, true, true},
			"a second later":         {days, late, true, false},
			"a time of Go":           {seconds, time.Unix(86400, 0), true, true},
			"a nanosecond more":      {seconds, time.Unix(86400, 1), true, false},
			"of the days, one":       {days, time.Unix(86400, 0), false, true},
			"one too far to count":   {seconds, far, true, false},
			"ages too far to count":  {ages, seconds, true, false},
			"the ages on the right":  {seconds, ages, true, false},
			"ages, but no seconds":   {ages, ndtest.FromHost(t, dev, seconds.DType(), []int64{}, 0, 3), true, true},
			"no time":                {nats, none, true, true},
			"no time, but no equals": {nats, none, false, false},
		} {
			got, err := c.a.AllEqual(c.other, c.equalNaN)
			require.NoError(t, err, about)
			assert.Equal(t, c.want, got, about)
		}
		_, err = ndtest.FromHost(t, dev, ndview.Datetime64(ndview.Second, 2), []int64{math.MaxInt64, 0}, 2).
			AllEqual(ndtest.FromHost(t, dev, ndview.Datetime64(ndview.Second, 3), []int64{math.MaxInt64, 0}, 2), true)
		assert.ErrorIs(t, err, ndview.ErrRange, "neither is a count of the common unit")
		_, err = days.AllEqual(ndtest.FromHost(t, dev, ndview.Timedelta64(ndview.Day, 1), []int64{1}, 1), true)
		assert.ErrorIs(t, err, ndview.ErrDType)
	})
}
