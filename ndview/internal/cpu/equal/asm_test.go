package equal

import (
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// pairs are 64-bit elements that contain floats of all sizes at the limits of equality:
// NaNs, NaT, zeros of both signs, infinities.
var pairs = [][2]uint64{
	{0, 0}, {1 << 63, 1 << 63}, {0, 1 << 63}, {1, 1}, {1, 2}, {math.MaxUint64, math.MaxUint64},
	{0x8000800080008000, 0}, {0x7c007c007c007c00, 0x7c007c007c007c00}, {0x7c017c017c017c01, 0x7c017c017c017c01},
	{0x7f807f807f807f80, 0x7f807f807f807f80}, {0xff81ff81ff81ff81, 0xff81ff81ff81ff81},
	{0x7f8000007f800000, 0x7f8000007f800000}, {0x7fc000007f800000, 0x7fc000007f800000}, {0x800000007f800000, 0x7f800000},
	{0x7ff0000000000000, 0x7ff0000000000000}, {0x7ff8000000000000, 0x7ff8000000000000}, {0xfff8000000000000, 0x7ff8000000000000},
}

// goEqual returns the portable comparison of a mode, or nil for modes that compare
// bits.
func goEqual(name string) func(x, y unsafe.Pointer, n int64, nanEqual bool) bool {
	return map[string]func(x, y unsafe.Pointer, n int64, nanEqual bool) bool{
		"f16": eachEqual(equalHalves(0x7c00)), "bf16": eachEqual(equalHalves(0x7f80)), "f32": eachEqual(equalFloats[float32]), "f64": eachEqual(equalFloats[float64]),
		"c64": eachEqual(equalFloats[complex64]), "c128": eachEqual(equalFloats[complex128]),
		"time": eachEqual(func(x, y int64, _ bool) bool { return x == y && x != math.MinInt64 }),
	}[name]
}

func TestAssemblyMatchesGo(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for name, mode := range Modes {
		oneByOne := goEqual(name)
		if oneByOne == nil {
			continue // compares bits
		}
		for n := range int64(101) {
			for round := range 3 * len(pairs) {
				words := (n*mode.Size + 7) / 8
				x, y := make([]uint64, words+2), make([]uint64, words+2)
				for i := range x {
					x[i] = random.Uint64() & 0x3fff3fff3fff3fff // not a NaN of any size
					y[i] = x[i]
				}
				for k := range round / len(pairs) { // none, one or two
					at := random.Int64N(words + 1)
					pair := pairs[(round+k*5)%len(pairs)]
					x[at], y[at] = pair[0], pair[1]
				}
				for _, nanEqual := range []bool{false, true} {
					px, py := unsafe.Pointer(&x[0]), unsafe.Pointer(&y[0])
					require.Equal(t, oneByOne(px, py, n, nanEqual), mode.same(px, py, n, nanEqual),
						"%s: %d elements, NaN equal %t, %x and %x", name, n, nanEqual, x, y)
				}
			}
		}
	}
}

// BenchmarkAssembly compares equal arrays, NaNs being unequal, with assembly and in Go:
// same32 (f32, c64), same64 (f64, c128), sameHalves (f16, bf16) and sameTimes (time).
func BenchmarkAssembly(b *testing.B) {
	const bytes = 16 << 10
	x, y := make([]uint64, bytes/8), make([]uint64, bytes/8)
	for i := range x {
		x[i], y[i] = 0x3c003c003c003c00, 0x3c003c003c003c00
	}
	px, py := unsafe.Pointer(&x[0]), unsafe.Pointer(&y[0])
	for _, name := range []string{"f16", "bf16", "f32", "f64", "c64", "c128", "time"} {
		mode := Modes[name]
		for _, side := range []struct {
			name string
			same func(x, y unsafe.Pointer, n int64, nanEqual bool) bool
		}{{"asm", mode.same}, {"go", goEqual(name)}} {
			b.Run(name+"/"+side.name, func(b *testing.B) {
				b.SetBytes(2 * bytes)
				for b.Loop() {
					if !side.same(px, py, bytes/mode.Size, false) {
						b.Fatal("equal arrays differ")
					}
				}
			})
		}
	}
}
