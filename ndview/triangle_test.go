package ndview_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// triangleOf keeps elements of matrices as NumPy's tril and triu do.
func triangleOf(raw []byte, size, rows, columns, k int64, upper bool) []byte {
	out := slices.Clone(raw)
	for i := range int64(len(raw)) / size {
		row, column := i/columns%rows, i%columns
		if keep := column <= row+k; upper && column < row+k || !upper && !keep {
			clear(out[i*size : (i+1)*size])
		}
	}
	return out
}

func TestTrianglesAreThoseOfNumPy(t *testing.T) {
	dtypes := []ndview.DType{ndview.Int8, ndview.Float16, ndview.Float32, ndview.Int64, ndview.Complex128}
	shapes := [][]int64{{1, 1}, {4, 4}, {3, 16}, {16, 3}, {2, 3, 32}, {2, 0, 3}, {70, 48}}
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		rng := rand.New(rand.NewPCG(8, 1))
		for _, dtype := range dtypes {
			for _, shape := range shapes {
				rows, columns := shape[len(shape)-2], shape[len(shape)-1]
				for _, k := range []int64{0, 1, -2, 5, -100, math.MaxInt64, math.MinInt64} {
					reach := max(-rows-1, min(k, columns+1))
					n := dtype.Size()
					for _, d := range shape {
						n *= d
					}
					data := randomBytes(rng, int(n)+16)
					shift := int64(0)
					if k == 1 {
						shift = dtype.Size() % 16
					}
					for _, upper := range []bool{false, true} {
						buf := upload(t, dev, data)
						a := at(t, buf, dtype, shift, shape...)
						make, cut := a.Tril, a.TrilInPlace
						if upper {
							make, cut = a.Triu, a.TriuInPlace
						}
						want := triangleOf(data[shift:shift+n], dtype.Size(), rows, columns, reach, upper)
						got, err := make(k)
						own(t, got, err)
						requireBytes(t, want, elements(t, got), dtype, shape, k, upper)
						require.NoError(t, cut(k))
						whole := slices.Concat(data[:shift], want, data[shift+n:])
						requireBytes(t, whole, download(t, buf), dtype, shape, k, upper)
					}
				}
			}
		}
	})
}

func TestTrianglesTakeAnyStridesAndOneAxis(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a := fromHost(t, dev, ndview.Int32, count(6), 2, 3)
		turned, err := a.Transpose()
		own(t, turned, err)
		got, err := turned.Tril(0)
		own(t, got, err)
		assert.Equal(t, raw[int32](0, 0, 1, 4, 2, 5), elements(t, got))
		require.NoError(t, turned.TriuInPlace(1))
		assert.Equal(t, raw[int32](0, 0, 0, 3, 0, 0), elements(t, a))

		row := fromHost(t, dev, ndview.Int32, []int32{1, 2, 3}, 3)
		got, err = row.Triu(0)
		own(t, got, err)
		assert.Equal(t, raw[int32](1, 2, 3, 0, 2, 3, 0, 0, 3), elements(t, got), "as numpy.triu")

		assert.ErrorIs(t, row.TriuInPlace(0), ndview.ErrShape)
		_, err = at(t, a.Buffer(), ndview.Bytes(3), 0, 2, 2).Tril(0)
		assert.ErrorIs(t, err, ndview.ErrDType)
		_, err = at(t, a.Buffer(), ndview.Int8, 0).Tril(0)
		assert.ErrorIs(t, err, ndview.ErrShape)
	})
}
