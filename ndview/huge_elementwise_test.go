package ndview_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview"
)

func TestElementwiseReachesBeyond32Bits(t *testing.T) {
	block := pattern()
	each := func(f func(i int) byte) []byte { return mapped(period, f) }
	next := func(i int) byte { return block[(i+1)%period] }
	onHuge(t, 14, func(t *testing.T, dev arrowbuf.Device) {
		a := periodic(t, dev, block, hugeExtent)
		x, y := index(t, a, ndview.Span(0, -1)), index(t, a, ndview.Span(1, ndview.Open)) // of which one is at no vector
		back := index(t, a, ndview.SpanStep(ndview.Open, ndview.Open, -1))
		backwards := rotated(reversed(block), -hugeExtent%period)
		for name, tt := range map[string]struct {
			got  func() (*ndview.NDBuffer, error)
			want []byte
		}{
			"add, gapless":           {func() (*ndview.NDBuffer, error) { return ndview.Add.Of(a, a) }, each(func(i int) byte { return 2 * block[i] })},
			"add, not aligned":       {func() (*ndview.NDBuffer, error) { return ndview.Add.Of(x, y) }, each(func(i int) byte { return block[i] + next(i) })},
			"a comparison, gapless":  {func() (*ndview.NDBuffer, error) { return ndview.Greater.Of(a, 100) }, each(func(i int) byte { return truth(block[i] > 100) })},
			"a comparison of two":    {func() (*ndview.NDBuffer, error) { return ndview.Less.Of(x, y) }, each(func(i int) byte { return truth(block[i] < next(i)) })},
			"a unary operation":      {func() (*ndview.NDBuffer, error) { return ndview.Negative.Of(a) }, each(func(i int) byte { return -block[i] })},
			"backwards":              {func() (*ndview.NDBuffer, error) { return ndview.Invert.Of(back) }, each(func(i int) byte { return ^backwards[i] })},
			"division":               {func() (*ndview.NDBuffer, error) { return ndview.FloorDivide.Of(a, 7) }, each(func(i int) byte { return block[i] / 7 })},
			"clip, gapless":          {func() (*ndview.NDBuffer, error) { return ndview.Clip(a, 50, 100) }, each(func(i int) byte { return min(max(block[i], 50), 100) })},
			"clip by an array":       {func() (*ndview.NDBuffer, error) { return ndview.Clip(y, nil, x) }, each(func(i int) byte { return min(block[i], next(i)) })},
			"where":                  {func() (*ndview.NDBuffer, error) { return ndview.Where(a, a, 7) }, each(func(i int) byte { return max(block[i], 7*truth(block[i] == 0)) })},
			"where, not aligned":     {func() (*ndview.NDBuffer, error) { return ndview.Where(y, x, 7) }, each(func(i int) byte { return [2]byte{7, block[i]}[truth(next(i) != 0)] })},
			"a cast, gapless":        {func() (*ndview.NDBuffer, error) { return a.AsType(ndview.Bool, ndview.OrderC, ndview.CastUnsafe) }, each(func(i int) byte { return truth(block[i] != 0) })},
			"a cast, not aligned":    {func() (*ndview.NDBuffer, error) { return y.AsType(ndview.Bool, ndview.OrderC, ndview.CastUnsafe) }, each(func(i int) byte { return truth(next(i) != 0) })},
			"a cast, backwards":      {func() (*ndview.NDBuffer, error) { return back.AsType(ndview.Bool, ndview.OrderC, ndview.CastUnsafe) }, each(func(i int) byte { return truth(backwards[i] != 0) })},
			"a cast of 2^31 uint16s": {func() (*ndview.NDBuffer, error) { return castAs(t, x, ndview.Uint16, ndview.Uint8) }, mapped(period/2, func(i int) byte { return block[2*i] })},
			"a cast of 2^30 floats": {func() (*ndview.NDBuffer, error) {
				return castAs(t, index(t, x, ndview.Span(2, ndview.Open)), ndview.Float32, ndview.Bool)
			}, floatTruths(rotated(block, 2))},
		} {
			t.Run(name, func(t *testing.T) {
				got, err := tt.got()
				requirePeriodic(t, tt.want, own(t, got, err))
			})
		}
	})
}

// Rows that are more than 2^31 bytes apart, of each second element.
func TestFarRowsReachBeyond32Bits(t *testing.T) {
	block := pattern()
	onHuge(t, 7, func(t *testing.T, dev arrowbuf.Device) {
		const columns = (hugeExtent - 1) / 2
		a := view(t)(periodic(t, dev, block, 2*columns).Reshape(2, columns))
		x := index(t, a, ndview.All, ndview.SpanStep(ndview.Open, ndview.Open, 2))
		for name, tt := range map[string]struct {
			of   func() (*ndview.NDBuffer, error)
			want func(b byte) byte
		}{
			"add":    {func() (*ndview.NDBuffer, error) { return ndview.Add.Of(x, x) }, func(b byte) byte { return 2 * b }},
			"a cast": {func() (*ndview.NDBuffer, error) { return x.AsType(ndview.Bool, ndview.OrderC, ndview.CastUnsafe) }, func(b byte) byte { return truth(b != 0) }},
			"a copy": {func() (*ndview.NDBuffer, error) { return x.Copy(ndview.OrderC) }, func(b byte) byte { return b }},
		} {
			t.Run(name, func(t *testing.T) {
				made, err := tt.of()
				got := own(t, made, err)
				for row := range int64(2) {
					want := mapped(period, func(i int) byte { return tt.want(block[(row*columns+2*int64(i))%period]) })
					requirePeriodic(t, want, index(t, got, ndview.At(row)))
				}
			})
		}
	})
}

// castAs casts bytes that are elements of a type.
func castAs(t *testing.T, bytes *ndview.NDBuffer, from, to ndview.DType) (*ndview.NDBuffer, error) {
	t.Helper()
	whole := index(t, bytes, ndview.Span(0, bytes.Size()/from.Size()*from.Size()))
	elements, err := whole.View(from)
	return own(t, elements, err).AsType(to, ndview.OrderC, ndview.CastUnsafe)
}

// floatTruths tells which float32s of a block are not 0.
func floatTruths(block []byte) []byte {
	return mapped(len(block)/4, func(i int) byte { return truth(binary.LittleEndian.Uint32(block[4*i:])<<1 != 0) })
}

// A result of two bytes for each element.
func TestWiderResultsReachBeyond32Bits(t *testing.T) {
	block := pattern()
	onHuge(t, 22, func(t *testing.T, dev arrowbuf.Device) {
		a := periodic(t, dev, block, hugeExtent)
		for name, from := range map[string]int64{"gapless": 0, "not aligned": 3} {
			t.Run(name, func(t *testing.T) {
				part := index(t, a, ndview.Span(from, ndview.Open))
				wide, err := part.AsType(ndview.Int16, ndview.OrderC, ndview.CastSafe)
				own(t, wide, err)
				want := rotated(block, from)
				requirePeriodic(t, mapped(2*period, func(i int) byte { return want[i/2] * byte(1-i%2) }), wide)
				require.NoError(t, ndview.Multiply.Into(wide, part, wide))
				requirePeriodic(t, mapped(2*period, func(i int) byte { return byte(uint16(want[i/2]) * uint16(want[i/2]) >> (i % 2 * 8)) }), wide)
			})
		}
	})
}

// Rows and columns that make more than 2^32 elements, in whole vectors and not.
func TestBroadcastingReachesBeyond32Bits(t *testing.T) {
	onHuge(t, 5, func(t *testing.T, dev arrowbuf.Device) {
		const rows, columns = 65_600, 65_552
		row := pattern()[:columns]
		for i := range row {
			row[i] %= 251
		}
		down := make([]byte, rows) // so that rows 2^15 and 2^16 apart differ
		for i := range down {
			down[i] = byte(i % 251)
		}
		for name, width := range map[string]int64{"whole vectors": columns, "no whole vectors": columns - 3} {
			t.Run(name, func(t *testing.T) {
				x := fromHost(t, dev, ndview.Uint8, down, rows, 1)
				y := fromHost(t, dev, ndview.Uint8, row[:width], width)
				made, err := ndview.Empty(dev, ndview.Uint8, rows, width)
				out := own(t, made, err)
				check := func(f func(down, row byte) byte) { // of 251 rows, which come again
					requirePeriodic(t, mapped(251*int(width), func(i int) byte { return f(byte(i/int(width)), row[i%int(width)]) }), out)
				}
				require.NoError(t, ndview.Add.Into(out, x, y))
				check(func(down, row byte) byte { return down + row })
				turned := view(t)(out.Transpose())
				require.NoError(t, ndview.Subtract.Into(turned, view(t)(y.Reshape(width, 1)), view(t)(x.Reshape(rows))))
				check(func(down, row byte) byte { return row - down })
			})
		}
	})
}

func TestSwappedBytesReachBeyond4GiB(t *testing.T) {
	block := pattern()
	onHuge(t, 10, func(t *testing.T, dev arrowbuf.Device) {
		a := periodic(t, dev, block, hugeExtent)
		turned := mapped(period, func(i int) byte { return block[i^1] })
		for name, from := range map[string]int64{"gapless": 0, "not aligned": 2} {
			t.Run(name, func(t *testing.T) {
				numbers := view(t)(index(t, a, ndview.Span(from, hugeExtent-1)).View(ndview.Uint16))
				c, err := numbers.ByteSwapped()
				requirePeriodic(t, rotated(turned, from), own(t, c, err))
			})
		}
		long := view(t)(index(t, a, ndview.Span(0, hugeExtent&^7)).View(ndview.Uint64))
		require.NoError(t, long.ByteSwap())
		requirePeriodic(t, mapped(period, func(i int) byte { return block[i^7] }), index(t, a, ndview.Span(0, hugeExtent&^7)))
	})
}

func TestBitsReachBeyond32Bits(t *testing.T) {
	block := pattern()
	truths := mapped(period, func(i int) byte { return block[i] >> 7 })
	onHuge(t, 6, func(t *testing.T, dev arrowbuf.Device) {
		a := periodic(t, dev, truths, hugeExtent)
		for _, shift := range []int64{0, 3} {
			t.Run(fmt.Sprint("from bit ", shift), func(t *testing.T) {
				bitmap := upload(t, dev, make([]byte, hugeExtent/8+2))
				require.NoError(t, a.PackBits(bitmap, shift))
				packed := mapped(period/8, func(i int) (b byte) {
					for k := range 8 {
						b |= truths[(8*i+k-int(shift)+period)%period] << k
					}
					return b
				})
				requirePeriodic(t, rotated(packed, 1), at(t, bitmap, ndview.Uint8, 1, hugeExtent/8-1))
				back, err := ndview.Empty(dev, ndview.Uint8, hugeExtent-5)
				own(t, back, err)
				require.NoError(t, back.UnpackBits(bitmap, shift+5, true))
				requirePeriodic(t, mapped(period, func(i int) byte { return 1 - truths[(i+5)%period] }), back)
			})
		}
	})
}

// A kernel of one's own, with and without gaps, and a reduction.
func TestOwnKernelsReachBeyond32Bits(t *testing.T) {
	block := pattern()
	onHugeCUDA(t, 10, func(t *testing.T, dev *cudabuf.Device) {
		needNVRTC(t)
		a := periodic(t, dev, block, hugeExtent)
		mix, err := ndview.NewElementwise(dev, "r = x ^ (y << 1)", "", writes("r", ndview.Uint8), reads("x", ndview.Uint8), reads("y", ndview.Uint8))
		require.NoError(t, err)
		made, err := ndview.Empty(dev, ndview.Uint8, hugeExtent-1)
		out := own(t, made, err)
		x, y := index(t, a, ndview.Span(0, -1)), index(t, a, ndview.Span(1, ndview.Open))
		require.NoError(t, mix.Run(out, x, y))
		requirePeriodic(t, mapped(period, func(i int) byte { return block[i] ^ block[(i+1)%period]<<1 }), out)

		back := ndview.SpanStep(ndview.Open, ndview.Open, -1)
		require.NoError(t, mix.Run(index(t, out, back), y, x))
		want := mapped(period, func(i int) byte { return block[(i+1)%period] ^ block[i]<<1 })
		requirePeriodic(t, rotated(reversed(want), -(hugeExtent-1)%period), out)

		counts, err := ndview.NewReductionKernel(dev, ndview.ReductionSource{Out: ndview.Uint64, Neutral: "0", Reduce: "a + b", Map: "x == 77"}, reads("x", ndview.Uint8))
		require.NoError(t, err)
		count := func(bytes []byte) (n uint64) {
			for _, b := range bytes {
				n += uint64(truth(b == 77))
			}
			return n
		}
		all, err := counts.Of(nil, false, a)
		require.Equal(t, []uint64{hugeExtent/period*count(block) + count(block[:hugeExtent%period])}, hostOf[uint64](t, own(t, all, err)))

		// Rows of a period, of which the last lie beyond 2^32.
		const rows = hugeExtent / period
		matrix, err := index(t, a, ndview.Span(0, rows*period)).Reshape(rows, period)
		own(t, matrix, err)
		each, err := counts.Of([]int{1}, false, matrix)
		require.Equal(t, slices.Repeat([]uint64{count(block)}, rows), hostOf[uint64](t, own(t, each, err)))
		columns, err := counts.Of([]int{0}, false, matrix)
		for i, n := range hostOf[uint64](t, own(t, columns, err)) {
			if n != rows*uint64(truth(block[i] == 77)) {
				require.Failf(t, "a wrong count", "column %d: %d", i, n)
			}
		}
	})
}
