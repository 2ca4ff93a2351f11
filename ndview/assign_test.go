package ndview_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

func empty(t *testing.T, dev arrowbuf.Device, dtype ndview.DType, shape ...int64) *ndview.NDBuffer {
	t.Helper()
	a, err := ndview.Zeros(dev, dtype, shape...)
	return own(t, a, err)
}

func TestAssignTakesWeakScalarsThatTheTypeHolds(t *testing.T) {
	tests := []struct {
		dtype ndview.DType
		value any
		want  []byte
	}{
		{ndview.Uint8, 255, raw[uint8](255)},
		{ndview.Int8, 2.7, raw[int8](2)},
		{ndview.Bool, 3, raw(true)},
		{ndview.Uint64, uint(math.MaxUint64), raw[uint64](math.MaxUint64)},
		{ndview.Float32, 1e300, raw(float32(math.Inf(1)))},
		{ndview.Float16, 1, raw[uint16](0x3c00)},
		{ndview.Complex64, 2, raw(complex64(2))},
		{ndview.Uint8, int16(300), raw[uint8](44)}, // strong: its low bits
		{ndview.Int32, complex64(7 + 2i), raw[int32](7)},
		{ndview.Timedelta64(ndview.Millisecond, 1), 2 * time.Second, raw[int64](2000)},
	}
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, tt := range tests {
			a := empty(t, dev, tt.dtype, 1)
			require.NoError(t, a.Assign(tt.value))
			assert.Equal(t, tt.want, elements(t, a), "%v as %s", tt.value, tt.dtype)
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
			assert.Equal(t, make([]byte, tt.dtype.Size()), elements(t, a), "what failed must not have written")
		}
	})
}

func TestAssignTakesSlices(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a := empty(t, dev, ndview.Int16, 2, 3)
		turned, err := a.Transpose()
		own(t, turned, err)
		require.NoError(t, turned.Assign([]float64{1.9, 2, 3, 4, -5.5, 70000}))
		assert.Equal(t, raw[int16](1, 3, -5, 2, 4, 4464), elements(t, a), "cast as NumPy casts")
		require.NoError(t, a.Assign([]int{7, 8, 9}))
		assert.Equal(t, raw[int16](7, 8, 9, 7, 8, 9), elements(t, a))
		require.NoError(t, a.Assign([]bool{true}))
		assert.Equal(t, raw[int16](1, 1, 1, 1, 1, 1), elements(t, a))
		assert.ErrorIs(t, a.Assign([]int8{1, 2}), ndview.ErrShape)
		assert.ErrorIs(t, a.Assign([]int8{}), ndview.ErrShape)
		assert.Equal(t, raw[int16](1, 1, 1, 1, 1, 1), elements(t, a), "what failed must not have written")
	})
}

func TestAssignReadsBeforeItWrites(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		buf := upload(t, dev, raw[int16](1, 2, 3, 4, 0, 0, 0, 0))
		narrow, wide := at(t, buf, ndview.Int16, 0, 4), at(t, buf, ndview.Int32, 0, 4)
		require.NoError(t, wide.Assign(narrow))
		assert.Equal(t, raw[int32](1, 2, 3, 4), download(t, buf))
		require.NoError(t, narrow.Assign(wide))
		assert.Equal(t, raw[int16](1, 2, 3, 4), elements(t, narrow))
	})
}

func TestAssignBroadcastsFromAnyDevice(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a := empty(t, dev, ndview.Float32, 2, 3)
		row := fromHost(t, otherThan(t, dev), ndview.Int64, []int64{1, 2, 3}, 1, 1, 3)
		require.NoError(t, a.Assign(row))
		assert.Equal(t, raw[float32](1, 2, 3, 1, 2, 3), elements(t, a))
		column := fromHost(t, dev, ndview.Uint8, []uint8{8, 9}, 2, 1)
		require.NoError(t, a.Assign(column))
		assert.Equal(t, raw[float32](8, 8, 8, 9, 9, 9), elements(t, a))
		assert.ErrorIs(t, a.Assign(fromHost(t, dev, ndview.Int8, make([]int8, 2), 2)), ndview.ErrShape)
		assert.ErrorIs(t, a.Assign(at(t, a.Buffer(), ndview.Bytes(4), 0, 2, 3)), ndview.ErrDType)
	})
}

func TestSetCastsToWhatKeysChoose(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a := empty(t, dev, ndview.Int32, 3, 2)
		require.NoError(t, a.Set(7.9, ndview.At(1)))
		require.NoError(t, a.Set([]uint8{4, 5, 6}, ndview.All, ndview.At(0)))
		assert.Equal(t, raw[int32](4, 0, 5, 7, 6, 0), elements(t, a))

		rows := ndview.IntArray(fromHost(t, dev, ndview.Int64, []int64{2, 0}, 2))
		require.NoError(t, a.Set([]float64{1.5, -2.5}, rows, ndview.At(1)))
		assert.Equal(t, raw[int32](4, -2, 5, 7, 6, 1), elements(t, a))
		mask := ndview.Mask(fromHost(t, dev, ndview.Bool, []bool{true, false, false, true, false, false}, 3, 2))
		require.NoError(t, a.Set(9, mask))
		assert.Equal(t, raw[int32](9, -2, 5, 9, 6, 1), elements(t, a))
		assert.ErrorIs(t, a.Set(1<<40, rows), ndview.ErrRange)
	})
}
