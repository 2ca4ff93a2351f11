package ndview_test

import (
	"math"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/float16"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/dtype"
)

func TestFromSliceInfersTypeAndShape(t *testing.T) {
	type celsius float32
	ns := ndview.Timedelta64(ndview.Nanosecond, 1)
	at := time.Date(2024, 2, 29, 12, 0, 0, 5, time.UTC)
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, c := range []struct {
			slice any
			dtype ndview.DType
			shape []int64
			bits  []byte
		}{
			{[]bool{true, false}, ndview.Bool, []int64{2}, []byte{1, 0}},
			{[]int8{-1}, ndview.Int8, []int64{1}, raw[int8](-1)},
			{[]int16{-1, 2}, ndview.Int16, []int64{2}, raw[int16](-1, 2)},
			{[]int32{-1, 2}, ndview.Int32, []int64{2}, raw[int32](-1, 2)},
			{[]int64{-1, 2}, ndview.Int64, []int64{2}, raw[int64](-1, 2)},
			{[]int{-1, 2}, ndview.Int64, []int64{2}, raw[int64](-1, 2)},
			{[]uint8{1, 2}, ndview.Uint8, []int64{2}, []byte{1, 2}},
			{[]uint16{1, 2}, ndview.Uint16, []int64{2}, raw[uint16](1, 2)},
			{[]uint32{1, 2}, ndview.Uint32, []int64{2}, raw[uint32](1, 2)},
			{[]uint64{1, math.MaxUint64}, ndview.Uint64, []int64{2}, raw[uint64](1, math.MaxUint64)},
			{[]uint{1, 2}, ndview.Uint64, []int64{2}, raw[uint64](1, 2)},
			{[]float32{1.5, 2}, ndview.Float32, []int64{2}, raw[float32](1.5, 2)},
			{[]celsius{1.5, 2}, ndview.Float32, []int64{2}, raw[float32](1.5, 2)},
			{[]float64{1.5, 2}, ndview.Float64, []int64{2}, raw(1.5, 2.0)},
			{[]complex64{1i}, ndview.Complex64, []int64{1}, raw[complex64](1i)},
			{[]complex128{1i}, ndview.Complex128, []int64{1}, raw(1i)},
			{[]float16.Num{float16.New(1)}, ndview.Float16, []int64{1}, raw[uint16](0x3c00)},
			{[]dtype.BFloat16Num{0x3f80}, ndview.BFloat16, []int64{1}, raw[uint16](0x3f80)},
			{[]time.Duration{time.Second}, ns, []int64{1}, raw[int64](1e9)},
			{[]time.Time{at}, ndview.Datetime64(ndview.Nanosecond, 1), []int64{1}, raw(at.UnixNano())},
			{[]arrow.Date64{86400000}, ndview.Datetime64(ndview.Millisecond, 1), []int64{1}, raw[int64](86400000)},
			{[]float32{}, ndview.Float32, []int64{0}, nil},
			{[]float32(nil), ndview.Float32, []int64{0}, nil},
			{[3]int16{1, 2, 3}, ndview.Int16, []int64{3}, raw[int16](1, 2, 3)},
			{[][]int16{{1, 2, 3}, {4, 5, 6}}, ndview.Int16, []int64{2, 3}, raw[int16](1, 2, 3, 4, 5, 6)},
			{[2][2]int16{{1, 2}, {3, 4}}, ndview.Int16, []int64{2, 2}, raw[int16](1, 2, 3, 4)},
			{[][2]int16{}, ndview.Int16, []int64{0, 2}, nil},
			{[][]int16{{}, {}}, ndview.Int16, []int64{2, 0}, nil},
			{[][][]int16{}, ndview.Int16, []int64{0, 0, 0}, nil},
			{[][][]bool{{{true}, {false}}, {{false}, {true}}, {{true}, {true}}}, ndview.Bool, []int64{3, 2, 1}, []byte{1, 0, 0, 1, 1, 1}},
			{[][]time.Time{{at}, {at}}, ndview.Datetime64(ndview.Nanosecond, 1), []int64{2, 1}, raw(at.UnixNano(), at.UnixNano())},
		} {
			a, err := ndview.FromSlice(dev, c.slice)
			own(t, a, err)
			assert.Equal(t, c.dtype, a.DType(), "%T", c.slice)
			assert.Equal(t, c.shape, a.Shape(), "%T", c.slice)
			assert.Equal(t, dev, a.Device())
			requireBytes(t, c.bits, elements(t, a), c.slice)
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
		own(t, a, err)
		assert.Equal(t, c.want, a.Shape())
		assert.Equal(t, count(a.Size()), append([]int32{}, hostOf[int32](t, a)...))
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
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a := empty(t, dev, ndview.Float16, 2, 2)
		require.NoError(t, a.Assign([]float16.Num{float16.New(1), float16.New(2), float16.New(3), float16.New(4)}))
		assert.Equal(t, []uint16{0x3c00, 0x4000, 0x4200, 0x4400}, hostOf[uint16](t, a))
		require.NoError(t, view(t)(a.Transpose()).Assign([]uint16{1, 2, 3, 4}), "integers are cast by value")
		assert.Equal(t, []uint16{0x3c00, 0x4200, 0x4000, 0x4400}, hostOf[uint16](t, a))
		d := empty(t, dev, seconds, 2)
		require.NoError(t, d.Assign([]time.Time{time.Unix(5, 0), time.Unix(-7, 0)}))
		assert.Equal(t, []int64{5, -7}, hostOf[int64](t, d))
	})
}
