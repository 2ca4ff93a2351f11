package ndview_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNewLiesInTheOrderAskedFor(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for order, strides := range map[ndview.Order][]int64{
			0: {48, 16, 4}, ndview.OrderC: {48, 16, 4}, ndview.OrderA: {48, 16, 4}, ndview.OrderK: {48, 16, 4}, ndview.OrderF: {4, 8, 24},
		} {
			a, err := ndview.New(dev, ndview.Float32, []int64{2, 3, 4}, ndview.Options{Order: order})
			own(t, a, err)
			assert.Equal(t, strides, a.Strides(), "%q", order)
			assert.Equal(t, dev, a.Device())
			assert.Equal(t, order == ndview.OrderF, a.Flags().FNC())
			assert.True(t, a.Flags().OwnData)
		}
		none, err := ndview.New(dev, ndview.Float32, []int64{0, 3}, ndview.Options{Order: ndview.OrderF})
		own(t, none, err)
		assert.True(t, none.Flags().CContiguous && none.Flags().FContiguous)
		_, err = ndview.New(dev, ndview.Float32, []int64{1}, ndview.Options{Order: 'Z'})
		assert.ErrorIs(t, err, ndview.ErrShape)
		_, err = ndview.New(dev, ndview.Float32, []int64{-1}, ndview.Options{})
		assert.ErrorIs(t, err, ndview.ErrShape)
	})
}

func TestZerosAreZero(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for range 3 { // memory that was used before
			a, err := ndview.Zeros(dev, ndview.Int16, 3, 5)
			own(t, a, err)
			assert.Equal(t, make([]byte, 30), elements(t, a))
			used, err := ndview.Empty(dev, ndview.Uint8, 30)
			assert.NoError(t, err)
			assert.NoError(t, used.CopyFromHost(poisoned(30)))
			used.Release()
		}
	})
}

func TestResultsThatComeAndGoShareMemoryWhileTheirWorkWaits(t *testing.T) {
	onCUDA(t, func(t *testing.T, dev *cudabuf.Device) {
		const n = 4 << 20 // an allocation of its own each
		x, err := ndview.Full(dev, ndview.Uint8, 40, n)
		own(t, x, err)
		stream, err := dev.DefaultStream()
		require.NoError(t, err)
		first, err := ndview.Add.Of(x, uint8(0)) // loads the kernel, which waits for what the GPU does
		require.NoError(t, err)
		first.Release()
		require.NoError(t, dev.Synchronize())
		held := func() int64 { s := dev.MemoryStats(); return s.InUse + s.Idle }
		before := held()
		gate := make(chan struct{})
		require.NoError(t, stream.Do(func() { <-gate }))
		var last *ndview.NDBuffer
		for i := range 8 {
			if last != nil {
				last.Release()
			}
			last, err = ndview.Add.Of(x, uint8(i))
			require.NoError(t, err)
		}
		during := held()
		close(gate)
		own(t, last, nil)
		assert.LessOrEqual(t, during-before, int64(n))
		assert.Equal(t, bytes.Repeat([]byte{47}, n), elements(t, last))
	})
}

func TestWhatIsNotThereIsAnError(t *testing.T) {
	_, err := ndview.Empty(nil, ndview.Int8, 3)
	assert.ErrorIs(t, err, arrowbuf.ErrDevice)
	_, err = ndview.FromHost(nil, ndview.Int8, []int8{1}, 1)
	assert.ErrorIs(t, err, arrowbuf.ErrDevice)
	_, err = ndview.FromBuffer(nil, ndview.Int8, 0, []int64{1}, nil)
	assert.ErrorIs(t, err, arrowbuf.ErrDevice)
	_, err = ndview.FromArrow(nil)
	assert.ErrorIs(t, err, ndview.ErrDType)
}

func TestArraysWithoutAxesAreTakenFromAsOfOneElement(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		five := fromHost(t, dev, ndview.Int16, []int16{5})
		taken, err := ndview.Take(five, fromHost(t, dev, ndview.Int64, []int64{0, -1, 0, 0}, 2, 2), -1, ndview.ModeRaise)
		own(t, taken, err)
		assert.Equal(t, []int64{2, 2}, taken.Shape())
		assert.Equal(t, raw[int16](5, 5, 5, 5), elements(t, taken))
		kept, err := ndview.Compress(fromHost(t, dev, ndview.Bool, []bool{true}, 1), five, 0)
		own(t, kept, err)
		assert.Equal(t, []int64{1}, kept.Shape())
		_, err = ndview.Take(five, fromHost(t, dev, ndview.Int64, []int64{1}, 1), 0, ndview.ModeRaise)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
	})
}

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
