package ndview_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

func TestOperationsOnTimesAreNumPys(t *testing.T) {
	var golden struct {
		Values map[string][]float64
		Cases  []struct {
			F, DType string
			Types    []string
			Values   []int64
			Floats   []string
		}
	}
	readGolden(t, "times.json", &golden)
	types := byName(ndview.Datetime64(ndview.Second, 1), ndview.Datetime64(ndview.Day, 1), ndview.Timedelta64(ndview.Second, 1),
		ndview.Timedelta64(ndview.Millisecond, 1), ndview.Int64, ndview.Int32, ndview.Float64, ndview.Bool, ndview.Uint64)
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		operand := func(name string, shape ...int64) *ndview.NDBuffer {
			values := fromHost(t, dev, ndview.Float64, golden.Values[name], shape...) // all are whole, or floats
			a, err := values.AsType(types[name], ndview.OrderC, ndview.CastUnsafe)
			return own(t, a, err)
		}
		for _, c := range golden.Cases {
			about := fmt.Sprint(c.F, c.Types)
			var got *ndview.NDBuffer
			var err error
			if len(c.Types) == 1 {
				got, err = unaryOperations[c.F].Of(operand(c.Types[0], 4))
			} else {
				got, err = binaryOperations[c.F].Of(operand(c.Types[0], 4, 1), operand(c.Types[1], 4))
			}
			if c.DType == "" {
				assert.ErrorIs(t, err, ndview.ErrDType, about)
				continue
			}
			own(t, got, err)
			require.Equal(t, c.DType, got.DType().String(), about)
			if len(c.Floats) > 0 {
				var want []float64
				for _, f := range c.Floats {
					v, err := strconv.ParseFloat(f, 64)
					require.NoError(t, err)
					want = append(want, v)
				}
				requireSame(t, got.DType(), raw(want...), elements(t, got), 0)
				continue
			}
			if got.DType() == ndview.Bool {
				var bools []byte
				for _, v := range c.Values {
					bools = append(bools, byte(v))
				}
				require.Equal(t, bools, elements(t, got), about)
				continue
			}
			require.Equal(t, c.Values, slice[int64](elements(t, got)), about)
		}
	})
}

func TestTimesTakeGoTimes(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		days := fromHost(t, dev, ndview.Datetime64(ndview.Day, 1), []int64{0, 1}, 2)
		got, err := ndview.Add.Of(days, 90*time.Minute)
		own(t, got, err)
		assert.Equal(t, ndview.Datetime64(ndview.Nanosecond, 1), got.DType())
		assert.Equal(t, []int64{90 * 60 * 1e9, (86400 + 90*60) * 1e9}, slice[int64](elements(t, got)))
		after, err := ndview.Greater.Of(days, time.Unix(3600, 0))
		own(t, after, err)
		assert.Equal(t, raw(false, true), elements(t, after))
	})
}

func TestTimesByFloatsGoIntoArrays(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		spans := fromHost(t, dev, ndview.Timedelta64(ndview.Second, 1), []int64{10, -7, 0}, 3)
		require.NoError(t, ndview.Multiply.Into(spans, spans, 2.55))
		assert.Equal(t, []int64{25, -17, 0}, slice[int64](elements(t, spans)), "cut off")
		shares, err := ndview.Zeros(dev, ndview.Float32, 3)
		own(t, shares, err)
		require.NoError(t, ndview.Divide.Into(shares, spans, 10*time.Second))
		assert.Equal(t, raw[float32](2.5, -1.7, 0), elements(t, shares))
		assert.ErrorIs(t, ndview.Divide.Into(spans, spans, time.Second), ndview.ErrDType, "a share is no time")
		assert.ErrorIs(t, ndview.Multiply.Into(readOnly(t, spans), spans, 0.5), ndview.ErrReadOnly)
	})
}
