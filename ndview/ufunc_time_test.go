package ndview_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
)

func TestOperationsOnTimesMatchNumPy(t *testing.T) {
	var golden struct {
		Values map[string][]float64
		Cases  []struct {
			F, DType string
			Types    []string
			Values   []int64
		}
	}
	readGolden(t, "times.json", &golden)
	types := byName(ndview.Datetime64(ndview.Second, 1), ndview.Datetime64(ndview.Day, 1), ndview.Timedelta64(ndview.Second, 1),
		ndview.Timedelta64(ndview.Millisecond, 1), ndview.Int64, ndview.Int32, ndview.Float64, ndview.Bool, ndview.Uint64)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		operand := func(name string, shape ...int64) *ndview.NDBuffer {
			values := ndtest.FromHost(t, dev, ndview.Float64, golden.Values[name], shape...) // all are integers or floats
			a, err := values.AsType(types[name], ndview.OrderC, ndview.CastUnsafe)
			return ndtest.Own(t, a, err)
		}
		for _, c := range golden.Cases {
			message := fmt.Sprint(c.F, c.Types)
			var got *ndview.NDBuffer
			var err error
			if len(c.Types) == 1 {
				got, err = unaryOperations[c.F].Of(operand(c.Types[0], 4))
			} else {
				got, err = binaryOperations[c.F].Of(operand(c.Types[0], 4, 1), operand(c.Types[1], 4))
			}
			if c.DType == "" {
				assert.ErrorIs(t, err, ndview.ErrDType, message)
				continue
			}
			ndtest.Own(t, got, err)
			require.Equal(t, c.DType, got.DType().String(), message)
			if got.DType() == ndview.Bool {
				var bools []byte
				for _, v := range c.Values {
					bools = append(bools, byte(v))
				}
				require.Equal(t, bools, ndtest.Elements(t, got), message)
				continue
			}
			require.Equal(t, c.Values, slice[int64](ndtest.Elements(t, got)), message)
		}
	})
}

func TestTimesCombineWithGoTimes(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		days := ndtest.FromHost(t, dev, ndview.Datetime64(ndview.Day, 1), []int64{0, 1}, 2)
		got, err := ndview.Add.Of(days, 90*time.Minute)
		ndtest.Own(t, got, err)
		assert.Equal(t, ndview.Datetime64(ndview.Nanosecond, 1), got.DType())
		assert.Equal(t, []int64{90 * 60 * 1e9, (86400 + 90*60) * 1e9}, slice[int64](ndtest.Elements(t, got)))
		after, err := ndview.Greater.Of(days, time.Unix(3600, 0))
		ndtest.Own(t, after, err)
		assert.Equal(t, ndtest.Raw(false, true), ndtest.Elements(t, after))
	})
}

func TestTimesAndFloatsDoNotMix(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		durations := ndtest.FromHost(t, dev, ndview.Timedelta64(ndview.Second, 1), []int64{10, -7, 0}, 3)
		floats := ndtest.FromHost(t, dev, ndview.Float64, []float64{2, 0.5, 1}, 3)
		for _, op := range []ndview.Binary{ndview.Multiply, ndview.Divide, ndview.FloorDivide} {
			for _, operand := range []any{2.5, floats} {
				_, err := op.Of(durations, operand)
				assert.ErrorIs(t, err, ndview.ErrDType, op)
				assert.ErrorIs(t, op.Into(durations, durations, operand), ndview.ErrDType, op)
			}
		}
		_, err := ndview.Divide.Of(durations, 10*time.Second)
		assert.ErrorIs(t, err, ndview.ErrDType, "the quotient of two timedeltas is a float")
		assert.ErrorIs(t, ndview.Multiply.Into(readOnly(t, durations), durations, 2), ndview.ErrReadOnly)
		assert.Equal(t, []int64{10, -7, 0}, slice[int64](ndtest.Elements(t, durations)), "an error writes nothing")
	})
}
