package text

import (
	"math"
	"strconv"
	"strings"

	"github.com/quiver-gpu/quiver/ndview/internal/half"
)

// shortest writes a number with as few digits as tell it from the other numbers
// of its precision; where two are as near, the last digit is even.
func shortest(v float64, form byte, bits int) string {
	if bits == 16 {
		if v != 0 {
			v = fewDigits(v)
		}
		return strconv.FormatFloat(v, form, -1, 64)
	}
	s := strconv.FormatFloat(v, form, -1, bits)
	mantissa, _, _ := strings.Cut(s, "e")
	_, fraction, _ := strings.Cut(mantissa, ".")
	even := strconv.FormatFloat(v, form, len(fraction), 64)
	if back, err := strconv.ParseFloat(even, bits); err == nil && back == v {
		return even
	}
	return s
}

// fewDigits is the decimal number with the fewest digits between a half's
// neighbours, and of those the nearest: 0.1 for 0.0999755859375.
func fewDigits(v float64) float64 {
	size := math.Abs(v)
	bits := half.Float64ToFloat16(size)
	low := (size + float64(half.Float16ToFloat32(bits-1))) / 2
	high := (size + float64(half.Float16ToFloat32(bits+1))) / 2
	if bits == 0x7bff { // the next is infinity
		high = 2*size - low
	}
	for digits := 1; ; digits++ {
		unit := math.Pow10(int(math.Floor(math.Log10(size))) + 1 - digits)
		best, units := math.Inf(1), 0.0
		for _, n := range []float64{math.Floor(size / unit), math.Ceil(size / unit)} {
			c, _ := strconv.ParseFloat(strconv.FormatFloat(n*unit, 'g', digits+1, 64), 64)
			inside := c > low && c < high || (c == low || c == high) && bits%2 == 0
			far := math.Abs(c-size) - math.Abs(best-size)
			if inside && (far < 0 || far == 0 && math.Mod(units, 2) == 1) {
				best, units = c, n
			}
		}
		if !math.IsInf(best, 1) {
			return math.Copysign(best, v)
		}
	}
}
