package equal

import (
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// pairs are elements of 64 bits, each of which has floats of all sizes that may be
// taken for equal or not: NaNs, NaT, zeros of both signs, infinities.
var pairs = [][2]uint64{
	{0, 0}, {1 << 63, 1 << 63}, {0, 1 << 63}, {1, 1}, {1, 2}, {math.MaxUint64, math.MaxUint64},
	{0x8000800080008000, 0}, {0x7c007c007c007c00, 0x7c007c007c007c00}, {0x7c017c017c017c01, 0x7c017c017c017c01},
	{0x7f807f807f807f80, 0x7f807f807f807f80}, {0xff81ff81ff81ff81, 0xff81ff81ff81ff81},
	{0x7f8000007f800000, 0x7f8000007f800000}, {0x7fc000007f800000, 0x7fc000007f800000}, {0x800000007f800000, 0x7f800000},
	{0x7ff0000000000000, 0x7ff0000000000000}, {0x7ff8000000000000, 0x7ff8000000000000}, {0xfff8000000000000, 0x7ff8000000000000},
}

// slow is what a mode compares one element with another by.
func slow(name string) func(x, y unsafe.Pointer, n int64, nanEqual bool) bool {
	return map[string]func(x, y unsafe.Pointer, n int64, nanEqual bool) bool{
		"f16": rows(sameHalf(0x7c00)), "bf16": rows(sameHalf(0x7f80)), "f32": rows(same[float32]), "f64": rows(same[float64]),
		"c64": rows(same[complex64]), "c128": rows(same[complex128]),
		"time": rows(func(x, y int64, _ bool) bool { return x == y && x != math.MinInt64 }),
	}[name]
}

func TestVectorsFindEqualWhatIsEqualOneByOne(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for name, mode := range Modes {
		oneByOne := slow(name)
		if oneByOne == nil {
			continue // it compares bits
		}
		for n := range int64(101) {
			for round := range 3 * len(pairs) {
				words := (n*mode.Size + 7) / 8
				x, y := make([]uint64, words+2), make([]uint64, words+2)
				for i := range x {
					x[i] = random.Uint64() & 0x3fff3fff3fff3fff // no NaN of any size
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
