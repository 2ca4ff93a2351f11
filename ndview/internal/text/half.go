package text

import (
	"math"
	"strconv"
	"strings"
)

// Half is the value of an IEEE 754 half-precision number.
func Half(bits uint16) float64 {
	sign := 1 - 2*float64(bits>>15)
	exponent, fraction := int(bits>>10&0x1f), float64(bits&0x3ff)
	switch exponent {
	case 0:
		return sign * math.Ldexp(fraction, -24)
	case 0x1f:
		if fraction != 0 {
			return math.NaN()
		}
		return sign * math.Inf(1)
	default:
		return sign * math.Ldexp(1024+fraction, exponent-25)
	}
}

// HalfOf is the half-precision number that is nearest to a positive value.
func HalfOf(v float64) uint16 {
	exponent := max(math.Ilogb(v), -14)
	units := math.RoundToEven(math.Ldexp(v, 10-exponent)) // of the last bit
	return uint16(min(float64((exponent+14)<<10)+units, 0x7c00))
}

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
	bits := HalfOf(size)
	low := (size + Half(bits-1)) / 2
	high := (size + Half(bits+1)) / 2
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
