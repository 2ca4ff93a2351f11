package ndview_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

func TestFillWhereWritesThePatternToTheRowsOfTheMask(t *testing.T) {
	const pattern = 0x0123_4567_89ab_cdef
	masks := map[string]func(rng *rand.Rand) bool{
		"none": func(*rand.Rand) bool { return false },
		"some": func(rng *rand.Rand) bool { return rng.IntN(5) == 0 },
		"all":  func(*rand.Rand) bool { return true },
	}
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
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
	values := upload(t, dev, want)
	mask := make([]bool, rows+align)
	for i := range mask {
		mask[i] = set(rng)
	}
	masks := upload(t, dev, raw(mask...))
	a := at(t, values, ndview.Uint8, 8+align, rows, width)
	require.NoError(t, a.FillWhere(at(t, masks, ndview.Bool, align, rows), pattern))
	for i := range rows * width {
		if mask[align+i/width] {
			want[8+align+i] = byte(pattern >> (8 * (i % width % 8)))
		}
	}
	requireBytes(t, want, download(t, values), "width", width, "rows", rows, "alignment", align)
}

func TestFillWhereTakesElementsAndRows(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		mask := fromHost(t, dev, ndview.Bool, []bool{false, true, true}, 3)
		floats := fromHost(t, dev, ndview.Float64, []float64{1, 2, 3}, 3)
		require.NoError(t, floats.FillWhere(mask, math.Float64bits(-0.5)))
		assert.Equal(t, raw(1, -0.5, -0.5), elements(t, floats))

		rows := fromHost(t, dev, ndview.Int32, count(12), 3, 2, 2)
		require.NoError(t, rows.FillWhere(mask, 0))
		assert.Equal(t, raw[int32](0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0), elements(t, rows))

		// A byte of a mask is true whenever it is not 0, in an array's middle too.
		odd := at(t, upload(t, dev, []byte{9, 0, 255, 2}), ndview.Bool, 1, 3)
		require.NoError(t, floats.FillWhere(odd, math.Float64bits(7)))
		assert.Equal(t, raw(1.0, 7, 7), elements(t, floats))

		for _, shape := range [][]int64{{0}, {0, 3}, {3, 0}} {
			none, err := ndview.Empty(dev, ndview.Int32, shape...)
			own(t, none, err)
			assert.NoError(t, none.FillWhere(at(t, mask.Buffer(), ndview.Bool, 0, shape[0]), 1))
		}
	})
}

func TestFillWhereRefuses(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a := fromHost(t, dev, ndview.Int32, count(12), 3, 4)
		turned, err := a.Transpose()
		own(t, turned, err)
		bytes := upload(t, dev, []byte{1, 1, 1, 1, 1, 1})
		mask := at(t, bytes, ndview.Bool, 0, 3)
		gaps, err := ndview.FromBuffer(bytes, ndview.Bool, 0, []int64{3}, []int64{2})
		own(t, gaps, err)
		elsewhere := fromHost(t, otherThan(t, dev), ndview.Bool, make([]bool, 3), 3)
		tests := []struct {
			name    string
			a, mask *ndview.NDBuffer
			want    error
		}{
			{"a mask of uint8", a, at(t, bytes, ndview.Uint8, 0, 3), ndview.ErrDType},
			{"a short mask", a, at(t, bytes, ndview.Bool, 0, 2), ndview.ErrShape},
			{"a mask of two axes", a, at(t, bytes, ndview.Bool, 0, 3, 1), ndview.ErrShape},
			{"a mask of no axes", a, at(t, bytes, ndview.Bool, 0), ndview.ErrShape},
			{"values of no axes", at(t, a.Buffer(), ndview.Int32, 0), at(t, bytes, ndview.Bool, 0), ndview.ErrShape},
			{"values with other strides", turned, at(t, bytes, ndview.Bool, 0, 4), ndview.ErrShape},
			{"a mask with gaps", a, gaps, ndview.ErrShape},
			{"a mask elsewhere", a, elsewhere, arrowbuf.ErrDevice},
			{"values elsewhere", elsewhere, mask, arrowbuf.ErrDevice},
		}
		for _, tt := range tests {
			assert.ErrorIs(t, tt.a.FillWhere(tt.mask, 7), tt.want, tt.name)
		}
		assert.Equal(t, raw(count(12)...), elements(t, a), "what failed must not have written")
	})
}
