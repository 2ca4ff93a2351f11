package ndview_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A mask by which more than 2^32 elements are chosen: all but each 16th.
func TestMasksReachBeyond32Bits(t *testing.T) {
	block := pattern()
	onHuge(t, 10, func(t *testing.T, dev arrowbuf.Device) {
		const n = hugeExtent / 15 * 16 // of which more than 2^32 stay
		a := periodic(t, dev, block, n)
		mask := view(t)(periodic(t, dev, bytes.Repeat(append(bytes.Repeat([]byte{1}, 15), 0), 1<<16), n).View(ndview.Bool))
		require.Greater(t, int64(n/16*15), int64(1<<32))
		var kept []byte
		for i, b := range block {
			if i%16 != 15 {
				kept = append(kept, b)
			}
		}
		chosen := func(value int) []byte {
			return mapped(period, func(i int) byte { return [2]byte{block[i], byte(value)}[truth(i%16 != 15)] })
		}
		for name, get := range map[string]func() (*ndview.NDBuffer, error){
			"Get":      func() (*ndview.NDBuffer, error) { return a.Get(ndview.Mask(mask)) },
			"Compress": func() (*ndview.NDBuffer, error) { return ndview.Compress(mask, a, 0) },
		} {
			t.Run(name, func(t *testing.T) {
				if dev == arrowbuf.CPU() {
					needHost(t, 14)
				}
				got, err := get()
				requirePeriodic(t, kept, own(t, got, err))
				require.NoError(t, a.Set(7, ndview.Mask(mask)))
				require.NoError(t, a.Set(got, ndview.Mask(mask)))
				requirePeriodic(t, block, a)
			})
		}
		require.NoError(t, a.Set(7, ndview.Mask(mask)))
		requirePeriodic(t, chosen(7), a)
		require.NoError(t, a.FillWhere(mask, 0x0909090909090909))
		requirePeriodic(t, chosen(9), a)
	})
}

// Places of elements as numbers, more than 2^32 of them.
func TestPlacesReachBeyond32Bits(t *testing.T) {
	onHuge(t, 60, func(t *testing.T, dev arrowbuf.Device) {
		full, err := ndview.Full(dev, ndview.Bool, true, hugeExtent)
		mask := own(t, full, err)
		_, err = mask.Buffer().CopyFromHost([]byte{0}, 1000)
		require.NoError(t, err)
		places, err := ndview.NonZero(mask)
		require.NoError(t, err)
		own(t, places[0], nil)
		require.EqualValues(t, hugeExtent-1, places[0].Size())
		for _, from := range []int64{0, 990, 1<<31 - 10, 1<<32 - 10, hugeExtent - 21} {
			for i, place := range hostOf[int64](t, index(t, places[0], ndview.Span(from, from+20))) {
				k := from + int64(i)
				require.Equal(t, k+int64(truth(k >= 1000)), place)
			}
		}
		block := pattern()
		a := periodic(t, dev, block, hugeExtent)
		taken, err := ndview.Take(a, places[0], 0, ndview.ModeRaise)
		own(t, taken, err)
		requirePeriodic(t, block, index(t, taken, ndview.Span(0, 1000)))
		requirePeriodic(t, rotated(block, 1001), index(t, taken, ndview.Span(1000, ndview.Open)))
	})
}

// All columns of a matrix, backwards, by their numbers.
func TestChosenColumnsReachBeyond32Bits(t *testing.T) {
	onHuge(t, 9, func(t *testing.T, dev arrowbuf.Device) {
		a := view(t)(periodic(t, dev, pattern(), hugeExtent).Reshape(hugeRows, hugeColumns))
		numbers := make([]int64, hugeColumns)
		for i := range numbers {
			numbers[i] = -1 - int64(i)
		}
		columns := fromHost(t, dev, ndview.Int64, numbers, hugeColumns)
		backwards := index(t, a, ndview.All, ndview.SpanStep(ndview.Open, ndview.Open, -1))
		equal := func(t *testing.T, got *ndview.NDBuffer) {
			t.Helper()
			same, err := got.Equal(backwards)
			require.NoError(t, err)
			assert.True(t, same)
		}
		t.Run("Take", func(t *testing.T) {
			got, err := ndview.Take(a, columns, 1, ndview.ModeRaise)
			equal(t, own(t, got, err))
		})
		t.Run("Set", func(t *testing.T) {
			zeros, err := ndview.Zeros(dev, ndview.Uint8, hugeRows, hugeColumns)
			own(t, zeros, err)
			require.NoError(t, zeros.Set(a, ndview.All, ndview.IntArray(columns)))
			equal(t, zeros)
		})
	})
}

// More than 2^32 values, of which the last of each row stays.
func TestPutReachesBeyond32Bits(t *testing.T) {
	block := pattern()
	onHuge(t, 60, func(t *testing.T, dev arrowbuf.Device) {
		values := periodic(t, dev, block, hugeExtent)
		numbers, want := make([]int64, hugeRows), make([]byte, hugeRows)
		for i := range numbers {
			numbers[i], want[i] = int64(i), block[(i*hugeColumns+hugeColumns-1)%period]
		}
		rows := view(t)(fromHost(t, dev, ndview.Int64, numbers, hugeRows, 1).BroadcastTo(hugeRows, hugeColumns))
		last := fromHost(t, dev, ndview.Uint8, make([]byte, hugeRows), hugeRows)
		require.NoError(t, ndview.Put(last, rows, values, ndview.ModeRaise))
		requireBytes(t, want, elements(t, last))
	})
}

// Indices and rows beyond 2^32, few of them.
func TestChosenRowsReachBeyond32Bits(t *testing.T) {
	block := pattern()
	onHuge(t, 6, func(t *testing.T, dev arrowbuf.Device) {
		a := periodic(t, dev, block, hugeExtent)
		truths := make([]bool, hugeExtent/1001)
		truths[5], truths[1<<32/1001], truths[1<<32/1001+1], truths[len(truths)-1] = true, true, true, true
		rows := view(t)(index(t, a, ndview.Span(0, int64(len(truths))*1001)).Reshape(int64(len(truths)), 1001))
		numbers := []int64{5, 1 << 32 / 1001, 1<<32/1001 + 1, int64(len(truths)) - 1}
		var want []byte
		for _, row := range numbers {
			want = append(want, rotated(block, row*1001)[:1001]...)
		}
		mask := fromHost(t, dev, ndview.Bool, truths, int64(len(truths)))
		for name, get := range map[string]func() (*ndview.NDBuffer, error){
			"a mask of rows": func() (*ndview.NDBuffer, error) { return rows.Get(ndview.Mask(mask)) },
			"Compress":       func() (*ndview.NDBuffer, error) { return ndview.Compress(mask, rows, 0) },
			"indices":        func() (*ndview.NDBuffer, error) { return rows.Get(ndview.Ints(numbers...)) },
			"Take of int32": func() (*ndview.NDBuffer, error) {
				narrow := fromHost(t, dev, ndview.Int32, []int32{5, 1 << 32 / 1001, 1<<32/1001 + 1, -1}, 4)
				return ndview.Take(rows, narrow, 0, ndview.ModeRaise)
			},
			"Take of columns": func() (*ndview.NDBuffer, error) {
				turned := view(t)(rows.Transpose())
				few, err := ndview.Take(turned, fromHost(t, dev, ndview.Int64, numbers, 4), 1, ndview.ModeRaise)
				return own(t, few, err).Transpose()
			},
		} {
			t.Run(name, func(t *testing.T) {
				got, err := get()
				requireBytes(t, want, elements(t, own(t, got, err)))
			})
		}
		last := fromHost(t, dev, ndview.Int32, []int32{-1, 0}, 2)
		require.NoError(t, rows.Set([]uint8{1, 2}, ndview.IntArray(last), ndview.At(1000)))
		at32 := int64(len(truths))*1001 - 1
		assert.Equal(t, []byte{1}, elements(t, at(t, a.Buffer(), ndview.Uint8, at32, 1)))
		assert.Equal(t, []byte{2}, elements(t, at(t, a.Buffer(), ndview.Uint8, 1000, 1)))
	})
}

// Arrays that differ in one place, or in none.
func TestComparisonsReachBeyond32Bits(t *testing.T) {
	block := pattern()
	block[0] |= 1
	onHuge(t, 9, func(t *testing.T, dev arrowbuf.Device) {
		a, b := periodic(t, dev, block, hugeExtent), periodic(t, dev, block, hugeExtent+1)
		same := index(t, b, ndview.Span(0, -1))
		change := func(place int64) {
			var one [1]byte
			_, err := b.Buffer().CopyToHost(one[:], place)
			require.NoError(t, err)
			one[0] ^= 1
			_, err = b.Buffer().CopyFromHost(one[:], place)
			require.NoError(t, err)
		}
		back := ndview.SpanStep(ndview.Open, ndview.Open, -1)
		equal := map[string]func() (bool, error){
			"AllEqual": func() (bool, error) { return a.AllEqual(same, false) },
			"Equal":    func() (bool, error) { return a.Equal(same) },
			"AllEqual, unaligned": func() (bool, error) {
				return index(t, a, ndview.Span(1, ndview.Open)).AllEqual(index(t, same, ndview.Span(1, ndview.Open)), true)
			},
			"Equal backwards":   func() (bool, error) { return index(t, a, back).Equal(index(t, same, back)) },
			"AllEqual as int16": func() (bool, error) { return asInt16(t, a).AllEqual(asInt16(t, same), false) },
			"AllEqual every second": func() (bool, error) {
				every := ndview.SpanStep(-1, ndview.Open, -2)
				return index(t, a, every).AllEqual(index(t, same, every), false)
			},
		}
		for name, f := range equal {
			t.Run(name, func(t *testing.T) {
				got, err := f()
				require.NoError(t, err)
				assert.True(t, got)
				for _, place := range []int64{1 << 31, 1 << 32, hugeExtent - 1, hugeExtent - 3} { // even ones, counted from the end
					if name == "AllEqual as int16" && place == hugeExtent-1 {
						continue
					}
					if (hugeExtent-1-place)%2 != 0 {
						place++
					}
					change(place)
					got, err := f()
					require.NoError(t, err)
					assert.False(t, got, "only byte %d differs", place)
					change(place)
				}
			})
		}
	})
}

// asInt16 looks at pairs of bytes.
func asInt16(t *testing.T, a *ndview.NDBuffer) *ndview.NDBuffer {
	t.Helper()
	return view(t)(index(t, a, ndview.Span(0, a.Size()&^1)).View(ndview.Int16))
}

// One value, and its only exception.
func TestComparisonsWithAValueReachBeyond32Bits(t *testing.T) {
	onHuge(t, 5, func(t *testing.T, dev arrowbuf.Device) {
		zeros, err := ndview.Zeros(dev, ndview.Uint8, hugeExtent)
		a := own(t, zeros, err)
		floats := view(t)(index(t, a, ndview.Span(0, hugeExtent&^3)).View(ndview.Float32))
		row := fromHost(t, dev, ndview.Uint8, make([]uint8, hugeColumns), hugeColumns)
		wide := fromHost(t, dev, ndview.Int16, make([]int16, hugeColumns), hugeColumns)
		matrix := view(t)(a.Reshape(hugeRows, hugeColumns))
		equal := map[string]func() (bool, error){
			"a byte":         func() (bool, error) { return a.AllEqual(0, false) },
			"a float":        func() (bool, error) { return a.AllEqual(0.0, false) },
			"zero of floats": func() (bool, error) { return floats.AllEqual(float32(0), true) },
			"backwards": func() (bool, error) {
				return index(t, a, ndview.SpanStep(ndview.Open, ndview.Open, -1)).AllEqual(0, false)
			},
			"a row": func() (bool, error) { return matrix.AllEqual(row, false) },
		}
		if dev != arrowbuf.CPU() { // which takes minutes
			equal["a row of int16"] = func() (bool, error) { return matrix.AllEqual(wide, false) }
		}
		for name, f := range equal {
			t.Run(name, func(t *testing.T) {
				got, err := f()
				require.NoError(t, err)
				assert.True(t, got)
				for _, place := range []int64{1 << 31, 1<<32 - 1, 1 << 32, hugeExtent&^3 - 1} {
					require.NoError(t, a.Set(64, ndview.At(place)))
					got, err := f()
					require.NoError(t, err)
					assert.False(t, got, "only element %d differs", place)
					require.NoError(t, a.Set(0, ndview.At(place)))
				}
			})
		}
	})
}

// Views whose elements lie beyond 2^32, copied.
func TestCopiesReachBeyond32Bits(t *testing.T) {
	block := pattern()
	every := func(step, first int64) []byte { // of the elements from first on
		return mapped(period, func(i int) byte { return block[((first+int64(i)*step)%period+period)%period] })
	}
	onHuge(t, 9, func(t *testing.T, dev arrowbuf.Device) {
		a := periodic(t, dev, block, hugeExtent)
		for name, tt := range map[string]struct {
			start, stop, step int64
			want              []byte
		}{
			"from 3":           {3, ndview.Open, 1, every(1, 3)},
			"backwards":        {ndview.Open, ndview.Open, -1, every(-1, hugeExtent-1)},
			"every second":     {1, ndview.Open, 2, every(2, 1)},
			"every third back": {-2, ndview.Open, -3, every(-3, hugeExtent-2)},
			"each 70,001st":    {0, ndview.Open, 70_001, every(70_001, 0)},
		} {
			t.Run(name, func(t *testing.T) {
				c, err := index(t, a, ndview.SpanStep(tt.start, tt.stop, tt.step)).Copy(ndview.OrderC)
				requirePeriodic(t, tt.want, own(t, c, err))
			})
		}
		for name, shape := range map[string][]int64{
			"a matrix":       {hugeRows, hugeColumns},
			"three columns":  {hugeExtent / 3, 3},
			"three rows":     {3, hugeExtent / 3},
			"sixteen":        {16, hugeExtent / 16},
			"three axes":     {1541, 1630, 1710},
			"slim matrices":  {hugeExtent / 35, 5, 7},
			"far axes apart": {2, 3, hugeExtent / 30, 5},
		} {
			t.Run(name, func(t *testing.T) {
				cube := view(t)(index(t, a, ndview.Span(0, product(shape))).Reshape(shape...))
				turned := view(t)(cube.Transpose())
				c, err := turned.Copy(ndview.OrderC)
				requireTurned(t, block, own(t, c, err))
				assert.NoError(t, c.CopyFrom(view(t)(cube.Reshape(turned.Shape()...))))
				requirePeriodic(t, block, c)
			})
		}
	})
}

// requireTurned checks stretches of an array that is the copy of a pattern with its
// axes turned around.
func requireTurned(t *testing.T, block []byte, c *ndview.NDBuffer) {
	t.Helper()
	shape, n := c.Shape(), c.Size()
	for _, from := range []int64{0, 1<<31 - 5000, 1<<32 - 5000, n - 10_000, n / 3, n / 5, n / 7 * 6} {
		got := elements(t, at(t, c.Buffer(), ndview.Uint8, from, 10_000))
		for i := range got {
			place, rest, step := int64(0), from+int64(i), n // in the pattern
			for k := len(shape) - 1; k >= 0; k-- {
				step /= shape[k]
				place += rest % shape[k] * step
				rest /= shape[k]
			}
			require.Equal(t, block[place%period], got[i], "element %d of %v", from+int64(i), shape)
		}
	}
}

// Writing to views of which only some elements lie beyond 2^32, or all.
func TestWritesReachBeyond32Bits(t *testing.T) {
	onHuge(t, 9, func(t *testing.T, dev arrowbuf.Device) {
		made, err := ndview.Empty(dev, ndview.Uint8, hugeExtent)
		a := own(t, made, err)
		same := func(t *testing.T, a *ndview.NDBuffer, value int) {
			t.Helper()
			is, err := a.AllEqual(value, false)
			require.NoError(t, err)
			require.True(t, is)
		}
		// only checks that a has some bytes from a place on, and 0 elsewhere.
		only := func(t *testing.T, from int64, bytes []byte) {
			t.Helper()
			end := from + int64(len(bytes))
			same(t, index(t, a, ndview.Span(0, from)), 0)
			requireBytes(t, bytes, elements(t, index(t, a, ndview.Span(from, end))))
			same(t, index(t, a, ndview.Span(end, hugeExtent)), 0)
		}
		require.NoError(t, a.Fill(10))
		same(t, a, 10)
		require.NoError(t, a.Zero())
		same(t, a, 0)

		values := pattern()[:8000]
		for name, write := range map[string]func(from int64) error{
			"Set a slice":   func(from int64) error { return a.Set(values, ndview.Span(from, from+8000)) },
			"Assign casts":  func(from int64) error { return assignInt16(index(t, a, ndview.Span(from, from+8000)), values) },
			"CopyFromHost":  func(from int64) error { return index(t, a, ndview.Span(from, from+8000)).CopyFromHost(values) },
			"Set backwards": func(from int64) error { return a.Set(reversed(values), ndview.SpanStep(from+7999, from-1, -1)) },
		} {
			for _, from := range []int64{1<<31 - 4000, 1<<32 - 4000, hugeExtent - 8000} {
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
			only(t, from, bytes.Repeat([]byte{9}, hugeExtent-from))
			require.NoError(t, a.Zero())
		})
		t.Run("Fill every second, backwards", func(t *testing.T) {
			require.NoError(t, index(t, a, ndview.SpanStep(-1, ndview.Open, -2)).Fill(7))
			requirePeriodic(t, bytes.Repeat([]byte{7, 0}, 8), a)
		})
		t.Run("CopyFrom", func(t *testing.T) {
			block := pattern()
			src := periodic(t, dev, block, hugeExtent)
			require.NoError(t, index(t, a, ndview.SpanStep(ndview.Open, ndview.Open, -1)).CopyFrom(src))
			requirePeriodic(t, rotated(reversed(block), -hugeExtent%period), a)
			require.NoError(t, index(t, a, ndview.SpanStep(ndview.Open, ndview.Open, 2)).CopyFrom(index(t, src, ndview.Span(0, (hugeExtent+1)/2))))
			want := rotated(reversed(block), -hugeExtent%period)
			requirePeriodic(t, mapped(2*period, func(i int) byte { return [2]byte{block[i/2], want[i%period]}[i%2] }), a)
		})
	})
}

// assignInt16 assigns bytes by way of a cast.
func assignInt16(a *ndview.NDBuffer, values []byte) error {
	wide := make([]int16, len(values))
	for i, v := range values {
		wide[i] = int16(v) - 256
	}
	return a.Assign(wide)
}

// TestJoinsReachBeyond32Bits joins halves, and takes apart what it made.
func TestJoinsReachBeyond32Bits(t *testing.T) {
	block := pattern()
	onHuge(t, 9, func(t *testing.T, dev arrowbuf.Device) {
		const half = 1<<31 + 2049
		p := periodic(t, dev, block, half)
		q := periodic(t, dev, rotated(block, 100), half)
		pairs := mapped(2*period, func(i int) byte { return block[(i/2+i%2*100)%period] })
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
				joined := own(t, got, err)
				if tt.want != nil {
					requirePeriodic(t, pairs, joined)
					return
				}
				flat := view(t)(joined.Reshape(2 * half))
				requirePeriodic(t, block, view(t)(flat.Slice(0, 0, half)))
				requirePeriodic(t, rotated(block, 100), view(t)(flat.Slice(0, half, 2*half)))
				parts, err := ndview.ArraySplit(flat, 3, 0)
				require.NoError(t, err)
				start := int64(0)
				for i, part := range parts {
					own(t, part, nil)
					if i == 2 {
						requirePeriodic(t, rotated(block, 100+start-half), part)
					}
					start += part.Size()
				}
				assert.EqualValues(t, 2*half, start)
			})
		}
	})
}

// TestTrianglesReachBeyond32Bits puts both triangles together again.
func TestTrianglesReachBeyond32Bits(t *testing.T) {
	block := mapped(period, func(i int) byte { return byte(i*7919>>8) | 1 })
	onHuge(t, 9, func(t *testing.T, dev arrowbuf.Device) {
		const rows = 65_800
		for name, columns := range map[string]int64{"whole vectors": 65_552, "no whole vectors": 65_551} {
			t.Run(name, func(t *testing.T) {
				const k = -100 // the diagonal
				a := view(t)(periodic(t, dev, block, rows*columns).Reshape(rows, columns))
				lower, err := a.Tril(k)
				own(t, lower, err)
				require.NoError(t, a.TriuInPlace(k+1))
				edges := make([]int64, rows)
				for i := range edges {
					edges[i] = min(max(int64(i)+k+1, 0), columns)
				}
				ofRows := func(r ndview.Reduction, a *ndview.NDBuffer) []int64 {
					got, err := r.Of(a, ndview.ReduceOptions{Axes: []int{1}})
					return hostOf[int64](t, own(t, got, err))
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
				requirePeriodic(t, block, a)
			})
		}
	})
}

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
