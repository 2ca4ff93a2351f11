package ndview_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// exactly adds numbers up without an error, and their magnitudes.
func exactly(values []float64) (sum, magnitudes *big.Float) {
	sum, magnitudes = new(big.Float).SetPrec(2200), new(big.Float).SetPrec(2200)
	for _, v := range values {
		sum.Add(sum, big.NewFloat(v))
		magnitudes.Add(magnitudes, big.NewFloat(math.Abs(v)))
	}
	return sum, magnitudes
}

// mixedNumbers are numbers of very different size and either sign.
func mixedNumbers(n int) []float64 {
	r := rand.New(rand.NewPCG(6, 7))
	values := make([]float64, n)
	for i := range values {
		values[i] = math.Ldexp(r.Float64()-0.5, r.IntN(40)-20)
	}
	return values
}

func TestSumsOfFloat64KeepTheBoundThatTheyPromise(t *testing.T) {
	const n = 300_001
	values := mixedNumbers(n)
	sum, magnitudes := exactly(values)
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, shape := range [][]int64{{n}, {n, 1}, {1, n}} {
			a := fromHost(t, dev, ndview.Float64, values, shape...)
			got, err := ndview.Sum.Of(a, ndview.ReduceOptions{})
			v, err := ndview.ToHost[float64](own(t, got, err))
			require.NoError(t, err)
			off := new(big.Float).Sub(big.NewFloat(v[0]), sum)
			bound := new(big.Float).Mul(magnitudes, big.NewFloat(0x1p-51))
			assert.LessOrEqual(t, off.Abs(off).Cmp(bound), 0, "%v: off by %g, bound %g", shape, off, bound)
		}
	})
}

func TestSumsOfFloat32AreRoundedOnce(t *testing.T) {
	const n = 65_537
	values := make([]float32, n)
	wide := make([]float64, n)
	for i, v := range mixedNumbers(n) {
		values[i] = float32(v)
		wide[i] = float64(values[i])
	}
	sum, _ := exactly(wide)
	want, _ := sum.Float32()
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		got, err := ndview.Sum.Of(fromHost(t, dev, ndview.Float32, values, n), ndview.ReduceOptions{})
		v, err := ndview.ToHost[float32](own(t, got, err))
		require.NoError(t, err)
		assert.Equal(t, want, v[0])
	})
}

func TestSumsAreTheSameEachTime(t *testing.T) {
	values := mixedNumbers(100_003)
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a := fromHost(t, dev, ndview.Float64, values, int64(len(values)))
		var first []byte
		for range 5 {
			got, err := ndview.Sum.Of(a, ndview.ReduceOptions{})
			sum := elements(t, own(t, got, err))
			if first == nil {
				first = sum
			}
			require.Equal(t, first, sum)
		}
	})
}

func TestSumsOfHugeNumbersOverflowToInfinity(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a := fromHost(t, dev, ndview.Float64, []float64{math.MaxFloat64, math.MaxFloat64, 1, 2}, 4)
		got, err := ndview.Sum.Of(a, ndview.ReduceOptions{})
		v, err := ndview.ToHost[float64](own(t, got, err))
		require.NoError(t, err)
		assert.Equal(t, math.Inf(1), v[0])
	})
}

// Neighbours that cancel each other, or are too large for a float32 together, are added as
// any others.
func TestSumsOfHalvesAreRoundedOnce(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		const most, small, half, infinite = 0x7f7f, 0x1400, 0x7bff, 0x7c00 // the largest bfloat16; 2^-10, the largest and an infinite float16
		for _, n := range []int{4, 8, 64, 1 << 14} {
			large, cancelling := make([]uint16, n), make([]uint16, n)
			for i := range n {
				large[i] = most | uint16(i/2%2)<<15
			}
			cancelling[0], cancelling[1], cancelling[n-1] = half, small, half|1<<15
			sum, err := ndview.Sum.Of(fromHost(t, dev, ndview.BFloat16, large, int64(n)), ndview.ReduceOptions{})
			own(t, sum, err)
			assert.Equal(t, raw[uint16](0), elements(t, sum), n)
			mean, err := ndview.Mean.Of(fromHost(t, dev, ndview.BFloat16, []uint16{most, most, most, most}, 4), ndview.ReduceOptions{})
			own(t, mean, err)
			assert.Equal(t, raw[uint16](most), elements(t, mean))
			sum, err = ndview.Sum.Of(fromHost(t, dev, ndview.Float16, cancelling, int64(n)), ndview.ReduceOptions{})
			own(t, sum, err)
			assert.Equal(t, raw[uint16](small), elements(t, sum), n)
			columns := fromHost(t, dev, ndview.Float16, slices.Concat(slices.Repeat(cancelling[:1], 8), slices.Repeat(cancelling[1:2], 8),
				make([]uint16, 8*(n-3)), slices.Repeat(cancelling[n-1:], 7), []uint16{infinite}), int64(n), 8)
			sum, err = ndview.Sum.Of(columns, ndview.ReduceOptions{Axes: []int{0}})
			own(t, sum, err)
			assert.Equal(t, slices.Concat(slices.Repeat(raw[uint16](small), 7), raw[uint16](infinite)), elements(t, sum), "columns of %d", n)
		}
	})
}
