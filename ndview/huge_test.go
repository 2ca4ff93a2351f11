package ndview_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Arrays of more than 2^32 elements, in memory of that size: on a GPU where the
// environment asks for one, and on the CPU where QUIVER_TEST_HUGE says how many GiB
// of the host's memory tests may take.

// hugeExtent is what 32 bits do not count and no vector divides, and makes a matrix:
// 2^32 + 262,147.
const (
	hugeRows, hugeColumns = 65_537, 65_539
	hugeExtent            = hugeRows * hugeColumns
)

// onHuge runs a test on devices that have so many GiB.
func onHuge(t *testing.T, gib int64, test func(t *testing.T, dev arrowbuf.Device)) {
	t.Helper()
	t.Run("cpu", func(t *testing.T) {
		needHost(t, gib)
		test(t, arrowbuf.CPU())
	})
	onHugeCUDA(t, gib, func(t *testing.T, dev *cudabuf.Device) { test(t, dev) })
}

// needHost skips a test that wants more of the host's memory than it may take.
func needHost(t *testing.T, gib int64) {
	t.Helper()
	if most, _ := strconv.ParseInt(os.Getenv("QUIVER_TEST_HUGE"), 10, 64); most < gib {
		t.Skipf("it takes %d GiB of the host's memory: set QUIVER_TEST_HUGE=%d", gib, gib)
	}
	before := debug.SetMemoryLimit(gib << 30) // so that what was released is collected in time
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
}

func onHugeCUDA(t *testing.T, gib int64, test func(t *testing.T, dev *cudabuf.Device)) {
	t.Helper()
	t.Run("gpu", func(t *testing.T) {
		if !cudatest.OnGPU() {
			t.Skipf("it takes %d GiB of a GPU's memory: set %s=cuda", gib, cudatest.Environment)
		}
		onCUDA(t, func(t *testing.T, dev *cudabuf.Device) {
			if free, _, err := dev.MemInfo(); err != nil || free < gib<<30 {
				t.Skipf("it takes %d GiB of the device's memory, of which %d bytes are free (%v)", gib, free, err)
			}
			test(t, dev)
		})
	})
}

// period is that of the bytes of a pattern: all sizes of elements divide it, and
// no power of 2 is a multiple, so that elements which low bits of a place confuse
// differ.
const period = 16 * 1048573

// pattern is one period of random bytes.
func pattern() []byte {
	block := make([]byte, period)
	_, _ = rand.NewChaCha8([32]byte{4}).Read(block)
	return block
}

// periodic is an array of n bytes with a block over and over.
func periodic(t *testing.T, dev arrowbuf.Device, block []byte, n int64) *ndview.NDBuffer {
	t.Helper()
	made, err := ndview.Empty(dev, ndview.Uint8, n)
	a := own(t, made, err)
	done, err := a.Buffer().CopyFromHost(block[:min(int64(len(block)), n)], 0)
	for ; err == nil && done < n; done *= 2 {
		var before arrowbuf.Buffer
		if before, err = a.Buffer().Slice(0, min(done, n-done)); err == nil {
			_, err = a.Buffer().CopyFromDevice(before, done)
			before.Release()
		}
	}
	require.NoError(t, err)
	return a
}

// requirePeriodic checks that the bytes of an array without gaps are a block over and
// over: the first on the host, and on the device that all others are as those before.
func requirePeriodic(t *testing.T, block []byte, a *ndview.NDBuffer) {
	t.Helper()
	require.True(t, a.IsContiguous())
	n := a.NBytes()
	period := min(int64(len(block)), n)
	first, before, behind := at(t, a.Buffer(), ndview.Uint8, a.Offset(), period),
		at(t, a.Buffer(), ndview.Uint8, a.Offset(), n-period), at(t, a.Buffer(), ndview.Uint8, a.Offset()+period, n-period)
	requireBytes(t, block[:period], elements(t, first))
	same, err := before.Equal(behind)
	require.NoError(t, err)
	if !same {
		differ, err := ndview.NotEqual.Of(before, behind)
		where, err2 := ndview.ArgMax.Of(own(t, differ, err), ndview.ReduceOptions{})
		require.Failf(t, "bytes differ", "at %d of %d", hostOf[int64](t, own(t, where, err2))[0]+period, n)
	}
}

// mapped is a block of what a function makes of each byte's place.
func mapped(n int, f func(i int) byte) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = f(i)
	}
	return out
}

// rotated is a block that begins with byte by.
func rotated(block []byte, by int64) []byte {
	n := int64(len(block))
	by = (by%n + n) % n
	return append(bytes.Clone(block[by:]), block[:by]...)
}

// reversed is a block backwards.
func reversed(block []byte) []byte {
	return mapped(len(block), func(i int) byte { return block[len(block)-1-i] })
}

// byte of a truth.
func truth(is bool) byte {
	if is {
		return 1
	}
	return 0
}

// All of a huge array goes to a device and comes back, and parts of it.
func TestHostCopiesReachBeyond32Bits(t *testing.T) {
	block := pattern()
	onHuge(t, 9, func(t *testing.T, dev arrowbuf.Device) {
		data := bytes.Repeat(block, hugeExtent/period+1)[:hugeExtent]
		a := fromHost(t, dev, ndview.Uint8, data, hugeRows, hugeColumns)
		requirePeriodic(t, block, a)
		clear(data)
		require.NoError(t, a.CopyToHost(data))
		for at := 0; at < hugeExtent; at += period {
			require.True(t, bytes.Equal(block[:min(period, hugeExtent-at)], data[at:min(at+period, hugeExtent)]), "from byte %d", at)
		}
		flat, err := a.Ravel(ndview.OrderC)
		own(t, flat, err)
		for _, from := range []int64{1<<31 - 50, 1<<32 - 50, hugeExtent - 100} {
			part := index(t, flat, ndview.Span(from, from+100))
			want := rotated(block, from)[:100]
			got, err := part.Bytes()
			require.NoError(t, err)
			assert.Equal(t, want, got)
			back, err := ndview.ToHost[uint8](index(t, part, ndview.SpanStep(ndview.Open, ndview.Open, -3)))
			require.NoError(t, err)
			for i, v := range back {
				assert.Equal(t, want[99-3*i], v)
			}
		}
		column, err := ndview.ToHost[uint8](index(t, a, ndview.All, ndview.At(7)))
		require.NoError(t, err)
		for i, v := range column {
			require.Equal(t, block[(i*hugeColumns+7)%period], v, "row %d", i)
		}
		last, err := index(t, a, ndview.At(-1), ndview.At(-1)).Item()
		require.NoError(t, err)
		assert.EqualValues(t, block[(hugeExtent-1)%period], last.Value())

		require.NoError(t, a.Zero())
		for i, v := range []byte{1, 2, 3, 4, 5, 6} {
			row, column := int64(i/3), int64(i%3)
			require.NoError(t, a.Set(v, ndview.At(-1-row), ndview.At(-1-column)))
		}
		assert.Equal(t, "[[0 0 0 ... 0 0 0]\n [0 0 0 ... 0 0 0]\n [0 0 0 ... 0 0 0]\n ...\n [0 0 0 ... 0 0 0]\n [0 0 0 ... 6 5 4]\n [0 0 0 ... 3 2 1]]", a.String())
		assert.Equal(t, "[0 0 0 ... 3 2 1]", flat.String())
	})
}

// A column of more than 2^32 rows, of which few are missing.
func TestArrowColumnsReachBeyond32Bits(t *testing.T) {
	block := pattern()
	onHuge(t, 10, func(t *testing.T, dev arrowbuf.Device) {
		a := periodic(t, dev, block, hugeExtent)
		missing := []int64{1 << 31, 1<<32 - 1, 1<<32 + 7, hugeExtent - 1}
		bitmap := upload(t, dev, bytes.Repeat([]byte{0xff}, hugeExtent/8+1))
		for _, row := range missing {
			_, err := bitmap.CopyFromHost([]byte{0xff &^ (1 << (row % 8))}, row/8)
			require.NoError(t, err)
		}
		validity, values := bitmap.Arrow(), a.Buffer().Arrow()
		defer validity.Release()
		defer values.Release()

		t.Run("numbers", func(t *testing.T) {
			data := array.NewData(arrow.PrimitiveTypes.Uint8, hugeExtent, []*memory.Buffer{nil, values}, nil, 0, 0)
			defer data.Release()
			column := own(t, arrowbuf.NewArray(data), nil)
			shown := view(t)(ndview.FromArrow(column))
			require.Equal(t, []int64{hugeExtent}, shown.Shape())
			assert.Equal(t, a.Buffer().Address(), shown.Buffer().Address())
			tail := own(t, arrowbuf.NewSlice(column, 1<<32-5, hugeExtent), nil)
			requirePeriodic(t, rotated(block, 1<<32-5), view(t)(ndview.FromArrow(tail)))

			made, err := ndview.ToArrow(shown, ndview.ArrowOptions{})
			require.NoError(t, err)
			defer made.Release()
			assert.Equal(t, hugeExtent, made.Len())
			assert.Zero(t, made.NullN())
		})
		t.Run("missing ones", func(t *testing.T) {
			data := array.NewData(arrow.PrimitiveTypes.Uint8, hugeExtent, []*memory.Buffer{validity, values}, nil, array.UnknownNullCount, 0)
			defer data.Release()
			column := own(t, arrowbuf.NewArray(data), nil)
			assert.Equal(t, len(missing), column.NullN())
			shown, mask, err := ndview.FromArrowMasked(column)
			own(t, shown, err)
			where, err := ndview.ArgWhere(own(t, mask, nil))
			assert.Equal(t, raw(missing...), elements(t, own(t, where, err)))
			made, err := ndview.ToArrow(shown, ndview.ArrowOptions{Mask: mask})
			require.NoError(t, err)
			defer made.Release()
			assert.Equal(t, len(missing), made.NullN())
			assert.True(t, made.IsNull(1<<32+7))
			assert.False(t, made.IsNull(1<<32+6))
			assert.False(t, made.IsNull(7))
		})
		t.Run("truths", func(t *testing.T) {
			data := array.NewData(arrow.FixedWidthTypes.Boolean, hugeExtent, []*memory.Buffer{nil, validity}, nil, 0, 0)
			defer data.Release()
			shown := view(t)(ndview.FromArrow(own(t, arrowbuf.NewArray(data), nil)))
			not, err := ndview.LogicalNot.Of(shown)
			where, err2 := ndview.ArgWhere(own(t, not, err))
			assert.Equal(t, raw(missing...), elements(t, own(t, where, err2)))
			made, err := ndview.ToArrow(shown, ndview.ArrowOptions{})
			require.NoError(t, err)
			defer made.Release()
			bits, err := arrowbuf.BufferOf(made.Data().Buffers()[1])
			own(t, bits, err)
			same, err := at(t, bits, ndview.Uint8, 0, hugeExtent/8).Equal(at(t, bitmap, ndview.Uint8, 0, hugeExtent/8))
			require.NoError(t, err)
			assert.True(t, same)
		})
	})
}

// sparse is an array of bytes that are all the same but for some.
type sparse struct {
	base  byte
	marks map[int64]byte
}

// marked has a base of 0 or 1, and larger bytes at the places that 32 bits confuse
// and at random ones; of a base of 1 some are 0.
func marked(base byte, n int64) sparse {
	s := sparse{base, map[int64]byte{}}
	rng := rand.New(rand.NewPCG(uint64(base), 32))
	places := []int64{0, 1, 1<<31 - 1, 1 << 31, 1<<31 + 1, 1<<32 - 1, 1 << 32, 1<<32 + 1, 1<<32 + 4097, n - 2, n - 1}
	for range 600 {
		places = append(places, rng.Int64N(n), n-1-rng.Int64N(200_000))
	}
	for i, place := range places {
		s.marks[place] = byte(2 + rng.IntN(250))
		if base == 1 && i%3 == 0 {
			s.marks[place] = 0
		}
	}
	return s
}

func (s sparse) writeTo(t *testing.T, a *ndview.NDBuffer) {
	t.Helper()
	require.NoError(t, a.Fill(s.base))
	for place, v := range s.marks {
		_, err := a.Buffer().CopyFromHost([]byte{v}, place)
		require.NoError(t, err)
	}
}

func (s sparse) at(i int64) byte {
	if v, ok := s.marks[i]; ok {
		return v
	}
	return s.base
}

// hugeReductions are what tests compare with a model, for one result: of length
// elements of which element j is v(j), and those at places differ from the base.
var hugeReductions = map[string]struct {
	of    ndview.Reduction
	dtype ndview.DType
	base  byte
	want  func(s sparse, length int64, places []int64, v func(j int64) byte) []byte
}{
	"sum": {ndview.Sum, ndview.DType{}, 1, func(s sparse, length int64, places []int64, v func(int64) byte) []byte {
		sum := uint64(length) * uint64(s.base)
		for _, j := range places {
			sum += uint64(v(j)) - uint64(s.base)
		}
		return raw(sum)
	}},
	"sum as float64": {ndview.Sum, ndview.Float64, 1, func(s sparse, length int64, places []int64, v func(int64) byte) []byte {
		sum := float64(length) * float64(s.base)
		for _, j := range places {
			sum += float64(v(j)) - float64(s.base)
		}
		return raw(sum)
	}},
	"max":    {ndview.Max, ndview.DType{}, 0, extremes(func(a, b byte) bool { return a > b }, func(v byte, _ int64) []byte { return raw(v) })},
	"min":    {ndview.Min, ndview.DType{}, 1, extremes(func(a, b byte) bool { return a < b }, func(v byte, _ int64) []byte { return raw(v) })},
	"any":    {ndview.AnyTrue, ndview.DType{}, 0, extremes(func(a, b byte) bool { return a > b }, func(v byte, _ int64) []byte { return raw(v != 0) })},
	"all":    {ndview.AllTrue, ndview.DType{}, 1, extremes(func(a, b byte) bool { return a < b }, func(v byte, _ int64) []byte { return raw(v != 0) })},
	"argmax": {ndview.ArgMax, ndview.DType{}, 0, extremes(func(a, b byte) bool { return a > b }, func(_ byte, j int64) []byte { return raw(j) })},
	"argmin": {ndview.ArgMin, ndview.DType{}, 1, extremes(func(a, b byte) bool { return a < b }, func(_ byte, j int64) []byte { return raw(j) })},
	"count": {ndview.CountNonzero, ndview.DType{}, 1, func(s sparse, length int64, places []int64, v func(int64) byte) []byte {
		n := length
		for _, j := range places {
			n -= int64(1 - truth(v(j) != 0))
		}
		return raw(n)
	}},
}

// extremes gives result the first element that no other is before, and its place.
func extremes(before func(a, b byte) bool, result func(v byte, j int64) []byte) func(sparse, int64, []int64, func(int64) byte) []byte {
	return func(s sparse, length int64, places []int64, v func(int64) byte) []byte {
		first := int64(0) // of the base
		for first < length && slices.Contains(places, first) {
			first++
		}
		best := first
		if first == length {
			best = 0
		}
		for _, j := range places {
			if before(v(j), v(best)) || v(j) == v(best) && j < best {
				best = j
			}
		}
		return result(v(best), best)
	}
}

// TestReductionsReachBeyond32Bits reduces the middle axis of shapes for which kernels
// divide the work in different ways.
func TestReductionsReachBeyond32Bits(t *testing.T) {
	const rows, columns, n = hugeRows, hugeColumns, hugeExtent
	onHuge(t, 9, func(t *testing.T, dev arrowbuf.Device) {
		made, err := ndview.Empty(dev, ndview.Uint8, n)
		a := own(t, made, err)
		for _, base := range []byte{0, 1} {
			s := marked(base, n)
			s.writeTo(t, a)
			for _, shape := range [][3]int64{
				{1, n, 1}, {rows, columns, 1}, {1, rows, columns}, {3, n / 3, 1}, {1, n / 33, 33}, {1, n / 3, 3}, {2, n / 256, 128},
				{n / 1000, 1000, 1}, {n / 33, 33, 1}, {1, 60, n / 60}, {n / 40, 5, 8}, {64, 7, n / 448},
			} {
				part := index(t, a, ndview.Span(0, shape[0]*shape[1]*shape[2]))
				for name, r := range hugeReductions {
					if r.base != base || shape[0]*shape[2] > 1<<28 && name != "max" && name != "all" {
						continue
					}
					t.Run(fmt.Sprint(name, " of ", shape), func(t *testing.T) {
						cube := view(t)(part.Reshape(shape[:]...))
						got, err := r.of.Of(cube, ndview.ReduceOptions{Axes: []int{1}, DType: r.dtype})
						requireReduced(t, s, shape, r.want, own(t, got, err))
					})
				}
			}
		}
	})
}

// Skinny shapes, whose results are large too.
func TestManyResultsReachBeyond32Bits(t *testing.T) {
	onHuge(t, 16, func(t *testing.T, dev arrowbuf.Device) {
		const n = 2*hugeExtent + 2
		made, err := ndview.Empty(dev, ndview.Uint8, n)
		a := own(t, made, err)
		s := marked(0, n)
		for i := range int64(100) {
			s.marks[1<<33-i*i*7] = byte(100 + i)
		}
		s.writeTo(t, a)
		for _, shape := range [][3]int64{{n / 2, 2, 1}, {1, 2, n / 2}, {n / 4, 2, 2}, {n / 4, 4, 1}, {n / 3, 3, 1}, {1, 3, n / 3}, {n / 5, 5, 1}} {
			for _, name := range []string{"max", "any"} {
				t.Run(fmt.Sprint(name, " of ", shape), func(t *testing.T) {
					cube := view(t)(index(t, a, ndview.Span(0, shape[0]*shape[1]*shape[2])).Reshape(shape[:]...))
					got, err := hugeReductions[name].of.Of(cube, ndview.ReduceOptions{Axes: []int{1}})
					requireReduced(t, s, shape, hugeReductions[name].want, own(t, got, err))
				})
			}
		}
	})
}

// requireReduced compares results of reducing the middle axis with a model.
func requireReduced(t *testing.T, s sparse, shape [3]int64, want func(sparse, int64, []int64, func(int64) byte) []byte, got *ndview.NDBuffer) {
	t.Helper()
	places := map[int64][]int64{} // by result
	for place := range s.marks {
		if place < shape[0]*shape[1]*shape[2] {
			result := place/(shape[1]*shape[2])*shape[2] + place%shape[2]
			places[result] = append(places[result], place/shape[2]%shape[1])
		}
	}
	plain := want(s, shape[1], nil, func(int64) byte { return s.base })
	others, results := []byte(nil), slices.Sorted(maps.Keys(places))
	differ := int64(0)
	for _, result := range results {
		v := func(j int64) byte { return s.at((result/shape[2]*shape[1]+j)*shape[2] + result%shape[2]) }
		other := want(s, shape[1], places[result], v)
		others = append(others, other...)
		differ += int64(truth(!bytes.Equal(other, plain)))
	}
	flat := view(t)(got.Reshape(shape[0] * shape[2]))
	marked, err := ndview.Take(flat, fromHost(t, got.Device(), ndview.Int64, results, int64(len(results))), 0, ndview.ModeRaise)
	requireBytes(t, others, elements(t, own(t, marked, err)))
	scalar, err := ndview.NewScalar(got.DType(), plain)
	require.NoError(t, err)
	unlike, err := ndview.NotEqual.Of(flat, scalar)
	count, err2 := ndview.CountNonzero.Of(own(t, unlike, err), ndview.ReduceOptions{})
	require.Equal(t, []int64{differ}, hostOf[int64](t, own(t, count, err2)), "results of elements that are all %d", s.base)
}

// Windows that overlap make an array of more than 2^32 elements of few: element
// [i, j] is number i+j. So every device has the memory.
func TestWindowsReachBeyond32Bits(t *testing.T) {
	const rows, columns, n = hugeRows, hugeColumns, hugeRows + hugeColumns - 1
	windows := func(t *testing.T, dev arrowbuf.Device, values []int16) *ndview.NDBuffer {
		flat := fromHost(t, dev, ndview.Int16, values, n)
		return view(t)(ndview.FromBuffer(flat.Buffer(), ndview.Int16, 0, []int64{rows, columns}, []int64{2, 2}))
	}
	values := make([]int16, n)
	for i := range values {
		values[i] = int16(i%20_000) + 1
	}
	values[n-2], values[n-1] = 32_000, 0
	var sum int64
	for i, v := range values {
		sum += int64(v) * int64(min(i+1, n-i, rows, columns)) // of so many windows
	}
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a := windows(t, dev, values)
		for _, tt := range []struct {
			of   ndview.Reduction
			axes []int
			want []byte
		}{
			{ndview.Sum, nil, raw(sum)},
			{ndview.Max, []int{0}, raw(append(slices.Repeat([]int16{20_000}, columns-2), 32_000, 32_000)...)},
			{ndview.Max, []int{1}, raw(append(slices.Repeat([]int16{20_000}, rows-2), 32_000, 32_000)...)},
			{ndview.ArgMax, nil, raw(int64(rows-2)*columns + columns - 1)},
			{ndview.ArgMin, nil, raw(int64(rows*columns - 1))},
			{ndview.CountNonzero, nil, raw(int64(rows*columns - 1))},
			{ndview.AllTrue, nil, raw(false)},
		} {
			got, err := tt.of.Of(a, ndview.ReduceOptions{Axes: tt.axes})
			requireBytes(t, tt.want, elements(t, own(t, got, err)), tt.of, tt.axes)
		}
		for name, compare := range map[string]func(b *ndview.NDBuffer) (bool, error){
			"Equal":    a.Equal,
			"AllEqual": func(b *ndview.NDBuffer) (bool, error) { return a.AllEqual(b, false) },
		} {
			equal, err := compare(windows(t, dev, values))
			require.NoError(t, err)
			assert.True(t, equal, name)
			other := slices.Clone(values)
			other[n-1] = 1
			equal, err = compare(windows(t, dev, other))
			require.NoError(t, err)
			assert.False(t, equal, "%s: only the last element differs", name)
		}
	})
}
