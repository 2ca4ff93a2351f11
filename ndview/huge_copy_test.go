package ndview_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCopiesReachBeyond4GiB transposes a matrix of more than 2^31 elements and 2^32
// bytes. Its first columns hold the row number, the others the column number.
func TestCopiesReachBeyond4GiB(t *testing.T) {
	ndtest.OnHugeCUDA(t, 12, func(t *testing.T, dev *cudabuf.Device) {
		const rows, columns, numbered = 70001, 33003, 100
		numbers := make([]uint16, rows)
		for i := range numbers {
			numbers[i] = uint16(i)
		}
		a, err := ndview.Empty(dev, ndview.Uint16, rows, columns)
		ndtest.Own(t, a, err)
		require.NoError(t, a.CopyFrom(ndtest.FromHost(t, dev, ndview.Uint16, numbers[:columns], columns)))
		first, err := a.Slice(1, 0, numbered)
		ndtest.Own(t, first, err)
		require.NoError(t, first.CopyFrom(ndtest.FromHost(t, dev, ndview.Uint16, numbers, rows, 1)))

		transposed, err := a.Transpose()
		ndtest.Own(t, transposed, err)
		c, err := transposed.Copy(ndview.OrderC)
		ndtest.Own(t, c, err)
		back, err := c.Index(ndview.SpanStep(ndview.Open, ndview.Open, -1), ndview.SpanStep(ndview.Open, ndview.Open, -3))
		ndtest.Own(t, back, err)
		thirds, err := back.Copy(ndview.OrderC)
		ndtest.Own(t, thirds, err)
		for _, column := range []int64{0, 1, numbered - 1, numbered, 15339, 15340, 30679, 30680, columns - 1} {
			line, err := c.Slice(0, column, column+1)
			ndtest.Own(t, line, err)
			got, err := ndview.ToHost[uint16](line)
			require.NoError(t, err)
			third, err := thirds.Slice(0, columns-1-column, columns-column)
			ndtest.Own(t, third, err)
			few, err := ndview.ToHost[uint16](third)
			require.NoError(t, err)
			require.Len(t, few, (rows+2)/3)
			for i, v := range got {
				want := uint16(column)
				if column < numbered {
					want = uint16(i)
				}
				require.Equal(t, want, v, "column %d of row %d", column, i)
				if (rows-1-i)%3 == 0 {
					require.Equal(t, want, few[(rows-1-i)/3], "column %d of row %d, backwards", column, i)
				}
			}
		}
	})
}

// TestCopiesReachBeyond32Bits copies views whose elements lie beyond 2^32.
func TestCopiesReachBeyond32Bits(t *testing.T) {
	block := ndtest.Pattern()
	every := func(step, first int64) []byte { // every step-th element from first on
		return ndtest.Mapped(ndtest.Period, func(i int) byte { return block[((first+int64(i)*step)%ndtest.Period+ndtest.Period)%ndtest.Period] })
	}
	ndtest.OnHuge(t, 9, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.Periodic(t, dev, block, ndtest.HugeExtent)
		for name, tt := range map[string]struct {
			start, stop, step int64
			want              []byte
		}{
			"from 3":           {3, ndview.Open, 1, every(1, 3)},
			"backwards":        {ndview.Open, ndview.Open, -1, every(-1, ndtest.HugeExtent-1)},
			"every second":     {1, ndview.Open, 2, every(2, 1)},
			"every third back": {-2, ndview.Open, -3, every(-3, ndtest.HugeExtent-2)},
			"each 70,001st":    {0, ndview.Open, 70_001, every(70_001, 0)},
		} {
			t.Run(name, func(t *testing.T) {
				c, err := index(t, a, ndview.SpanStep(tt.start, tt.stop, tt.step)).Copy(ndview.OrderC)
				ndtest.RequirePeriodic(t, tt.want, ndtest.Own(t, c, err))
			})
		}
		for name, shape := range map[string][]int64{
			"a matrix":        {ndtest.HugeRows, ndtest.HugeColumns},
			"three columns":   {ndtest.HugeExtent / 3, 3},
			"three rows":      {3, ndtest.HugeExtent / 3},
			"sixteen":         {16, ndtest.HugeExtent / 16},
			"three axes":      {1541, 1630, 1710},
			"narrow matrices": {ndtest.HugeExtent / 35, 5, 7},
			"distant axes":    {2, 3, ndtest.HugeExtent / 30, 5},
		} {
			t.Run(name, func(t *testing.T) {
				cube := ndtest.View(t)(index(t, a, ndview.Span(0, product(shape))).Reshape(shape...))
				transposed := ndtest.View(t)(cube.Transpose())
				c, err := transposed.Copy(ndview.OrderC)
				requireReversedAxes(t, block, ndtest.Own(t, c, err))
				assert.NoError(t, c.CopyFrom(ndtest.View(t)(cube.Reshape(transposed.Shape()...))))
				ndtest.RequirePeriodic(t, block, c)
			})
		}
	})
}

// requireReversedAxes checks parts of an array that is the copy of a pattern with its
// axes reversed.
func requireReversedAxes(t *testing.T, block []byte, c *ndview.NDBuffer) {
	t.Helper()
	shape, n := c.Shape(), c.Size()
	for _, from := range []int64{0, 1<<31 - 5000, 1<<32 - 5000, n - 10_000, n / 3, n / 5, n / 7 * 6} {
		got := ndtest.Elements(t, ndtest.At(t, c.Buffer(), ndview.Uint8, from, 10_000))
		for i := range got {
			source, rest, step := int64(0), from+int64(i), n // source is the index in the pattern
			for k := len(shape) - 1; k >= 0; k-- {
				step /= shape[k]
				source += rest % shape[k] * step
				rest /= shape[k]
			}
			require.Equal(t, block[source%ndtest.Period], got[i], "element %d of %v", from+int64(i), shape)
		}
	}
}

// TestWritesReachBeyond32Bits writes to views of which some or all elements lie beyond
// 2^32.
func TestWritesReachBeyond32Bits(t *testing.T) {
	ndtest.OnHuge(t, 9, func(t *testing.T, dev arrowbuf.Device) {
		made, err := ndview.Empty(dev, ndview.Uint8, ndtest.HugeExtent)
		a := ndtest.Own(t, made, err)
		same := func(t *testing.T, a *ndview.NDBuffer, value int) {
			t.Helper()
			is, err := a.AllEqual(value, false)
			require.NoError(t, err)
			require.True(t, is)
		}
		// only checks that a has the bytes at an offset, and 0 elsewhere.
		only := func(t *testing.T, from int64, bytes []byte) {
			t.Helper()
			end := from + int64(len(bytes))
			same(t, index(t, a, ndview.Span(0, from)), 0)
			ndtest.RequireBytes(t, bytes, ndtest.Elements(t, index(t, a, ndview.Span(from, end))))
			same(t, index(t, a, ndview.Span(end, ndtest.HugeExtent)), 0)
		}
		require.NoError(t, a.Fill(10))
		same(t, a, 10)
		require.NoError(t, a.Zero())
		same(t, a, 0)

		values := ndtest.Pattern()[:8000]
		for name, write := range map[string]func(from int64) error{
			"Set a slice":   func(from int64) error { return a.Set(values, ndview.Span(from, from+8000)) },
			"Assign casts":  func(from int64) error { return assignInt16(index(t, a, ndview.Span(from, from+8000)), values) },
			"CopyFromHost":  func(from int64) error { return index(t, a, ndview.Span(from, from+8000)).CopyFromHost(values) },
			"Set backwards": func(from int64) error { return a.Set(ndtest.Reversed(values), ndview.SpanStep(from+7999, from-1, -1)) },
		} {
			for _, from := range []int64{1<<31 - 4000, 1<<32 - 4000, ndtest.HugeExtent - 8000} {
				t.Run(name, func(t *testing.T) {
					require.NoError(t, write(from))
					only(t, from, values)
					require.NoError(t, a.Set(0, ndview.Span(from, from+8000)))
				})
			}
		}
		t.Run("Fill a part", func(t *testing.T) {
			const from = 1<<32 - 77
			require.NoError(t, index(t, a, ndview.Span(from, ndview.Open)).Fill(9))
			only(t, from, bytes.Repeat([]byte{9}, ndtest.HugeExtent-from))
			require.NoError(t, a.Zero())
		})
		t.Run("Fill every second, backwards", func(t *testing.T) {
			require.NoError(t, index(t, a, ndview.SpanStep(-1, ndview.Open, -2)).Fill(7))
			ndtest.RequirePeriodic(t, bytes.Repeat([]byte{7, 0}, 8), a)
		})
		t.Run("CopyFrom", func(t *testing.T) {
			block := ndtest.Pattern()
			src := ndtest.Periodic(t, dev, block, ndtest.HugeExtent)
			require.NoError(t, index(t, a, ndview.SpanStep(ndview.Open, ndview.Open, -1)).CopyFrom(src))
			ndtest.RequirePeriodic(t, ndtest.Rotated(ndtest.Reversed(block), -ndtest.HugeExtent%ndtest.Period), a)
			require.NoError(t, index(t, a, ndview.SpanStep(ndview.Open, ndview.Open, 2)).CopyFrom(index(t, src, ndview.Span(0, (ndtest.HugeExtent+1)/2))))
			want := ndtest.Rotated(ndtest.Reversed(block), -ndtest.HugeExtent%ndtest.Period)
			ndtest.RequirePeriodic(t, ndtest.Mapped(2*ndtest.Period, func(i int) byte { return [2]byte{block[i/2], want[i%ndtest.Period]}[i%2] }), a)
		})
	})
}

// assignInt16 assigns bytes through a cast from int16.
func assignInt16(a *ndview.NDBuffer, values []byte) error {
	wide := make([]int16, len(values))
	for i, v := range values {
		wide[i] = int16(v) - 256
	}
	return a.Assign(wide)
}

// TestJoinsReachBeyond32Bits joins halves, and splits the result.
func TestJoinsReachBeyond32Bits(t *testing.T) {
	block := ndtest.Pattern()
	ndtest.OnHuge(t, 9, func(t *testing.T, dev arrowbuf.Device) {
		const half = 1<<31 + 2049
		p := ndtest.Periodic(t, dev, block, half)
		q := ndtest.Periodic(t, dev, ndtest.Rotated(block, 100), half)
		pairs := ndtest.Mapped(2*ndtest.Period, func(i int) byte { return block[(i/2+i%2*100)%ndtest.Period] })
		for name, tt := range map[string]struct {
			join func() (*ndview.NDBuffer, error)
			want func(at int64) []byte
		}{
			"Concatenate": {func() (*ndview.NDBuffer, error) { return ndview.Concatenate([]*ndview.NDBuffer{p, q}, 0) }, nil},
			"Stack first": {func() (*ndview.NDBuffer, error) { return ndview.Stack([]*ndview.NDBuffer{p, q}, 0) }, nil},
			"Stack last":  {func() (*ndview.NDBuffer, error) { return ndview.Stack([]*ndview.NDBuffer{p, q}, 1) }, func(int64) []byte { return pairs }},
			"ColumnStack": {func() (*ndview.NDBuffer, error) { return ndview.ColumnStack([]*ndview.NDBuffer{p, q}) }, func(int64) []byte { return pairs }},
		} {
			t.Run(name, func(t *testing.T) {
				got, err := tt.join()
				joined := ndtest.Own(t, got, err)
				if tt.want != nil {
					ndtest.RequirePeriodic(t, pairs, joined)
					return
				}
				flat := ndtest.View(t)(joined.Reshape(2 * half))
				ndtest.RequirePeriodic(t, block, ndtest.View(t)(flat.Slice(0, 0, half)))
				ndtest.RequirePeriodic(t, ndtest.Rotated(block, 100), ndtest.View(t)(flat.Slice(0, half, 2*half)))
				parts, err := ndview.ArraySplit(flat, 3, 0)
				require.NoError(t, err)
				start := int64(0)
				for i, part := range parts {
					ndtest.Own(t, part, nil)
					if i == 2 {
						ndtest.RequirePeriodic(t, ndtest.Rotated(block, 100+start-half), part)
					}
					start += part.Size()
				}
				assert.EqualValues(t, 2*half, start)
			})
		}
	})
}

// TestTrianglesReachBeyond32Bits adds both triangles to restore the matrix.
func TestTrianglesReachBeyond32Bits(t *testing.T) {
	block := ndtest.Mapped(ndtest.Period, func(i int) byte { return byte(i*7919>>8) | 1 })
	ndtest.OnHuge(t, 9, func(t *testing.T, dev arrowbuf.Device) {
		const rows = 65_800
		for name, columns := range map[string]int64{"whole vectors": 65_552, "no whole vectors": 65_551} {
			t.Run(name, func(t *testing.T) {
				const k = -100 // the diagonal
				a := ndtest.View(t)(ndtest.Periodic(t, dev, block, rows*columns).Reshape(rows, columns))
				lower, err := a.Tril(k)
				ndtest.Own(t, lower, err)
				require.NoError(t, a.TriuInPlace(k+1))
				edges := make([]int64, rows)
				for i := range edges {
					edges[i] = min(max(int64(i)+k+1, 0), columns)
				}
				ofRows := func(r ndview.Reduction, a *ndview.NDBuffer) []int64 {
					got, err := r.Of(a, ndview.ReduceOptions{Axes: []int{1}})
					return ndtest.HostOf[int64](t, ndtest.Own(t, got, err))
				}
				kept, firstZero, above := ofRows(ndview.CountNonzero, lower), ofRows(ndview.ArgMin, lower), ofRows(ndview.CountNonzero, a)
				for i, edge := range edges {
					require.Equal(t, edge, kept[i], "row %d", i)
					if edge < columns {
						require.Equal(t, edge, firstZero[i], "row %d", i)
					}
					require.Equal(t, columns-edge, above[i], "row %d", i)
				}
				require.NoError(t, ndview.Add.Into(a, a, lower))
				ndtest.RequirePeriodic(t, block, a)
			})
		}
	})
}

func TestSwappedBytesReachBeyond4GiB(t *testing.T) {
	block := ndtest.Pattern()
	ndtest.OnHuge(t, 10, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.Periodic(t, dev, block, ndtest.HugeExtent)
		transposed := ndtest.Mapped(ndtest.Period, func(i int) byte { return block[i^1] })
		for name, from := range map[string]int64{"contiguous": 0, "not aligned": 2} {
			t.Run(name, func(t *testing.T) {
				numbers := ndtest.View(t)(index(t, a, ndview.Span(from, ndtest.HugeExtent-1)).View(ndview.Uint16))
				c, err := numbers.ByteSwapped()
				ndtest.RequirePeriodic(t, ndtest.Rotated(transposed, from), ndtest.Own(t, c, err))
			})
		}
		long := ndtest.View(t)(index(t, a, ndview.Span(0, ndtest.HugeExtent&^7)).View(ndview.Uint64))
		require.NoError(t, long.ByteSwap())
		ndtest.RequirePeriodic(t, ndtest.Mapped(ndtest.Period, func(i int) byte { return block[i^7] }), index(t, a, ndview.Span(0, ndtest.HugeExtent&^7)))
	})
}

func TestBitsReachBeyond32Bits(t *testing.T) {
	block := ndtest.Pattern()
	truths := ndtest.Mapped(ndtest.Period, func(i int) byte { return block[i] >> 7 })
	ndtest.OnHuge(t, 6, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.Periodic(t, dev, truths, ndtest.HugeExtent)
		for _, shift := range []int64{0, 3} {
			t.Run(fmt.Sprint("from bit ", shift), func(t *testing.T) {
				bitmap := ndtest.Upload(t, dev, make([]byte, ndtest.HugeExtent/8+2))
				require.NoError(t, a.PackBits(bitmap, shift))
				packed := ndtest.Mapped(ndtest.Period/8, func(i int) (b byte) {
					for k := range 8 {
						b |= truths[(8*i+k-int(shift)+ndtest.Period)%ndtest.Period] << k
					}
					return b
				})
				ndtest.RequirePeriodic(t, ndtest.Rotated(packed, 1), ndtest.At(t, bitmap, ndview.Uint8, 1, ndtest.HugeExtent/8-1))
				back, err := ndview.Empty(dev, ndview.Uint8, ndtest.HugeExtent-5)
				ndtest.Own(t, back, err)
				require.NoError(t, back.UnpackBits(bitmap, shift+5, true))
				ndtest.RequirePeriodic(t, ndtest.Mapped(ndtest.Period, func(i int) byte { return 1 - truths[(i+5)%ndtest.Period] }), back)
			})
		}
	})
}
