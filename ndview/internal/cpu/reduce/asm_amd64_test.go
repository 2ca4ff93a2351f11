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
