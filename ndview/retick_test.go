package ndview_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

func TestTimesAreCastBetweenUnitsAsByNumPy(t *testing.T) {
	data, err := os.ReadFile("testdata/golden/ticks.json")
	require.NoError(t, err)
	var cases [][4]json.RawMessage
	require.NoError(t, json.Unmarshal(data, &cases))
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, c := range cases {
			var names [2]string
			var counts, want []int64
			var found []*int64
			for i, to := range []any{&names[0], &names[1], &counts, &found} {
				require.NoError(t, json.Unmarshal(c[i], to))
			}
			var kept []int64
			from, to := parsed(t, names[0]), parsed(t, names[1])
			for i, v := range counts {
				if found[i] != nil {
					kept, want = append(kept, v), append(want, *found[i])
					continue
				}
				beyond := fromHost(t, dev, from, []int64{1, v}, 2)
				_, err := beyond.AsType(to, ndview.OrderC, ndview.CastUnsafe)
				assert.ErrorIs(t, err, ndview.ErrRange, "%d of %s as %s", v, from, to)
			}
			a := fromHost(t, dev, from, kept, int64(len(kept)))
			got, err := a.AsType(to, ndview.OrderC, ndview.CastUnsafe)
			own(t, got, err)
			assert.Equal(t, raw(want...), elements(t, got), "%v of %s as %s", kept, from, to)
		}
	})
}

func TestTimesWithGapsAreCastBetweenUnits(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		seconds := fromHost(t, dev, ndview.Datetime64(ndview.Second, 1), []int64{1, 2, 3, 4, 5, 6}, 2, 3)
		turned, err := seconds.Transpose()
		own(t, turned, err)
		millis := fromHost(t, dev, ndview.Datetime64(ndview.Millisecond, 1), make([]int64, 12), 3, 4)
		require.NoError(t, millis.Set(turned, ndview.All, ndview.SpanStep(0, 4, 2)))
		assert.Equal(t, raw[int64](1000, 0, 4000, 0, 2000, 0, 5000, 0, 3000, 0, 6000, 0), elements(t, millis))
	})
}

func TestTimesAreCountsToNumbersAndToEachOther(t *testing.T) {
	const nat = -1 << 63
	at, span := ndview.Datetime64(ndview.Second, 1), ndview.Timedelta64(ndview.Millisecond, 1)
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		cast := func(a *ndview.NDBuffer, to ndview.DType) []byte {
			got, err := a.AsType(to, ndview.OrderC, ndview.CastUnsafe)
			return elements(t, own(t, got, err))
		}
		times := fromHost(t, dev, at, []int64{1500, nat}, 2)
		assert.Equal(t, raw[int64](1500, nat), cast(times, span))
		assert.Equal(t, raw(1500.0, nat), cast(times, ndview.Float64))
		assert.Equal(t, raw[int32](1500, 0), cast(times, ndview.Int32))
		assert.Equal(t, raw(true, true), cast(times, ndview.Bool))
		floats := fromHost(t, dev, ndview.Float64, []float64{-2.9, 1e300}, 2)
		assert.Equal(t, raw[int64](-2, nat), cast(floats, at))
	})
}

func parsed(t *testing.T, name string) ndview.DType {
	t.Helper()
	dtype, _, err := ndview.ParseDType(name)
	require.NoError(t, err)
	return dtype
}
