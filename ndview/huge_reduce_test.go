package ndview_test

import (
	"fmt"
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
				{1, n, 1}, {rows, columns, 1}, {1, rows, columns}, {3, n / 3, 1}, {17, n / 17, 1}, {1, n / 33, 33}, {1, n / 3, 3}, {2, n / 256, 128},
				{1, n / 2000, 2000}, {n / 1000, 1000, 1}, {n / 257, 257, 1}, {n / 33, 33, 1}, {n / 17, 17, 1}, {n / 40, 5, 8}, {1, 60, n / 60}, {1, 100, n / 100}, {64, 7, n / 448},
			} {
				part := index(t, a, ndview.Span(0, shape[0]*shape[1]*shape[2]))
				for name, r := range hugeReductions {
					if r.base != base {
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
	size := int64(len(plain))
	chunk := slices.Repeat(plain, 1<<20)
	byChunk := map[int64][]int64{}
	for result := range places {
		byChunk[result>>20] = append(byChunk[result>>20], result)
	}
	require.Equal(t, shape[0]*shape[2]*size, got.NBytes())
	requireChunks(t, got, int64(len(chunk)), func(at int64, part []byte) []byte {
		expected := chunk
		if results := byChunk[at/int64(len(chunk))]; len(results) > 0 {
			expected = slices.Clone(chunk)
			for _, result := range results {
				v := func(j int64) byte { return s.at((result/shape[2]*shape[1]+j)*shape[2] + result%shape[2]) }
				copy(expected[result*size-at:], want(s, shape[1], places[result], v))
			}
		}
		return expected[:len(part)]
	})
}

// Arrays that repeat few bytes, so that they need no memory: on every device.
func TestReductionsOfRepeatedElementsReachBeyond32Bits(t *testing.T) {
	const rows, columns = hugeRows, hugeColumns
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		row := make([]int16, columns)
		sum := int64(0)
		for i := range row {
			row[i] = int16(i%30_011) - 9000
			sum += int64(row[i])
		}
		row[columns-2] += 30_000
		sum += 30_000
		flat := fromHost(t, dev, ndview.Int16, row, columns)
		a := view(t)(flat.BroadcastTo(rows, columns))
		turned := view(t)(a.Transpose())
		reduce := func(r ndview.Reduction, a *ndview.NDBuffer, axes ...int) []byte {
			got, err := r.Of(a, ndview.ReduceOptions{Axes: axes})
			return elements(t, own(t, got, err))
		}
		assert.Equal(t, raw(rows*sum), reduce(ndview.Sum, a))
		assert.Equal(t, raw(int64(columns-2)), reduce(ndview.ArgMax, a))
		assert.Equal(t, raw(int64(columns-2)*rows), reduce(ndview.ArgMax, turned))
		assert.Equal(t, raw(int64(rows*(columns-3))), reduce(ndview.CountNonzero, a))
		sums := make([]int64, columns)
		for i, v := range row {
			sums[i] = rows * int64(v)
		}
		requireBytes(t, raw(sums...), reduce(ndview.Sum, a, 0))
		requireBytes(t, raw(slices.Repeat([]int64{sum}, rows)...), reduce(ndview.Sum, a, 1))
	})
}
