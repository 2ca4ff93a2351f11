//go:build !noasm

package reduce

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/ndview/internal/cpu/elementwise"
)

// special are values of each size at the limits of some loop: NaNs, infinities, zeros
// of both signs, NaT, and the smallest and largest integers and floats.
var special = map[int64][]uint64{
	1: {0, 0x80, 0x7f, 0xff, 1},
	2: {0, 0x8000, 0x7fff, 0xffff, 0x7c00, 0xfc00, 0x7f80, 0xff80, 0x7c01, 0xfe00, 0x7fc0, 1, 0x8001, 0x7bff, 0xfbff},
	4: {0, 1 << 31, 1<<31 - 1, 1<<32 - 1, 0x7f800000, 0xff800000, 0x7fc00000, 0xff800001, 1, 1<<31 | 1, 0x7f7fffff},
	8: {0, 1 << 63, 1<<63 - 1, 1<<64 - 1, 0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000, 0xfff0000000000001, 1, 1<<63 | 1},
}

// put writes element i, of size bytes.
func put(x []uint64, i, size int64, v uint64) {
	at := unsafe.Add(unsafe.Pointer(&x[0]), i*size)
	copy(unsafe.Slice((*byte)(at), size), unsafe.Slice((*byte)(unsafe.Pointer(&v)), size))
}

// elements returns n elements for a reducer. If specials, a third of them are special.
// Elements of sums are small integers, so that sums do not depend on the order, and
// doubles are not so small that rounding errors depend on it.
func elements(r *rand.Rand, name string, size, n int64, specials bool) []uint64 {
	x := make([]uint64, (n+1)*size/8+1)
	for i := range n {
		v, small := r.Uint64(), r.Int64N(2001)-1000
		switch {
		case strings.HasSuffix(name, "sum_f32"):
			v = uint64(math.Float32bits(float32(small)))
		case strings.HasSuffix(name, "sum_f64"):
			v = math.Float64bits(float64(small))
		case strings.HasSuffix(name, "sum_bf16"):
			v = uint64(math.Float32bits(float32(small)) >> 16)
		case strings.HasSuffix(name, "sum_f16"):
			v &= 0x3fff
		case strings.HasPrefix(name, "count"):
			v *= v & 1
		}
		list := special[size]
		if one := list[r.IntN(len(list))]; specials && r.IntN(3) == 0 && (one<<1 != 2 || name != "sum_f64") {
			v = one
		}
		put(x, i, size, v)
	}
	return x
}

// finishes returns parameters for the reducer of that name.
func finishes(name string, size int64) []Finish {
	top := uint64(1) << (8*size - 1)
	switch op, kind, _ := strings.Cut(name, "_"); {
	case op == "count":
		return []Finish{{Flip: math.MaxUint64}, {Flip: top - 1}, {Flip: math.MaxUint64, What: Any}, {Flip: math.MaxUint64, What: All, Total: 7}}
	case op == "sum":
		return []Finish{{To: int32(elementwise.Float64)}}
	case strings.Contains(kind, "f"):
		return []Finish{{}, {Flip: 1 << 63}}
	default:
		all := top | (top - 1)
		flips := []Finish{{}, {Flip: top}, {Flip: all}, {Flip: top ^ all}}
		if size == 8 {
			flips = append(flips, Finish{Bias: math.MaxUint64})
		}
		return flips
	}
}

// TestAssemblyMatchesGoLoops reduces along and across with and without assembly.
func TestAssemblyMatchesGoLoops(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	if !hasAVX2 {
		t.Skip("this processor has no AVX2")
	}
	defer func(is bool) { hasAVX2, hasAVX512 = true, is }(hasAVX512)
	levels := [][2]bool{{false, false}, {true, false}, {true, hasAVX512}}
	names := []string{"sum_f16", "sum_bf16", "sum_f32", "sum_f64", "sum_i8", "sum_u8", "sum_i16", "sum_u16", "sum_i32", "sum_u32", "sum_i64"}
	for _, op := range []string{"max", "argmax"} {
		for _, kind := range []string{"8", "16", "32", "64", "f16", "bf16", "f32", "f64"} {
			names = append(names, op+"_"+kind)
		}
	}
	names = append(names, "count_8", "count_16", "count_32", "count_64")
	r := rand.New(rand.NewPCG(1, 2))
	for _, name := range names {
		f := Reducers[name]
		for _, tell := range finishes(name, f.Element) {
			for n := int64(1); n <= 2100; n++ {
				if n > 100 {
					n += 499
				}
				x := elements(r, name, f.Element, n*5, n%2 == 0)
				skip := n % 3 // at any alignment of elements
				got := make([][]uint64, len(levels))
				for i, with := range levels {
					hasAVX2, hasAVX512 = with[0], with[1]
					got[i] = reduceAllWays(f, unsafe.Add(unsafe.Pointer(&x[0]), skip*f.Element), n, &tell)
				}
				for i, want := range got[0] {
					for level := range levels {
						if strings.HasPrefix(name, "sum") && isNaN64(want) && isNaN64(got[level][i]) {
							continue
						}
						require.Equal(t, want, got[level][i], "%s of %d elements, finish %+v, result %d, assembly %v", name, n, tell, i, levels[level])
					}
				}
			}
		}
	}
}

func isNaN64(bits uint64) bool { return math.IsNaN(math.Float64frombits(bits)) }

// reduceAllWays reduces 4n elements to one, and 4 rows of n elements to n, with and
// without gaps between rows.
func reduceAllWays(f *Reducer, x unsafe.Pointer, n int64, tell *Finish) []uint64 {
	acc, out := make([]uint64, n*f.Size/8+1), make([]uint64, 2*n+1)
	at := unsafe.Pointer(&acc[0])
	f.None(at, 1)
	f.Along(at, x, 4*n, f.Element, 10, tell)
	f.Store(at, unsafe.Pointer(&out[0]), 1, 8, tell)
	for i, pitch := range []int64{n, n + n/8} {
		f.None(at, n)
		f.Across(at, x, n, f.Element, 4, pitch*f.Element, 10, tell)
		f.Store(at, unsafe.Pointer(&out[1+int64(i)*n]), n, 8, tell)
	}
	return out
}

// Elements after the deciding one do not change the result of any and all.
func TestAnyAndAllStopEarly(t *testing.T) {
	const n = 100_000
	for _, at := range []int{0, 5, countItems - 1, countItems, n - 1} {
		for _, what := range []int32{Any, All} {
			x := make([]uint8, n)
			for i := range x {
				x[i] = uint8(what - Any) // all false, or all true
			}
			x[at] ^= 1
			f, tell := Reducers["count_8"], &Finish{Flip: math.MaxUint64, What: what, Total: n}
			acc, out := int64(0), make([]bool, 1)
			f.Along(unsafe.Pointer(&acc), unsafe.Pointer(&x[0]), n, 1, 0, tell)
			f.Store(unsafe.Pointer(&acc), unsafe.Pointer(&out[0]), 1, 1, tell)
			assert.Equal(t, what == Any, out[0], fmt.Sprint(at, what))
		}
	}
}

// benchLevels runs f with the AVX-512 assembly (asm512), with the AVX2 assembly (asm) and
// without (go). f processes that many bytes.
func benchLevels(b *testing.B, name string, with512 bool, bytes int, f func()) {
	for _, level := range []struct {
		name         string
		avx2, avx512 bool
	}{{"asm512", true, true}, {"asm", true, false}, {"go", false, false}} {
		if level.avx512 && !with512 {
			continue
		}
		b.Run(name+"/"+level.name, func(b *testing.B) {
			defer func(two, five bool) { hasAVX2, hasAVX512 = two, five }(hasAVX2, hasAVX512)
			if level.avx2 && !hasAVX2 || level.avx512 && !hasAVX512 {
				b.Skip("this processor lacks the instructions")
			}
			hasAVX2, hasAVX512 = level.avx2, level.avx512
			b.SetBytes(int64(bytes))
			for b.Loop() {
				f()
			}
		})
	}
}

const benchBytes = 16 << 10 // operands fit the first-level cache

// benchElements returns elements whose bits, as floats of any size, are small numbers.
func benchElements[T unsigned | signed](n int) []T {
	var element T
	r := rand.New(rand.NewPCG(1, 2))
	raw := make([]uint64, (n*int(unsafe.Sizeof(element))+7)/8)
	for i := range raw {
		raw[i] = r.Uint64()&0x3fff3fff3fff3fff | 0x3000300030003000
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&raw[0])), n)
}

func benchKeys[U unsigned, S signed](b *testing.B) {
	var s S
	bits := 8 * int(unsafe.Sizeof(s))
	n := benchBytes * 8 / bits
	x, keys, best, at := benchElements[U](n), benchElements[S](n), benchElements[S](n), make([]S, n)
	w := lowest[S]()
	benchLevels(b, fmt.Sprintf("greatest%d", bits), false, benchBytes, func() { w = maxOf(w, keys) })
	benchLevels(b, fmt.Sprintf("eachGreatest%d", bits), false, 2*benchBytes, func() { maxEach(best, keys) })
	benchLevels(b, fmt.Sprintf("place%d", bits), false, 2*benchBytes, func() { updateEach(best, at, keys, 1) })
	benchLevels(b, fmt.Sprintf("zeros%d", bits), false, benchBytes, func() { countZeros(x, ^U(0)) })
	codec := integerKeys[U, S]()
	flip := &Finish{Flip: 1}
	var block scratch
	benchLevels(b, fmt.Sprintf("flipKeys/%d", bits), false, 2*benchBytes, func() { codec.encode(best, x, flip) })
	x[n-1] = U(S(-1))<<(bits-1) - 1 // the greatest key, at the end
	benchLevels(b, fmt.Sprintf("find%d", bits), false, benchBytes, func() { codec.indexOf(S(x[n-1]), x, &Finish{}, &block) })
	// Four rows with gaps between them.
	f := Reducers[fmt.Sprintf("max_%d", bits)]
	rows, width := benchElements[U](n), int64(n/4-16)
	benchLevels(b, fmt.Sprintf("eachGreatestOf4x%d", bits), false, benchBytes, func() {
		f.Across(unsafe.Pointer(&best[0]), unsafe.Pointer(&rows[0]), width, f.Element, 4, int64(n/4)*f.Element, 0, &Finish{})
	})
}

func benchFloatKeys[U unsigned, S signed](b *testing.B, infinity U, name string) {
	var s S
	bits := 8 * int(unsafe.Sizeof(s))
	n := benchBytes * 8 / bits
	x, keys := benchElements[U](n), benchElements[S](n)
	codec := floatKeys[U, S](infinity, false)
	f := &Finish{}
	benchLevels(b, fmt.Sprintf("keys%d", bits), false, 2*benchBytes, func() { codec.encode(keys, x, f) })
	if bits == 16 {
		return
	}
	benchLevels(b, fmt.Sprintf("back%d", bits), false, 2*benchBytes, func() {
		codec.decode(results{unsafe.Pointer(&x[0]), int64(bits / 8)}, keys, f)
	})
	var block scratch
	w := lowest[S]()
	benchLevels(b, fmt.Sprintf("greatestFloat%d", bits), true, benchBytes, func() { w = codec.max(w, x, f, &block) })
	r, best := Reducers["max_"+name], make([]S, n)
	r.None(unsafe.Pointer(&best[0]), int64(n))
	benchLevels(b, fmt.Sprintf("eachFloat%d/1row", bits), true, benchBytes, func() {
		r.Across(unsafe.Pointer(&best[0]), unsafe.Pointer(&x[0]), int64(n), r.Element, 1, 0, 0, f)
	})
	benchLevels(b, fmt.Sprintf("eachFloat%d/4rows", bits), true, benchBytes, func() {
		r.Across(unsafe.Pointer(&best[0]), unsafe.Pointer(&x[0]), int64(n/4-16), r.Element, 4, int64(n/4)*r.Element, 0, f)
	})
}

// BenchmarkAssembly runs each assembly function of the package, by way of the function
// that falls back to Go, with assembly and without. The AVX-512 forms of greatestFloat
// and eachFloat are wideGreatestFloat and wideEachFloat.
func BenchmarkAssembly(b *testing.B) {
	benchKeys[uint8, int8](b)
	benchKeys[uint16, int16](b)
	benchKeys[uint32, int32](b)
	benchKeys[uint64, int64](b)
	benchFloatKeys[uint16, int16](b, 0x7c00, "f16")
	benchFloatKeys[uint32, int32](b, 0x7f800000, "f32")
	benchFloatKeys[uint64, int64](b, 0x7ff0000000000000, "f64")

	singles, doubles := make([]float32, benchBytes/4), make([]float64, benchBytes/8)
	for i := range singles {
		singles[i], doubles[i/2] = float32(i%100), float64(i%100)
	}
	n := int64(len(singles))
	sums, exactSums := make([]float64, n), make([]compensated, len(doubles))
	grid1 := func(width int64) grid[float32] { return grid[float32]{unsafe.Pointer(&singles[0]), 1, width, 0} }
	benchLevels(b, "sums32", false, benchBytes, func() { sumFloats(singles) })
	benchLevels(b, "add32", false, benchBytes, func() { addFloats(sums, grid1(n)) })
	benchLevels(b, "add32x4", false, benchBytes, func() {
		addFloats(sums[:n/4-16], grid[float32]{unsafe.Pointer(&singles[0]), 4, n/4 - 16, n})
	})
	benchLevels(b, "narrow", false, benchBytes*3/2, func() {
		storeFloats(doubles, results{unsafe.Pointer(&singles[0]), 4}, int32(elementwise.Float32))
	})
	d := int64(len(doubles))
	benchLevels(b, "sums64", false, benchBytes, func() {
		var sum compensated
		addDoubles(&sum, doubles)
	})
	benchLevels(b, "add64", false, benchBytes, func() {
		addEachDouble(exactSums, grid[float64]{unsafe.Pointer(&doubles[0]), 1, d, 0})
	})
	benchLevels(b, "add64x4", false, benchBytes, func() {
		addEachDouble(exactSums[:d/4-16], grid[float64]{unsafe.Pointer(&doubles[0]), 4, d/4 - 16, 2 * d})
	})
	benchLevels(b, "compensatedValues", false, 3*benchBytes, func() { values(exactSums) })
}
