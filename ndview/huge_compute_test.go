package ndview_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sparseBytes is an array of bytes that all equal a base, except for some.
type sparseBytes struct {
	base  byte
	marks map[int64]byte
}

// newSparseBytes has a base of 0 or 1, and larger bytes at random positions and at
// those that a 32-bit overflow would confuse. For a base of 1 some of them are 0.
func newSparseBytes(base byte, n int64) sparseBytes {
	s := sparseBytes{base, map[int64]byte{}}
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

func (s sparseBytes) writeTo(t *testing.T, a *ndview.NDBuffer) {
	t.Helper()
	require.NoError(t, a.Fill(s.base))
	for place, v := range s.marks {
		_, err := a.Buffer().CopyFromHost([]byte{v}, place)
		require.NoError(t, err)
	}
}

func (s sparseBytes) at(i int64) byte {
	if v, ok := s.marks[i]; ok {
		return v
	}
	return s.base
}

// hugeReductions are the reductions with a reference for one result of length
// elements: element j is v(j), and all elements but those at places equal the base.
var hugeReductions = map[string]struct {
	of    ndview.Reduction
	dtype ndview.DType
	base  byte
	want  func(s sparseBytes, length int64, places []int64, v func(j int64) byte) []byte
}{
	"sum": {ndview.Sum, ndview.DType{}, 1, func(s sparseBytes, length int64, places []int64, v func(int64) byte) []byte {
		sum := uint64(length) * uint64(s.base)
		for _, j := range places {
			sum += uint64(v(j)) - uint64(s.base)
		}
		return ndtest.Raw(sum)
	}},
	"sum as float64": {ndview.Sum, ndview.Float64, 1, func(s sparseBytes, length int64, places []int64, v func(int64) byte) []byte {
		sum := float64(length) * float64(s.base)
		for _, j := range places {
			sum += float64(v(j)) - float64(s.base)
		}
		return ndtest.Raw(sum)
	}},
	"max":    {ndview.Max, ndview.DType{}, 0, extremes(func(a, b byte) bool { return a > b }, func(v byte, _ int64) []byte { return ndtest.Raw(v) })},
	"min":    {ndview.Min, ndview.DType{}, 1, extremes(func(a, b byte) bool { return a < b }, func(v byte, _ int64) []byte { return ndtest.Raw(v) })},
	"any":    {ndview.AnyTrue, ndview.DType{}, 0, extremes(func(a, b byte) bool { return a > b }, func(v byte, _ int64) []byte { return ndtest.Raw(v != 0) })},
	"all":    {ndview.AllTrue, ndview.DType{}, 1, extremes(func(a, b byte) bool { return a < b }, func(v byte, _ int64) []byte { return ndtest.Raw(v != 0) })},
	"argmax": {ndview.ArgMax, ndview.DType{}, 0, extremes(func(a, b byte) bool { return a > b }, func(_ byte, j int64) []byte { return ndtest.Raw(j) })},
	"argmin": {ndview.ArgMin, ndview.DType{}, 1, extremes(func(a, b byte) bool { return a < b }, func(_ byte, j int64) []byte { return ndtest.Raw(j) })},
	"count": {ndview.CountNonzero, ndview.DType{}, 1, func(s sparseBytes, length int64, places []int64, v func(int64) byte) []byte {
		n := length
		for _, j := range places {
			n -= int64(1 - ndtest.Truth(v(j) != 0))
		}
		return ndtest.Raw(n)
	}},
}

// extremes returns the reference of a reduction to the first element that no other
// precedes, and its index.
func extremes(before func(a, b byte) bool, result func(v byte, j int64) []byte) func(sparseBytes, int64, []int64, func(int64) byte) []byte {
	return func(s sparseBytes, length int64, places []int64, v func(int64) byte) []byte {
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

// TestReductionsReachBeyond32Bits reduces the middle axis of shapes that kernels
// divide in different ways.
func TestReductionsReachBeyond32Bits(t *testing.T) {
	const rows, columns, n = ndtest.HugeRows, ndtest.HugeColumns, ndtest.HugeExtent
	ndtest.OnHuge(t, 9, func(t *testing.T, dev arrowbuf.Device) {
		made, err := ndview.Empty(dev, ndview.Uint8, n)
		a := ndtest.Own(t, made, err)
		for _, base := range []byte{0, 1} {
			s := newSparseBytes(base, n)
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
						cube := ndtest.View(t)(part.Reshape(shape[:]...))
						got, err := r.of.Of(cube, ndview.ReduceOptions{Axes: []int{1}, DType: r.dtype})
						requireReduced(t, s, shape, r.want, ndtest.Own(t, got, err))
					})
				}
			}
		}
	})
}

// TestManyResultsReachBeyond32Bits reduces short axes, whose results are large, too.
func TestManyResultsReachBeyond32Bits(t *testing.T) {
	ndtest.OnHuge(t, 16, func(t *testing.T, dev arrowbuf.Device) {
		const n = 2*ndtest.HugeExtent + 2
		made, err := ndview.Empty(dev, ndview.Uint8, n)
		a := ndtest.Own(t, made, err)
		s := newSparseBytes(0, n)
		for i := range int64(100) {
			s.marks[1<<33-i*i*7] = byte(100 + i)
		}
		s.writeTo(t, a)
		for _, shape := range [][3]int64{{n / 2, 2, 1}, {1, 2, n / 2}, {n / 4, 2, 2}, {n / 4, 4, 1}, {n / 3, 3, 1}, {1, 3, n / 3}, {n / 5, 5, 1}} {
			for _, name := range []string{"max", "any"} {
				t.Run(fmt.Sprint(name, " of ", shape), func(t *testing.T) {
					cube := ndtest.View(t)(index(t, a, ndview.Span(0, shape[0]*shape[1]*shape[2])).Reshape(shape[:]...))
					got, err := hugeReductions[name].of.Of(cube, ndview.ReduceOptions{Axes: []int{1}})
					requireReduced(t, s, shape, hugeReductions[name].want, ndtest.Own(t, got, err))
				})
			}
		}
	})
}

// requireReduced compares the results of reducing the middle axis with a reference.
func requireReduced(t *testing.T, s sparseBytes, shape [3]int64, want func(sparseBytes, int64, []int64, func(int64) byte) []byte, got *ndview.NDBuffer) {
	t.Helper()
	places := map[int64][]int64{} // from each result to the elements that differ from the base
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
		differ += int64(ndtest.Truth(!bytes.Equal(other, plain)))
	}
	flat := ndtest.View(t)(got.Reshape(shape[0] * shape[2]))
	marked, err := ndview.Take(flat, ndtest.FromHost(t, got.Device(), ndview.Int64, results, int64(len(results))), 0, ndview.ModeRaise)
	ndtest.RequireBytes(t, others, ndtest.Elements(t, ndtest.Own(t, marked, err)))
	scalar, err := ndview.NewScalar(got.DType(), plain)
	require.NoError(t, err)
	unlike, err := ndview.NotEqual.Of(flat, scalar)
	count, err2 := ndview.CountNonzero.Of(ndtest.Own(t, unlike, err), ndview.ReduceOptions{})
	require.Equal(t, []int64{differ}, ndtest.HostOf[int64](t, ndtest.Own(t, count, err2)), "results of elements that are all %d", s.base)
}

// TestWindowsReachBeyond32Bits uses overlapping windows: element [i, j] is number i+j.
// They make an array of more than 2^32 elements from a small buffer, so every device
// runs the test.
func TestWindowsReachBeyond32Bits(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const rows, columns, n = ndtest.HugeRows, ndtest.HugeColumns, ndtest.HugeRows + ndtest.HugeColumns - 1
	windows := func(t *testing.T, dev arrowbuf.Device, values []int16) *ndview.NDBuffer {
		flat := ndtest.FromHost(t, dev, ndview.Int16, values, n)
		return ndtest.View(t)(ndview.FromBuffer(flat.Buffer(), ndview.Int16, 0, []int64{rows, columns}, []int64{2, 2}))
	}
	values := make([]int16, n)
	for i := range values {
		values[i] = int16(i%20_000) + 1
	}
	values[n-2], values[n-1] = 32_000, 0
	var sum int64
	for i, v := range values {
		sum += int64(v) * int64(min(i+1, n-i, rows, columns)) // times the number of windows
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := windows(t, dev, values)
		for _, tt := range []struct {
			of   ndview.Reduction
			axes []int
			want []byte
		}{
			{ndview.Sum, nil, ndtest.Raw(sum)},
			{ndview.Max, []int{0}, ndtest.Raw(append(slices.Repeat([]int16{20_000}, columns-2), 32_000, 32_000)...)},
			{ndview.Max, []int{1}, ndtest.Raw(append(slices.Repeat([]int16{20_000}, rows-2), 32_000, 32_000)...)},
			{ndview.ArgMax, nil, ndtest.Raw(int64(rows-2)*columns + columns - 1)},
			{ndview.ArgMin, nil, ndtest.Raw(int64(rows*columns - 1))},
			{ndview.CountNonzero, nil, ndtest.Raw(int64(rows*columns - 1))},
			{ndview.AllTrue, nil, ndtest.Raw(false)},
		} {
			got, err := tt.of.Of(a, ndview.ReduceOptions{Axes: tt.axes})
			ndtest.RequireBytes(t, tt.want, ndtest.Elements(t, ndtest.Own(t, got, err)), tt.of, tt.axes)
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

// TestComparisonsReachBeyond32Bits compares arrays that are equal or differ in one
// element.
func TestComparisonsReachBeyond32Bits(t *testing.T) {
	block := ndtest.Pattern()
	block[0] |= 1
	ndtest.OnHuge(t, 9, func(t *testing.T, dev arrowbuf.Device) {
		a, b := ndtest.Periodic(t, dev, block, ndtest.HugeExtent), ndtest.Periodic(t, dev, block, ndtest.HugeExtent+1)
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
				for _, place := range []int64{1 << 31, 1 << 32, ndtest.HugeExtent - 1, ndtest.HugeExtent - 3} { // even ones, counted from the end
					if name == "AllEqual as int16" && place == ndtest.HugeExtent-1 {
						continue
					}
					if (ndtest.HugeExtent-1-place)%2 != 0 {
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

// asInt16 views pairs of bytes as int16.
func asInt16(t *testing.T, a *ndview.NDBuffer) *ndview.NDBuffer {
	t.Helper()
	return ndtest.View(t)(index(t, a, ndview.Span(0, a.Size()&^1)).View(ndview.Int16))
}

// TestComparisonsWithAValueReachBeyond32Bits compares with one value, without and with
// one exception.
func TestComparisonsWithAValueReachBeyond32Bits(t *testing.T) {
	ndtest.OnHuge(t, 5, func(t *testing.T, dev arrowbuf.Device) {
		zeros, err := ndview.Zeros(dev, ndview.Uint8, ndtest.HugeExtent)
		a := ndtest.Own(t, zeros, err)
		floats := ndtest.View(t)(index(t, a, ndview.Span(0, ndtest.HugeExtent&^3)).View(ndview.Float32))
		row := ndtest.FromHost(t, dev, ndview.Uint8, make([]uint8, ndtest.HugeColumns), ndtest.HugeColumns)
		wide := ndtest.FromHost(t, dev, ndview.Int16, make([]int16, ndtest.HugeColumns), ndtest.HugeColumns)
		matrix := ndtest.View(t)(a.Reshape(ndtest.HugeRows, ndtest.HugeColumns))
		equal := map[string]func() (bool, error){
			"a byte":         func() (bool, error) { return a.AllEqual(0, false) },
			"a float":        func() (bool, error) { return a.AllEqual(0.0, false) },
			"zero of floats": func() (bool, error) { return floats.AllEqual(float32(0), true) },
			"backwards": func() (bool, error) {
				return index(t, a, ndview.SpanStep(ndview.Open, ndview.Open, -1)).AllEqual(0, false)
			},
			"a row": func() (bool, error) { return matrix.AllEqual(row, false) },
		}
		if dev != arrowbuf.CPU() { // the CPU takes minutes
			equal["a row of int16"] = func() (bool, error) { return matrix.AllEqual(wide, false) }
		}
		for name, f := range equal {
			t.Run(name, func(t *testing.T) {
				got, err := f()
				require.NoError(t, err)
				assert.True(t, got)
				for _, place := range []int64{1 << 31, 1<<32 - 1, 1 << 32, ndtest.HugeExtent&^3 - 1} {
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

func TestElementwiseReachesBeyond32Bits(t *testing.T) {
	block := ndtest.Pattern()
	each := func(f func(i int) byte) []byte { return ndtest.Mapped(ndtest.Period, f) }
	next := func(i int) byte { return block[(i+1)%ndtest.Period] }
	ndtest.OnHuge(t, 14, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.Periodic(t, dev, block, ndtest.HugeExtent)
		x, y := index(t, a, ndview.Span(0, -1)), index(t, a, ndview.Span(1, ndview.Open)) // only one of them is aligned to vectors
		back := index(t, a, ndview.SpanStep(ndview.Open, ndview.Open, -1))
		backwards := ndtest.Rotated(ndtest.Reversed(block), -ndtest.HugeExtent%ndtest.Period)
		for name, tt := range map[string]struct {
			got  func() (*ndview.NDBuffer, error)
			want []byte
		}{
			"add, contiguous":          {func() (*ndview.NDBuffer, error) { return ndview.Add.Of(a, a) }, each(func(i int) byte { return 2 * block[i] })},
			"add, not aligned":         {func() (*ndview.NDBuffer, error) { return ndview.Add.Of(x, y) }, each(func(i int) byte { return block[i] + next(i) })},
			"a comparison, contiguous": {func() (*ndview.NDBuffer, error) { return ndview.Greater.Of(a, 100) }, each(func(i int) byte { return ndtest.Truth(block[i] > 100) })},
			"a comparison of two":      {func() (*ndview.NDBuffer, error) { return ndview.Less.Of(x, y) }, each(func(i int) byte { return ndtest.Truth(block[i] < next(i)) })},
			"a unary operation":        {func() (*ndview.NDBuffer, error) { return ndview.Negative.Of(a) }, each(func(i int) byte { return -block[i] })},
			"backwards":                {func() (*ndview.NDBuffer, error) { return ndview.Invert.Of(back) }, each(func(i int) byte { return ^backwards[i] })},
			"division":                 {func() (*ndview.NDBuffer, error) { return ndview.FloorDivide.Of(a, 7) }, each(func(i int) byte { return block[i] / 7 })},
			"clip, contiguous":         {func() (*ndview.NDBuffer, error) { return ndview.Clip(a, 50, 100) }, each(func(i int) byte { return min(max(block[i], 50), 100) })},
			"clip by an array":         {func() (*ndview.NDBuffer, error) { return ndview.Clip(y, nil, x) }, each(func(i int) byte { return min(block[i], next(i)) })},
			"where":                    {func() (*ndview.NDBuffer, error) { return ndview.Where(a, a, 7) }, each(func(i int) byte { return max(block[i], 7*ndtest.Truth(block[i] == 0)) })},
			"where, not aligned":       {func() (*ndview.NDBuffer, error) { return ndview.Where(y, x, 7) }, each(func(i int) byte { return [2]byte{7, block[i]}[ndtest.Truth(next(i) != 0)] })},
			"a cast, contiguous":       {func() (*ndview.NDBuffer, error) { return a.AsType(ndview.Bool, ndview.OrderC, ndview.CastUnsafe) }, each(func(i int) byte { return ndtest.Truth(block[i] != 0) })},
			"a cast, not aligned":      {func() (*ndview.NDBuffer, error) { return y.AsType(ndview.Bool, ndview.OrderC, ndview.CastUnsafe) }, each(func(i int) byte { return ndtest.Truth(next(i) != 0) })},
			"a cast, backwards":        {func() (*ndview.NDBuffer, error) { return back.AsType(ndview.Bool, ndview.OrderC, ndview.CastUnsafe) }, each(func(i int) byte { return ndtest.Truth(backwards[i] != 0) })},
			"a cast of 2^31 uint16s":   {func() (*ndview.NDBuffer, error) { return castAs(t, x, ndview.Uint16, ndview.Uint8) }, ndtest.Mapped(ndtest.Period/2, func(i int) byte { return block[2*i] })},
			"a cast of 2^30 floats": {func() (*ndview.NDBuffer, error) {
				return castAs(t, index(t, x, ndview.Span(2, ndview.Open)), ndview.Float32, ndview.Bool)
			}, floatTruths(ndtest.Rotated(block, 2))},
		} {
			t.Run(name, func(t *testing.T) {
				got, err := tt.got()
				ndtest.RequirePeriodic(t, tt.want, ndtest.Own(t, got, err))
			})
		}
	})
}

// TestFarRowsReachBeyond32Bits uses every second element of rows that are more than
// 2^31 bytes apart.
func TestFarRowsReachBeyond32Bits(t *testing.T) {
	block := ndtest.Pattern()
	ndtest.OnHuge(t, 7, func(t *testing.T, dev arrowbuf.Device) {
		const columns = (ndtest.HugeExtent - 1) / 2
		a := ndtest.View(t)(ndtest.Periodic(t, dev, block, 2*columns).Reshape(2, columns))
		x := index(t, a, ndview.All, ndview.SpanStep(ndview.Open, ndview.Open, 2))
		for name, tt := range map[string]struct {
			of   func() (*ndview.NDBuffer, error)
			want func(b byte) byte
		}{
			"add":    {func() (*ndview.NDBuffer, error) { return ndview.Add.Of(x, x) }, func(b byte) byte { return 2 * b }},
			"a cast": {func() (*ndview.NDBuffer, error) { return x.AsType(ndview.Bool, ndview.OrderC, ndview.CastUnsafe) }, func(b byte) byte { return ndtest.Truth(b != 0) }},
			"a copy": {func() (*ndview.NDBuffer, error) { return x.Copy(ndview.OrderC) }, func(b byte) byte { return b }},
		} {
			t.Run(name, func(t *testing.T) {
				made, err := tt.of()
				got := ndtest.Own(t, made, err)
				for row := range int64(2) {
					want := ndtest.Mapped(ndtest.Period, func(i int) byte { return tt.want(block[(row*columns+2*int64(i))%ndtest.Period]) })
					ndtest.RequirePeriodic(t, want, index(t, got, ndview.At(row)))
				}
			})
		}
	})
}

// castAs views bytes as elements of a type and casts them.
func castAs(t *testing.T, bytes *ndview.NDBuffer, from, to ndview.DType) (*ndview.NDBuffer, error) {
	t.Helper()
	whole := index(t, bytes, ndview.Span(0, bytes.Size()/from.Size()*from.Size()))
	elements, err := whole.View(from)
	return ndtest.Own(t, elements, err).AsType(to, ndview.OrderC, ndview.CastUnsafe)
}

// floatTruths returns 1 for each float32 of a block that is not 0, otherwise 0.
func floatTruths(block []byte) []byte {
	return ndtest.Mapped(len(block)/4, func(i int) byte { return ndtest.Truth(binary.LittleEndian.Uint32(block[4*i:])<<1 != 0) })
}

// TestWiderResultsReachBeyond32Bits computes results of two bytes per element.
func TestWiderResultsReachBeyond32Bits(t *testing.T) {
	block := ndtest.Pattern()
	ndtest.OnHuge(t, 22, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.Periodic(t, dev, block, ndtest.HugeExtent)
		for name, from := range map[string]int64{"contiguous": 0, "not aligned": 3} {
			t.Run(name, func(t *testing.T) {
				part := index(t, a, ndview.Span(from, ndview.Open))
				wide, err := part.AsType(ndview.Int16, ndview.OrderC, ndview.CastSafe)
				ndtest.Own(t, wide, err)
				want := ndtest.Rotated(block, from)
				ndtest.RequirePeriodic(t, ndtest.Mapped(2*ndtest.Period, func(i int) byte { return want[i/2] * byte(1-i%2) }), wide)
				require.NoError(t, ndview.Multiply.Into(wide, part, wide))
				ndtest.RequirePeriodic(t, ndtest.Mapped(2*ndtest.Period, func(i int) byte { return byte(uint16(want[i/2]) * uint16(want[i/2]) >> (i % 2 * 8)) }), wide)
			})
		}
	})
}

// TestBroadcastingReachesBeyond32Bits broadcasts a column and a row to more than 2^32
// elements, in whole vectors and not.
func TestBroadcastingReachesBeyond32Bits(t *testing.T) {
	ndtest.OnHuge(t, 5, func(t *testing.T, dev arrowbuf.Device) {
		const rows, columns = 65_600, 65_552
		row := ndtest.Pattern()[:columns]
		for i := range row {
			row[i] %= 251
		}
		down := make([]byte, rows) // rows 2^15 and 2^16 apart must differ
		for i := range down {
			down[i] = byte(i % 251)
		}
		for name, width := range map[string]int64{"whole vectors": columns, "no whole vectors": columns - 3} {
			t.Run(name, func(t *testing.T) {
				x := ndtest.FromHost(t, dev, ndview.Uint8, down, rows, 1)
				y := ndtest.FromHost(t, dev, ndview.Uint8, row[:width], width)
				made, err := ndview.Empty(dev, ndview.Uint8, rows, width)
				out := ndtest.Own(t, made, err)
				check := func(f func(down, row byte) byte) { // with a period of 251 rows
					ndtest.RequirePeriodic(t, ndtest.Mapped(251*int(width), func(i int) byte { return f(byte(i/int(width)), row[i%int(width)]) }), out)
				}
				require.NoError(t, ndview.Add.Into(out, x, y))
				check(func(down, row byte) byte { return down + row })
				transposed := ndtest.View(t)(out.Transpose())
				require.NoError(t, ndview.Subtract.Into(transposed, ndtest.View(t)(y.Reshape(width, 1)), ndtest.View(t)(x.Reshape(rows))))
				check(func(down, row byte) byte { return row - down })
			})
		}
	})
}
