package ndview_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAssignAcceptsScalarsInRange(t *testing.T) {
	tests := []struct {
		dtype ndview.DType
		value any
		want  []byte
	}{
		{ndview.Uint8, 255, ndtest.Raw[uint8](255)},
		{ndview.Int8, 2.7, ndtest.Raw[int8](2)},
		{ndview.Bool, 3, ndtest.Raw(true)},
		{ndview.Uint64, uint(math.MaxUint64), ndtest.Raw[uint64](math.MaxUint64)},
		{ndview.Float32, 1e300, ndtest.Raw(float32(math.Inf(1)))},
		{ndview.Float16, 1, ndtest.Raw[uint16](0x3c00)},
		{ndview.Complex64, 2, ndtest.Raw(complex64(2))},
		{ndview.Uint8, int16(300), ndtest.Raw[uint8](44)}, // strong: its low bits
		{ndview.Int32, complex64(7 + 2i), ndtest.Raw[int32](7)},
		{ndview.Timedelta64(ndview.Millisecond, 1), 2 * time.Second, ndtest.Raw[int64](2000)},
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, tt := range tests {
			a := empty(t, dev, tt.dtype, 1)
			require.NoError(t, a.Assign(tt.value))
			assert.Equal(t, tt.want, ndtest.Elements(t, a), "%v as %s", tt.value, tt.dtype)
		}
		for _, tt := range []struct {
			dtype ndview.DType
			value any
			want  error
		}{
			{ndview.Uint8, 256, ndview.ErrRange},
			{ndview.Uint8, -1, ndview.ErrRange},
			{ndview.Int64, uint(math.MaxUint64), ndview.ErrRange},
			{ndview.Int32, math.NaN(), ndview.ErrRange},
			{ndview.Float64, 1i, ndview.ErrDType},
			{ndview.Bytes(4), 1, ndview.ErrDType},
			{ndview.Int8, "7", ndview.ErrDType},
			{ndview.Int8, nil, ndview.ErrDType},
			{ndview.Int8, (*ndview.NDBuffer)(nil), ndview.ErrDType},
			{ndview.Int8, []string{"7"}, ndview.ErrDType},
		} {
			a := empty(t, dev, tt.dtype, 1)
			assert.ErrorIs(t, a.Assign(tt.value), tt.want, "%v as %s", tt.value, tt.dtype)
			assert.Equal(t, make([]byte, tt.dtype.Size()), ndtest.Elements(t, a), "a failed call must not write")
		}
	})
}

func TestAssignAcceptsSlices(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := empty(t, dev, ndview.Int16, 2, 3)
		transposed, err := a.Transpose()
		ndtest.Own(t, transposed, err)
		require.NoError(t, transposed.Assign([]float64{1.9, 2, 3, 4, -5.5, 70000}))
		assert.Equal(t, ndtest.Raw[int16](1, 3, -5, 2, 4, 4464), ndtest.Elements(t, a), "cast as NumPy casts")
		require.NoError(t, a.Assign([]int{7, 8, 9}))
		assert.Equal(t, ndtest.Raw[int16](7, 8, 9, 7, 8, 9), ndtest.Elements(t, a))
		require.NoError(t, a.Assign([]bool{true}))
		assert.Equal(t, ndtest.Raw[int16](1, 1, 1, 1, 1, 1), ndtest.Elements(t, a))
		assert.ErrorIs(t, a.Assign([]int8{1, 2}), ndview.ErrShape)
		assert.ErrorIs(t, a.Assign([]int8{}), ndview.ErrShape)
		assert.Equal(t, ndtest.Raw[int16](1, 1, 1, 1, 1, 1), ndtest.Elements(t, a), "a failed call must not write")
	})
}

func TestAssignReadsBeforeItWrites(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		buf := ndtest.Upload(t, dev, ndtest.Raw[int16](1, 2, 3, 4, 0, 0, 0, 0))
		narrow, wide := ndtest.At(t, buf, ndview.Int16, 0, 4), ndtest.At(t, buf, ndview.Int32, 0, 4)
		require.NoError(t, wide.Assign(narrow))
		assert.Equal(t, ndtest.Raw[int32](1, 2, 3, 4), ndtest.Download(t, buf))
		require.NoError(t, narrow.Assign(wide))
		assert.Equal(t, ndtest.Raw[int16](1, 2, 3, 4), ndtest.Elements(t, narrow))
	})
}

func TestAssignBroadcastsFromAnyDevice(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := empty(t, dev, ndview.Float32, 2, 3)
		row := ndtest.FromHost(t, ndtest.OtherThan(t, dev), ndview.Int64, []int64{1, 2, 3}, 1, 1, 3)
		require.NoError(t, a.Assign(row))
		assert.Equal(t, ndtest.Raw[float32](1, 2, 3, 1, 2, 3), ndtest.Elements(t, a))
		column := ndtest.FromHost(t, dev, ndview.Uint8, []uint8{8, 9}, 2, 1)
		require.NoError(t, a.Assign(column))
		assert.Equal(t, ndtest.Raw[float32](8, 8, 8, 9, 9, 9), ndtest.Elements(t, a))
		assert.ErrorIs(t, a.Assign(ndtest.FromHost(t, dev, ndview.Int8, make([]int8, 2), 2)), ndview.ErrShape)
		assert.ErrorIs(t, a.Assign(ndtest.At(t, a.Buffer(), ndview.Bytes(4), 0, 2, 3)), ndview.ErrDType)
	})
}

func TestSetCastsToArrayType(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := empty(t, dev, ndview.Int32, 3, 2)
		require.NoError(t, a.Set(7.9, ndview.At(1)))
		require.NoError(t, a.Set([]uint8{4, 5, 6}, ndview.All, ndview.At(0)))
		assert.Equal(t, ndtest.Raw[int32](4, 0, 5, 7, 6, 0), ndtest.Elements(t, a))

		rows := ndview.IntArray(ndtest.FromHost(t, dev, ndview.Int64, []int64{2, 0}, 2))
		require.NoError(t, a.Set([]float64{1.5, -2.5}, rows, ndview.At(1)))
		assert.Equal(t, ndtest.Raw[int32](4, -2, 5, 7, 6, 1), ndtest.Elements(t, a))
		mask := ndview.Mask(ndtest.FromHost(t, dev, ndview.Bool, []bool{true, false, false, true, false, false}, 3, 2))
		require.NoError(t, a.Set(9, mask))
		assert.Equal(t, ndtest.Raw[int32](9, -2, 5, 9, 6, 1), ndtest.Elements(t, a))
		assert.ErrorIs(t, a.Set(1<<40, rows), ndview.ErrRange)
	})
}

func TestFillWhereWritesPatternToMaskedRows(t *testing.T) {
	const pattern = 0x0123_4567_89ab_cdef
	masks := map[string]func(rng *rand.Rand) bool{
		"none": func(*rand.Rand) bool { return false },
		"some": func(rng *rand.Rand) bool { return rng.IntN(5) == 0 },
		"all":  func(*rand.Rand) bool { return true },
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, width := range []int64{1, 2, 3, 4, 6, 8, 12, 16, 24, 32} {
			for name, set := range masks {
				t.Run(fmt.Sprintf("%d bytes, %s", width, name), func(t *testing.T) {
					rng := rand.New(rand.NewPCG(3, uint64(width)))
					for i, rows := range []int64{1, 31, 255, 256, 257, 2048, 2500} {
						align := int64(rng.IntN(9)) * int64(i%2)
						testFillWhere(t, dev, rng, width, rows, align, pattern, set)
					}
				})
			}
		}
	})
}

func testFillWhere(t *testing.T, dev arrowbuf.Device, rng *rand.Rand, width, rows, align int64, pattern uint64, set func(*rand.Rand) bool) {
	want := randomBytes(rng, int(rows*width)+32)
	values := ndtest.Upload(t, dev, want)
	mask := make([]bool, rows+align)
	for i := range mask {
		mask[i] = set(rng)
	}
	masks := ndtest.Upload(t, dev, ndtest.Raw(mask...))
	a := ndtest.At(t, values, ndview.Uint8, 8+align, rows, width)
	require.NoError(t, a.FillWhere(ndtest.At(t, masks, ndview.Bool, align, rows), pattern))
	for i := range rows * width {
		if mask[align+i/width] {
			want[8+align+i] = byte(pattern >> (8 * (i % width % 8)))
		}
	}
	ndtest.RequireBytes(t, want, ndtest.Download(t, values), "width", width, "rows", rows, "alignment", align)
}

func TestFillWhereAcceptsElementsAndRows(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		mask := ndtest.FromHost(t, dev, ndview.Bool, []bool{false, true, true}, 3)
		floats := ndtest.FromHost(t, dev, ndview.Float64, []float64{1, 2, 3}, 3)
		require.NoError(t, floats.FillWhere(mask, math.Float64bits(-0.5)))
		assert.Equal(t, ndtest.Raw(1, -0.5, -0.5), ndtest.Elements(t, floats))

		rows := ndtest.FromHost(t, dev, ndview.Int32, count(12), 3, 2, 2)
		require.NoError(t, rows.FillWhere(mask, 0))
		assert.Equal(t, ndtest.Raw[int32](0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0), ndtest.Elements(t, rows))

		// Every nonzero byte of a mask is true.
		odd := ndtest.At(t, ndtest.Upload(t, dev, []byte{9, 0, 255, 2}), ndview.Bool, 1, 3)
		require.NoError(t, floats.FillWhere(odd, math.Float64bits(7)))
		assert.Equal(t, ndtest.Raw(1.0, 7, 7), ndtest.Elements(t, floats))

		for _, shape := range [][]int64{{0}, {0, 3}, {3, 0}} {
			none, err := ndview.Empty(dev, ndview.Int32, shape...)
			ndtest.Own(t, none, err)
			assert.NoError(t, none.FillWhere(ndtest.At(t, mask.Buffer(), ndview.Bool, 0, shape[0]), 1))
		}
	})
}

func TestFillWhereRefusesInvalidOperands(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Int32, count(12), 3, 4)
		transposed, err := a.Transpose()
		ndtest.Own(t, transposed, err)
		bytes := ndtest.Upload(t, dev, []byte{1, 1, 1, 1, 1, 1})
		mask := ndtest.At(t, bytes, ndview.Bool, 0, 3)
		gaps, err := ndview.FromBuffer(bytes, ndview.Bool, 0, []int64{3}, []int64{2})
		ndtest.Own(t, gaps, err)
		elsewhere := ndtest.FromHost(t, ndtest.OtherThan(t, dev), ndview.Bool, make([]bool, 3), 3)
		tests := []struct {
			name    string
			a, mask *ndview.NDBuffer
			want    error
		}{
			{"a mask of uint8", a, ndtest.At(t, bytes, ndview.Uint8, 0, 3), ndview.ErrDType},
			{"a short mask", a, ndtest.At(t, bytes, ndview.Bool, 0, 2), ndview.ErrShape},
			{"a mask of two axes", a, ndtest.At(t, bytes, ndview.Bool, 0, 3, 1), ndview.ErrShape},
			{"a mask of no axes", a, ndtest.At(t, bytes, ndview.Bool, 0), ndview.ErrShape},
			{"values of no axes", ndtest.At(t, a.Buffer(), ndview.Int32, 0), ndtest.At(t, bytes, ndview.Bool, 0), ndview.ErrShape},
			{"values with other strides", transposed, ndtest.At(t, bytes, ndview.Bool, 0, 4), ndview.ErrShape},
			{"a mask with gaps", a, gaps, ndview.ErrShape},
			{"a mask elsewhere", a, elsewhere, arrowbuf.ErrDevice},
			{"values elsewhere", elsewhere, mask, arrowbuf.ErrDevice},
		}
		for _, tt := range tests {
			assert.ErrorIs(t, tt.a.FillWhere(tt.mask, 7), tt.want, tt.name)
		}
		assert.Equal(t, ndtest.Raw(count(12)...), ndtest.Elements(t, a), "a failed call must not write")
	})
}

func TestAssignAcceptsScalarArrays(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Int32, []int32{1})
		require.NoError(t, a.Set(2))
		assert.Equal(t, ndtest.Raw[int32](2), ndtest.Elements(t, a))
		require.NoError(t, a.Set(3, ndview.Ellipsis))
		assert.Equal(t, ndtest.Raw[int32](3), ndtest.Elements(t, a))
		require.NoError(t, a.Assign(ndtest.FromHost(t, dev, ndview.Float64, []float64{4.9})))
		assert.Equal(t, ndtest.Raw[int32](4), ndtest.Elements(t, a))
	})
}

func TestAssignIgnoresLeadingAxesOfExtent1(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Int32, make([]int32, 6), 2, 3)
		require.NoError(t, a.Assign(ndtest.FromHost(t, dev, ndview.Int32, []int32{1, 2, 3}, 1, 1, 1, 3)))
		assert.Equal(t, ndtest.Raw[int32](1, 2, 3, 1, 2, 3), ndtest.Elements(t, a))
		assert.ErrorIs(t, a.Assign(ndtest.FromHost(t, dev, ndview.Int32, make([]int32, 12), 2, 2, 3)), ndview.ErrShape)
	})
}
