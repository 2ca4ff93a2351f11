package ndview_test

import (
	"bytes"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMasksReachBeyond32Bits selects more than 2^32 elements: all but every 16th.
func TestMasksReachBeyond32Bits(t *testing.T) {
	block := ndtest.Pattern()
	ndtest.OnHuge(t, 10, func(t *testing.T, dev arrowbuf.Device) {
		const n = ndtest.HugeExtent / 15 * 16 // more than 2^32 of them are selected
		a := ndtest.Periodic(t, dev, block, n)
		mask := ndtest.View(t)(ndtest.Periodic(t, dev, bytes.Repeat(append(bytes.Repeat([]byte{1}, 15), 0), 1<<16), n).View(ndview.Bool))
		require.Greater(t, int64(n/16*15), int64(1<<32))
		var kept []byte
		for i, b := range block {
			if i%16 != 15 {
				kept = append(kept, b)
			}
		}
		chosen := func(value int) []byte {
			return ndtest.Mapped(ndtest.Period, func(i int) byte { return [2]byte{block[i], byte(value)}[ndtest.Truth(i%16 != 15)] })
		}
		for name, get := range map[string]func() (*ndview.NDBuffer, error){
			"Get":      func() (*ndview.NDBuffer, error) { return a.Get(ndview.Mask(mask)) },
			"Compress": func() (*ndview.NDBuffer, error) { return ndview.Compress(mask, a, 0) },
		} {
			t.Run(name, func(t *testing.T) {
				if dev == arrowbuf.CPU() {
					ndtest.NeedHostMemory(t, 14)
				}
				got, err := get()
				ndtest.RequirePeriodic(t, kept, ndtest.Own(t, got, err))
				require.NoError(t, a.Set(7, ndview.Mask(mask)))
				require.NoError(t, a.Set(got, ndview.Mask(mask)))
				ndtest.RequirePeriodic(t, block, a)
			})
		}
		require.NoError(t, a.Set(7, ndview.Mask(mask)))
		ndtest.RequirePeriodic(t, chosen(7), a)
		require.NoError(t, a.FillWhere(mask, 0x0909090909090909))
		ndtest.RequirePeriodic(t, chosen(9), a)
	})
}

// TestNonZeroReachesBeyond32Bits returns more than 2^32 indices.
func TestNonZeroReachesBeyond32Bits(t *testing.T) {
	ndtest.OnHuge(t, 60, func(t *testing.T, dev arrowbuf.Device) {
		full, err := ndview.Full(dev, ndview.Bool, true, ndtest.HugeExtent)
		mask := ndtest.Own(t, full, err)
		_, err = mask.Buffer().CopyFromHost([]byte{0}, 1000)
		require.NoError(t, err)
		places, err := ndview.NonZero(mask)
		require.NoError(t, err)
		ndtest.Own(t, places[0], nil)
		require.EqualValues(t, ndtest.HugeExtent-1, places[0].Size())
		for _, from := range []int64{0, 990, 1<<31 - 10, 1<<32 - 10, ndtest.HugeExtent - 21} {
			for i, place := range ndtest.HostOf[int64](t, index(t, places[0], ndview.Span(from, from+20))) {
				k := from + int64(i)
				require.Equal(t, k+int64(ndtest.Truth(k >= 1000)), place)
			}
		}
		block := ndtest.Pattern()
		a := ndtest.Periodic(t, dev, block, ndtest.HugeExtent)
		taken, err := ndview.Take(a, places[0], 0, ndview.ModeRaise)
		ndtest.Own(t, taken, err)
		ndtest.RequirePeriodic(t, block, index(t, taken, ndview.Span(0, 1000)))
		ndtest.RequirePeriodic(t, ndtest.Rotated(block, 1001), index(t, taken, ndview.Span(1000, ndview.Open)))
	})
}

// TestChosenColumnsReachBeyond32Bits selects all columns of a matrix in reverse, by
// index.
func TestChosenColumnsReachBeyond32Bits(t *testing.T) {
	ndtest.OnHuge(t, 9, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.View(t)(ndtest.Periodic(t, dev, ndtest.Pattern(), ndtest.HugeExtent).Reshape(ndtest.HugeRows, ndtest.HugeColumns))
		numbers := make([]int64, ndtest.HugeColumns)
		for i := range numbers {
			numbers[i] = -1 - int64(i)
		}
		columns := ndtest.FromHost(t, dev, ndview.Int64, numbers, ndtest.HugeColumns)
		backwards := index(t, a, ndview.All, ndview.SpanStep(ndview.Open, ndview.Open, -1))
		equal := func(t *testing.T, got *ndview.NDBuffer) {
			t.Helper()
			same, err := got.Equal(backwards)
			require.NoError(t, err)
			assert.True(t, same)
		}
		t.Run("Take", func(t *testing.T) {
			got, err := ndview.Take(a, columns, 1, ndview.ModeRaise)
			equal(t, ndtest.Own(t, got, err))
		})
		t.Run("Set", func(t *testing.T) {
			zeros, err := ndview.Zeros(dev, ndview.Uint8, ndtest.HugeRows, ndtest.HugeColumns)
			ndtest.Own(t, zeros, err)
			require.NoError(t, zeros.Set(a, ndview.All, ndview.IntArray(columns)))
			equal(t, zeros)
		})
	})
}

// TestPutReachesBeyond32Bits writes more than 2^32 values, of which the last per row
// remains.
func TestPutReachesBeyond32Bits(t *testing.T) {
	block := ndtest.Pattern()
	ndtest.OnHuge(t, 60, func(t *testing.T, dev arrowbuf.Device) {
		values := ndtest.Periodic(t, dev, block, ndtest.HugeExtent)
		numbers, want := make([]int64, ndtest.HugeRows), make([]byte, ndtest.HugeRows)
		for i := range numbers {
			numbers[i], want[i] = int64(i), block[(i*ndtest.HugeColumns+ndtest.HugeColumns-1)%ndtest.Period]
		}
		rows := ndtest.View(t)(ndtest.FromHost(t, dev, ndview.Int64, numbers, ndtest.HugeRows, 1).BroadcastTo(ndtest.HugeRows, ndtest.HugeColumns))
		last := ndtest.FromHost(t, dev, ndview.Uint8, make([]byte, ndtest.HugeRows), ndtest.HugeRows)
		require.NoError(t, ndview.Put(last, rows, values, ndview.ModeRaise))
		ndtest.RequireBytes(t, want, ndtest.Elements(t, last))
	})
}

// TestChosenRowsReachBeyond32Bits uses a few indices and rows beyond 2^32.
func TestChosenRowsReachBeyond32Bits(t *testing.T) {
	block := ndtest.Pattern()
	ndtest.OnHuge(t, 6, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.Periodic(t, dev, block, ndtest.HugeExtent)
		truths := make([]bool, ndtest.HugeExtent/1001)
		truths[5], truths[1<<32/1001], truths[1<<32/1001+1], truths[len(truths)-1] = true, true, true, true
		rows := ndtest.View(t)(index(t, a, ndview.Span(0, int64(len(truths))*1001)).Reshape(int64(len(truths)), 1001))
		numbers := []int64{5, 1 << 32 / 1001, 1<<32/1001 + 1, int64(len(truths)) - 1}
		var want []byte
		for _, row := range numbers {
			want = append(want, ndtest.Rotated(block, row*1001)[:1001]...)
		}
		mask := ndtest.FromHost(t, dev, ndview.Bool, truths, int64(len(truths)))
		for name, get := range map[string]func() (*ndview.NDBuffer, error){
			"a mask of rows": func() (*ndview.NDBuffer, error) { return rows.Get(ndview.Mask(mask)) },
			"Compress":       func() (*ndview.NDBuffer, error) { return ndview.Compress(mask, rows, 0) },
			"indices":        func() (*ndview.NDBuffer, error) { return rows.Get(ndview.Ints(numbers...)) },
			"Take of int32": func() (*ndview.NDBuffer, error) {
				narrow := ndtest.FromHost(t, dev, ndview.Int32, []int32{5, 1 << 32 / 1001, 1<<32/1001 + 1, -1}, 4)
				return ndview.Take(rows, narrow, 0, ndview.ModeRaise)
			},
			"Take of columns": func() (*ndview.NDBuffer, error) {
				transposed := ndtest.View(t)(rows.Transpose())
				few, err := ndview.Take(transposed, ndtest.FromHost(t, dev, ndview.Int64, numbers, 4), 1, ndview.ModeRaise)
				return ndtest.Own(t, few, err).Transpose()
			},
		} {
			t.Run(name, func(t *testing.T) {
				got, err := get()
				ndtest.RequireBytes(t, want, ndtest.Elements(t, ndtest.Own(t, got, err)))
			})
		}
		last := ndtest.FromHost(t, dev, ndview.Int32, []int32{-1, 0}, 2)
		require.NoError(t, rows.Set([]uint8{1, 2}, ndview.IntArray(last), ndview.At(1000)))
		at32 := int64(len(truths))*1001 - 1
		assert.Equal(t, []byte{1}, ndtest.Elements(t, ndtest.At(t, a.Buffer(), ndview.Uint8, at32, 1)))
		assert.Equal(t, []byte{2}, ndtest.Elements(t, ndtest.At(t, a.Buffer(), ndview.Uint8, 1000, 1)))
	})
}
