package bitmap

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// withAndWithoutAssembly runs a test with assembly and without.
func withAndWithoutAssembly(t *testing.T, test func(t *testing.T)) {
	t.Run("asm", test)
	t.Run("go", func(t *testing.T) {
		defer func(before bool) { hasAVX2 = before }(hasAVX2)
		hasAVX2 = false
		test(t)
	})
}

func random(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func TestUnpackWritesEachBit(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	withAndWithoutAssembly(t, func(t *testing.T) {
		for n := range 300 {
			for shift := range uint(8) {
				for _, invert := range []bool{false, true} {
					bits := random(rng, (int(shift)+n+7)/8)
					got, want := make([]byte, n+1), make([]byte, n+1)
					got[n], want[n] = 7, 7
					Unpack(got[:n:n], bits, shift, invert)
					for i := range n {
						at := uint(i) + shift
						want[i] = bits[at/8] >> (at % 8) & 1
						if invert {
							want[i] ^= 1
						}
					}
					require.Equal(t, want, got, "%d bits from %d, inverted %v", n, shift, invert)
				}
			}
		}
	})
}

func TestPackSetsTheBitOfEachByteThatIsNotZero(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 2))
	withAndWithoutAssembly(t, func(t *testing.T) {
		for n := range 80 {
			for _, invert := range []bool{false, true} {
				src := make([]byte, 8*n)
				for i := range src {
					src[i] = []byte{0, 0, 1, byte(rng.Uint32())}[rng.IntN(4)]
				}
				got, want := make([]byte, n+1), make([]byte, n+1)
				got[n], want[n] = 7, 7
				Pack(got[:n:n], src, invert)
				for i, v := range src {
					if (v != 0) != invert {
						want[i/8] |= 1 << (i % 8)
					}
				}
				require.Equal(t, want, got, "%d bytes, inverted %v", n, invert)
			}
		}
	})
}

// BenchmarkAssembly is for unpackVector and packVector.
func BenchmarkAssembly(b *testing.B) {
	const n = 32 << 10
	rng := rand.New(rand.NewPCG(1, 2))
	bits, bytes := random(rng, n/8+8), make([]byte, n)
	for i := range bytes {
		bytes[i] = byte(rng.Uint32() & 1)
	}
	for _, f := range []struct {
		name string
		run  func()
	}{
		{"unpackVector/aligned", func() { Unpack(bytes, bits, 0, false) }},
		{"unpackVector/shifted", func() { Unpack(bytes, bits, 3, false) }},
		{"packVector", func() { Pack(bits[:n/8], bytes, false) }},
	} {
		for _, asm := range []bool{true, false} {
			b.Run(f.name+map[bool]string{true: "/asm", false: "/go"}[asm], func(b *testing.B) {
				defer func(before bool) { hasAVX2 = before }(hasAVX2)
				if asm && !hasAVX2 {
					b.Skip("this processor has no AVX2")
				}
				hasAVX2 = asm
				b.SetBytes(n + n/8)
				for b.Loop() {
					f.run()
				}
			})
		}
	}
}
