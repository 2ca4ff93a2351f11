package ndview_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

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
