package ndview_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

func TestPutIsNumPys(t *testing.T) {
	cases := golden(t, "put")
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for i, c := range cases {
			dtype := elementTypes[i%len(elementTypes)]
			a := goldenView(t, dev, dtype, int64(i%5/4), field[int64](t, c[0]), field[[]int64](t, c[1]), field[[]int64](t, c[2]))
			before := download(t, a.Buffer())
			indices := integers(t, dev, indexTypes[field[string](t, c[3])], field[[]int64](t, c[5]), field[[]int64](t, c[4]))
			var numbers []int64
			for k := range field[int64](t, c[6]) {
				numbers = append(numbers, 239-k)
			}
			values := at(t, upload(t, dev, append(poisoned(i%7), patterns(dtype, numbers)...)), dtype, int64(i%7), int64(len(numbers)))
			err := ndview.Put(a, indices, values, modes[field[string](t, c[7])])
			after := download(t, a.Buffer())
			if len(c) == 8 {
				require.ErrorIs(t, err, arrowbuf.ErrOutOfRange, "case %d: %s", i, c)
				requireBytes(t, before, after, "case", i)
				continue
			}
			require.NoError(t, err, "case %d: %s", i, c)
			want := patterns(dtype, field[[]int64](t, c[8]))
			copy(before[i%5/4:], want)
			requireBytes(t, before, after, "case", i, c)
		}
	})
}

// Many indices, and many times the same, so that a GPU writes them in any order.
func TestPutLeavesTheLastOfManyValues(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		r := rand.New(rand.NewPCG(1, 4))
		for _, elements := range []int64{1000, 3 << 20} { // a table of all elements, and one of the chosen
			const n = 30_000
			indices, values, want := make([]int64, n), make([]uint32, n), make([]uint32, elements)
			for j := range indices {
				indices[j], values[j] = r.Int64N(elements), uint32(j+1)
				if j%2 == 0 {
					indices[j] = elements - 1 - r.Int64N(700)
				}
				want[indices[j]] = values[j]
			}
			a := fromHost(t, dev, ndview.Uint32, make([]uint32, elements), elements)
			err := ndview.Put(a, fromHost(t, dev, ndview.Int64, indices, n), fromHost(t, dev, ndview.Uint32, values, n), ndview.ModeRaise)
			require.NoError(t, err)
			got := download(t, a.Buffer())
			for i, w := range want {
				require.Equal(t, w, binary.NativeEndian.Uint32(got[4*i:]), "element %d of %d", i, elements)
			}
		}
	})
}

// The ways of putbucket.cu: numbers around the tiles' edges, negative indices, more
// values than are wanted, and bad indices.
func TestPutByBucketsLeavesTheLastValue(t *testing.T) {
	ndview.UseBuckets(t, 1000, 4096)
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		r := rand.New(rand.NewPCG(2, 7))
		for _, n := range []int64{1000, 4095, 4096, 4097, 20_001} {
			extent := 1 + r.Int64N(4*n)
			indices, values, want := make([]int64, n), make([]uint64, n+3), make([]uint64, extent)
			for j := range values {
				values[j] = r.Uint64()
			}
			for j := range indices {
				indices[j] = r.Int64N(2*extent) - extent
				want[(indices[j]+extent)%extent] = values[j]
			}
			whole := fromHost(t, dev, ndview.Uint64, values, n+3)
			halves, err := whole.View(ndview.Float32)
			own(t, halves, err)
			reversed, err := whole.Index(ndview.SpanStep(ndview.Open, ndview.Open, -1))
			own(t, reversed, err)
			by := fromHost(t, dev, ndview.Int64, indices, n)
			a, b := fromHost(t, dev, ndview.Uint64, make([]uint64, extent), extent), fromHost(t, dev, ndview.Float32, make([]float32, extent), extent)
			require.NoError(t, ndview.Put(a, by, whole, ndview.ModeRaise))
			requireBytes(t, raw(want...), elements(t, a), n, extent)

			low := make([]byte, 0, 4*extent)
			last := make([]int64, extent)
			for j, i := range indices {
				last[(i+extent)%extent] = int64(j) + 1
			}
			for _, j := range last {
				word := uint32(0)
				if j > 0 {
					word = uint32(values[(j-1)/2] >> (32 * ((j - 1) % 2)))
				}
				low = append(low, raw(word)...)
			}
			require.NoError(t, ndview.Put(b, by, halves, ndview.ModeRaise))
			requireBytes(t, low, elements(t, b), n, extent, "halves")

			for i := range want {
				want[i] = 0
			}
			for j, i := range indices {
				want[(i+extent)%extent] = values[n+2-int64(j)]
			}
			require.NoError(t, a.Zero())
			require.NoError(t, ndview.Put(a, by, reversed, ndview.ModeRaise))
			requireBytes(t, raw(want...), elements(t, a), n, extent, "reversed")

			indices[n-1] = extent
			require.ErrorIs(t, ndview.Put(a, fromHost(t, dev, ndview.Int64, indices, n), whole, ndview.ModeRaise), arrowbuf.ErrOutOfRange)
			requireBytes(t, raw(want...), elements(t, a), n, extent, "nothing is written")
		}
	})
}

func TestPutRefusesWhatDoesNotFit(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a := fromHost(t, dev, ndview.Float32, make([]float32, 6), 2, 3)
		index := fromHost(t, dev, ndview.Int64, []int64{1}, 1)
		double := fromHost(t, dev, ndview.Float64, []float64{1}, 1)
		assert.ErrorIs(t, ndview.Put(a, double, a, ndview.ModeRaise), ndview.ErrDType)
		assert.ErrorIs(t, ndview.Put(a, index, "1", ndview.ModeRaise), ndview.ErrDType)
		assert.ErrorIs(t, ndview.Put(a, index, nil, ndview.ModeRaise), ndview.ErrDType)
		assert.ErrorIs(t, ndview.Put(a, index, 1, ndview.Mode(9)), ndview.ErrShape)
		_, err := ndview.Take(a, index, 0, ndview.Mode(9))
		assert.ErrorIs(t, err, ndview.ErrShape)
		_, err = a.AsType(ndview.Int8, ndview.OrderC, ndview.Casting(200))
		assert.ErrorIs(t, err, ndview.ErrDType)
		elsewhere := fromHost(t, otherThan(t, dev), ndview.Int64, []int64{1}, 1)
		assert.ErrorIs(t, ndview.Put(a, elsewhere, a, ndview.ModeRaise), arrowbuf.ErrDevice)
		none := fromHost(t, dev, ndview.Float32, []float32{}, 0)
		assert.ErrorIs(t, ndview.Put(none, index, a, ndview.ModeWrap), arrowbuf.ErrOutOfRange)
	})
}

func TestPutReadsValuesBeforeItWrites(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a := fromHost(t, dev, ndview.Int32, count(6), 6)
		back, err := a.Index(ndview.SpanStep(ndview.Open, ndview.Open, -1))
		own(t, back, err)
		indices := fromHost(t, dev, ndview.Int64, []int64{0, 1, 2, 3, 4, 5}, 6)
		require.NoError(t, ndview.Put(a, indices, back, ndview.ModeRaise))
		assert.Equal(t, raw[int32](5, 4, 3, 2, 1, 0), elements(t, a))
		fixed, err := a.BroadcastTo(2, 6)
		own(t, fixed, err)
		assert.ErrorIs(t, ndview.Put(fixed, indices, a, ndview.ModeRaise), ndview.ErrReadOnly)
	})
}

func TestPutCastsWhatAssignTakes(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a := fromHost(t, dev, ndview.Int16, make([]int16, 5), 5)
		indices := fromHost(t, dev, ndview.Uint8, []uint8{4, 0, 2}, 3)
		require.NoError(t, ndview.Put(a, indices, 7, ndview.ModeRaise))
		assert.Equal(t, raw[int16](7, 0, 7, 0, 7), elements(t, a))
		require.NoError(t, ndview.Put(a, indices, []float32{1.5, -2.5}, ndview.ModeRaise))
		assert.Equal(t, raw[int16](-2, 0, 1, 0, 1), elements(t, a))
		elsewhere := fromHost(t, otherThan(t, dev), ndview.Float64, []float64{9, 8, 7}, 3)
		require.NoError(t, ndview.Put(a, indices, elsewhere, ndview.ModeRaise))
		assert.Equal(t, raw[int16](8, 0, 7, 0, 9), elements(t, a))
	})
}
