package cpu

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// specials are values at the limits of some cast: as 64 bits, and as two float32s.
var specials = func() (list []uint64) {
	inf := math.Inf(1)
	for _, x := range []float64{
		0, math.Copysign(0, -1), 0.5, -0.5, 1, -1, 127, 255, 256, -129, 32768, 65535.75, 1 << 31, 1<<31 - 1, -1 << 31, -1<<31 - 1,
		1 << 32, 1<<32 - 0.5, 1 << 53, 1 << 63, -1 << 63, 1<<63 - 1024, 1 << 64, 1<<64 - 2048, 1e300, -1e300, 5e-324, inf, -inf, math.NaN(),
	} {
		single := uint64(math.Float32bits(float32(x)))
		list = append(list, math.Float64bits(x), single|single<<32)
	}
	for shift := range 64 {
		list = append(list, 1<<shift, 1<<shift-1, 1<<shift+1, -(1 << shift))
	}
	return list
}()

func TestAssemblyCastsMatchGo(t *testing.T) {
	loops := newCasts(func(*[Types][Types]cast, map[Type]cast) {})
	random := rand.New(rand.NewPCG(1, 2))
	for from := range Types {
		for to := range Types {
			for n := range 101 {
				src := make([]uint64, 202)
				for i := range src {
					switch random.IntN(3) {
					case 0:
						src[i] = random.Uint64()
					case 1:
						src[i] = specials[random.IntN(len(specials))]
					default: // of any number of bits
						src[i] = random.Uint64() >> random.IntN(64)
					}
				}
				want, got := make([]uint64, 202), make([]uint64, 202)
				loops[from][to](unsafe.Pointer(&want[0]), unsafe.Pointer(&src[0]), n)
				casts[from][to](unsafe.Pointer(&got[0]), unsafe.Pointer(&src[0]), n)
				require.Equal(t, want, got, "%d elements of type %d as type %d, of %x", n, from, to, src[:n*int(from.Size())/8+1])
			}
		}
	}
}

// Casts of 32-bit integers to bfloat16 go through float32. They must equal casts
// through float64, which is exact.
func TestInt32ToBFloat16IsRoundedOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	n := 1 << 16
	src := make([]uint32, n)
	for i := range src {
		x := random.Uint32() >> random.IntN(32)
		if i%2 == 0 { // near the middle between two bfloat16 numbers
			shift := random.IntN(24)
			x = (2*(128+random.Uint32N(128))+1)<<shift>>1 + random.Uint32N(5) - 2
		}
		if i%3 == 0 {
			x = -x
		}
		src[i] = x
	}
	for _, from := range []Type{Int32, Uint32} {
		wide, want, got := make([]float64, n), make([]uint16, n), make([]uint16, n)
		casts[from][Float64](unsafe.Pointer(&wide[0]), unsafe.Pointer(&src[0]), n)
		casts[Float64][BFloat16](unsafe.Pointer(&want[0]), unsafe.Pointer(&wide[0]), n)
		casts[from][BFloat16](unsafe.Pointer(&got[0]), unsafe.Pointer(&src[0]), n)
		require.Equal(t, want, got, "type %d", from)
	}
}

func TestStreamedCastMatchesSmallCasts(t *testing.T) {
	n := int(minStreamed)/4 + 1001
	src := make([]uint32, n)
	for i := range src {
		src[i] = uint32(i * 2654435761)
	}
	got, want := make([]float32, n), make([]float32, n)
	Cast(unsafe.Pointer(&got[0]), unsafe.Pointer(&src[0]), int64(n), Float32, Uint32)
	for lo := 0; lo < n; lo += 997 {
		k := min(n-lo, 997)
		Cast(unsafe.Pointer(&want[lo]), unsafe.Pointer(&src[lo]), int64(k), Float32, Uint32)
	}
	require.True(t, slices.Equal(want, got))
}
