package ndview_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

func TestFillWritesTheBytesOfTheValueAndNothingBeside(t *testing.T) {
	payload := math.Float64frombits(0x7ff0_dead_beef_0001) // a signalling NaN
	element := []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24}
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, tt := range []struct {
			dtype ndview.DType
			value any
			want  []byte
		}{
			{ndview.Bool, true, raw(true)},
			{ndview.Int16, -2, raw[int16](-2)},
			{ndview.Float32, math.Copysign(0, -1), raw(float32(math.Copysign(0, -1)))},
			{ndview.Float64, payload, raw(payload)},
			{ndview.Complex128, complex(1.5, payload), raw(complex(1.5, payload))},
			{ndview.Bytes(3), element[:3], element[:3]},
			{ndview.Bytes(24), element, element},
		} {
			value := tt.value
			if bytes, ok := value.([]byte); ok {
				s, err := ndview.NewScalar(tt.dtype, bytes)
				require.NoError(t, err)
				value = s
			}
			for _, n := range []int64{0, 1, 5, 100, 4099} {
				for _, align := range []int64{0, 1, 8, 15} {
					want := poisoned(int(n*tt.dtype.Size()) + 40)
					buf := upload(t, dev, want)
					require.NoError(t, at(t, buf, tt.dtype, 16+align, n).Fill(value))
					copy(want[16+align:], repeat(tt.want, tt.dtype.Size(), n))
					requireBytes(t, want, download(t, buf), tt.dtype, n, align)
				}
			}
		}
	})
}

func TestFillTakesAnyStrides(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a := fromHost(t, dev, ndview.Int32, count(12), 3, 4)
		require.NoError(t, index(t, a, ndview.SpanStep(ndview.Open, ndview.Open, -2), ndview.Span(1, 3)).Fill(-1))
		assert.Equal(t, raw[int32](0, -1, -1, 3, 4, 5, 6, 7, 8, -1, -1, 11), elements(t, a))
		fixed, err := a.ReadOnly()
		own(t, fixed, err)
		assert.ErrorIs(t, fixed.Fill(1), ndview.ErrReadOnly)
	})
}

func TestArraysAreMadeFull(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a, err := ndview.Full(dev, ndview.Float16, 1.5, 2, 3)
		own(t, a, err)
		assert.Equal(t, raw[uint16](0x3e00, 0x3e00, 0x3e00, 0x3e00, 0x3e00, 0x3e00), elements(t, a))
		a, err = ndview.New(dev, ndview.Int64, []int64{2, 2}, ndview.Options{Order: ndview.OrderF, Fill: 7})
		own(t, a, err)
		assert.Equal(t, raw[int64](7, 7, 7, 7), elements(t, a))
		assert.Equal(t, []int64{8, 16}, a.Strides())
		a, err = ndview.Zeros(dev, ndview.Bytes(5), 3)
		own(t, a, err)
		assert.Equal(t, make([]byte, 15), elements(t, a))
		_, err = ndview.Full(dev, ndview.Uint8, 256, 2)
		assert.ErrorIs(t, err, ndview.ErrRange)
		_, err = ndview.Full(dev, ndview.Uint8, nil, 2)
		assert.ErrorIs(t, err, ndview.ErrDType)
	})
}

func TestAsTypeLaysOutTheCopyInTheOrder(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a := fromHost(t, dev, ndview.Int16, []int16{1, 2, 3, 4, 5, 6}, 2, 3)
		turned, err := a.Transpose()
		own(t, turned, err)
		for order, want := range map[ndview.Order][]int64{
			ndview.OrderC: {16, 8}, ndview.OrderF: {8, 24}, ndview.OrderA: {8, 24}, ndview.OrderK: {8, 24},
		} {
			c, err := turned.AsType(ndview.Float64, order, ndview.CastSafe)
			own(t, c, err)
			assert.Equal(t, want, c.Strides(), "%c", order)
			assert.Equal(t, raw[float64](1, 4, 2, 5, 3, 6), elements(t, c))
		}
		same, err := a.AsType(ndview.Int16, ndview.OrderK, ndview.CastNo)
		own(t, same, err)
		assert.False(t, ndview.MayShareMemory(a, same), "always a copy")
		row, err := index(t, a, ndview.At(0)).BroadcastTo(4, 3)
		own(t, row, err)
		c, err := row.AsType(ndview.Uint8, ndview.OrderC, ndview.CastUnsafe)
		own(t, c, err)
		assert.Equal(t, raw[uint8](1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3), elements(t, c))
	})
}

func TestAsTypeRefuses(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a := fromHost(t, dev, ndview.Float64, []float64{1}, 1)
		for _, tt := range []struct {
			to   ndview.DType
			rule ndview.Casting
		}{
			{ndview.Float32, ndview.CastSafe}, {ndview.Int64, ndview.CastSameKind}, {ndview.Complex128, ndview.CastEquiv},
			{ndview.Bytes(8), ndview.CastUnsafe},
		} {
			_, err := a.AsType(tt.to, ndview.OrderC, tt.rule)
			assert.ErrorIs(t, err, ndview.ErrDType, "%s by %s", tt.to, tt.rule)
		}
		_, err := a.AsType(ndview.Int8, 'X', ndview.CastUnsafe)
		assert.ErrorIs(t, err, ndview.ErrShape)
		half := empty(t, dev, ndview.BFloat16, 1)
		_, err = half.AsType(ndview.Datetime64(ndview.Second, 1), ndview.OrderC, ndview.CastUnsafe)
		assert.ErrorIs(t, err, ndview.ErrDType)
	})
}
