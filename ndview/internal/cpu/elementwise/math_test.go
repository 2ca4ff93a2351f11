package elementwise

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

const digits = 1400 // bits

// halfPi returns pi/2 by Machin's formula.
func halfPi() *big.Float {
	one := new(big.Int).Lsh(big.NewInt(1), digits)
	arctan := func(n int64) *big.Int {
		sum, term, square := new(big.Int), new(big.Int).Div(one, big.NewInt(n)), big.NewInt(n*n)
		for k := int64(1); term.Sign() != 0; k += 2 {
			part := new(big.Int).Div(term, big.NewInt(k))
			if k%4 == 3 {
				part.Neg(part)
			}
			sum.Add(sum, part)
			term.Div(term, square)
		}
		return sum
	}
	sum := new(big.Int).Lsh(arctan(5), 3)
	sum.Sub(sum, new(big.Int).Lsh(arctan(239), 1))
	pi2 := new(big.Float).SetPrec(digits).SetInt(sum)
	return pi2.SetMantExp(pi2, -digits)
}

func TestReduceAngleIsAccurate(t *testing.T) {
	quarter := halfPi()
	r := rand.New(rand.NewPCG(5, 6))
	numbers := []float64{1, -2, math.Pi, 1 << 30, 1<<30 - 1, 6381956970095103 * 0x1p797, math.MaxFloat64, 0x1p1023}
	for e := -1; e < 1024; e++ {
		for range 20 {
			numbers = append(numbers, math.Ldexp(1+r.Float64(), e), -math.Ldexp(1+r.Float64(), e))
		}
	}
	for n := range 1000 { // near multiples of pi/2
		numbers = append(numbers, float64(n+1)*math.Pi/2)
	}
	for _, x := range numbers {
		got, quarters := reduceAngle(x)
		exact := new(big.Float).SetPrec(2 * digits).SetFloat64(x)
		turns := new(big.Float).SetPrec(2*digits).Quo(exact, quarter)
		turns.Add(turns, big.NewFloat(math.Copysign(0.5, x)))
		n, _ := turns.Int(nil)
		exact.Sub(exact, new(big.Float).SetPrec(2*digits).Mul(new(big.Float).SetPrec(2*digits).SetInt(n), quarter))
		require.Equal(t, new(big.Int).And(n, big.NewInt(3)).Int64(), int64(quarters), "%g", x)
		sum := new(big.Float).SetPrec(200).Add(big.NewFloat(got.high), big.NewFloat(got.low))
		off, _ := sum.Sub(sum, exact).Float64()
		want, _ := exact.Float64()
		require.LessOrEqual(t, math.Abs(off), math.Abs(want)*0x1p-62, "%g", x)
	}
}
