package ndview_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// Rows of docs/pygpu.md and docs/zarr-buffers.md that no test of a subject of
// its own has.

func TestFillKeepsTheSignOfZero(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for dtype, want := range map[ndview.DType][]byte{
			ndview.Float16: raw[uint16](0x8000, 0x8000), ndview.BFloat16: raw[uint16](0x8000, 0x8000),
			ndview.Float32: raw[uint32](1<<31, 1<<31), ndview.Float64: raw[uint64](1<<63, 1<<63),
		} {
			a, err := ndview.Zeros(dev, dtype, 2)
			own(t, a, err)
			require.NoError(t, a.Fill(math.Copysign(0, -1)))
			assert.Equal(t, want, elements(t, a), dtype)
		}
		a, err := ndview.Zeros(dev, ndview.Int8, 2)
		own(t, a, err)
		assert.ErrorIs(t, a.Fill(128), ndview.ErrRange)
		assert.Equal(t, []byte{0, 0}, elements(t, a))
	})
}

func TestArraysWithoutAxesAreAssigned(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a := fromHost(t, dev, ndview.Int32, []int32{1})
		require.NoError(t, a.Set(2))
		assert.Equal(t, raw[int32](2), elements(t, a))
		require.NoError(t, a.Set(3, ndview.Ellipsis))
		assert.Equal(t, raw[int32](3), elements(t, a))
		require.NoError(t, a.Assign(fromHost(t, dev, ndview.Float64, []float64{4.9})))
		assert.Equal(t, raw[int32](4), elements(t, a))
	})
}

func TestAssignedArraysMayHaveMoreAxesOfOneElement(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a := fromHost(t, dev, ndview.Int32, make([]int32, 6), 2, 3)
		require.NoError(t, a.Assign(fromHost(t, dev, ndview.Int32, []int32{1, 2, 3}, 1, 1, 1, 3)))
		assert.Equal(t, raw[int32](1, 2, 3, 1, 2, 3), elements(t, a))
		assert.ErrorIs(t, a.Assign(fromHost(t, dev, ndview.Int32, make([]int32, 12), 2, 2, 3)), ndview.ErrShape)
	})
}

func TestSmallIntegersAndTruthsAreSummedIn64Bits(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, tt := range []struct {
			a    *ndview.NDBuffer
			want ndview.DType
			sum  any
		}{
			{fromHost(t, dev, ndview.Int8, []int8{127, 127, 127}, 3), ndview.Int64, int64(381)},
			{fromHost(t, dev, ndview.Uint8, []uint8{255, 255}, 2), ndview.Uint64, uint64(510)},
			{fromHost(t, dev, ndview.Bool, []bool{true, true, false}, 3), ndview.Int64, int64(2)},
			{fromHost(t, dev, ndview.Int16, []int16{-5}), ndview.Int64, int64(-5)}, // without axes
		} {
			sum, err := ndview.Sum.Of(tt.a, ndview.ReduceOptions{})
			own(t, sum, err)
			item, err := sum.Item()
			require.NoError(t, err)
			assert.Equal(t, tt.want, sum.DType())
			assert.Equal(t, tt.sum, item.Value())
		}
	})
}
