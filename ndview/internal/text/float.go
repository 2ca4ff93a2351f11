package text

import (
	"math"
	"strconv"
	"strings"

	"github.com/quiver-gpu/quiver/ndview/internal/half"
)

// precision is how many digits NumPy shows behind the point.
const precision = 8

// Floats are the words of real elements of 16, 32 or 64 bits, in one width. All
// are written with an exponent where one must be: an element is large or tiny,
// or two are a factor of more than 1000 apart.
func Floats(values []float64, bits int) []string { return floats(values, bits, false) }

// Complexes are the words of complex elements whose parts have 32 or 64 bits.
func Complexes(values []complex128, bits int) []string {
	re, im := make([]float64, len(values)), make([]float64, len(values))
	for i, v := range values {
		re[i], im[i] = real(v), imag(v)
	}
	words := floats(re, bits, false)
	for i, imaginary := range floats(im, bits, true) {
		digits := strings.TrimRight(imaginary, " ")
		words[i] += digits + "j" + imaginary[len(digits):]
	}
	return words
}

// floats prints with a plus before positive numbers, or without.
func floats(values []float64, bits int, plus bool) []string {
	scientific := wantExponent(values, bits)
	var left, right, exponent int // the widest parts
	finite := 0
	for _, v := range values {
		if math.IsInf(v, 0) || math.IsNaN(v) {
			continue
		}
		finite++
		whole, fraction, exp := split(v, bits, plus, scientific, 0, precision)
		left, right, exponent = max(left, len(whole)), max(right, len(fraction)), max(exponent, len(exp)-1)
	}
	digits := right
	if scientific {
		right = exponent + 2 + digits
	}
	for _, v := range values {
		if math.IsInf(v, 0) || math.IsNaN(v) {
			left = max(left, len(special(v, plus))-right-1)
			if plus { // as wide as an infinity, whether there is one or not
				left = max(left, len("+inf")-right-1)
			}
		}
	}
	words := make([]string, len(values))
	for i, v := range values {
		if math.IsInf(v, 0) || math.IsNaN(v) {
			word := special(v, plus)
			words[i] = strings.Repeat(" ", left+right+1-len(word)) + word
			continue
		}
		if scientific {
			whole, fraction, exp := split(v, bits, plus, true, digits, digits)
			exp = exp[:1] + strings.Repeat("0", exponent-len(exp)+1) + exp[1:]
			words[i] = pad(whole, left) + "." + fraction + strings.Repeat("0", digits-len(fraction)) + "e" + exp
			continue
		}
		whole, fraction, _ := split(v, bits, plus, false, 0, precision)
		words[i] = pad(whole, left) + "." + fraction + strings.Repeat(" ", right-len(fraction))
	}
	return words
}

// wantExponent compares in the precision of the elements, as NumPy does.
func wantExponent(values []float64, bits int) bool {
	low, high := math.Inf(1), 0.0
	for _, v := range values {
		if v = math.Abs(v); v > 0 && !math.IsInf(v, 0) {
			low, high = min(low, v), max(high, v)
		}
	}
	switch {
	case high == 0:
		return false
	case bits == 16: // 1e3 because an element has 3 digits
		return high >= 1e3 || low < toHalf(1e-4) || toHalf(high/low) > 1000
	case bits == 32:
		return high >= 1e6 || float32(low) < 1e-4 || float32(high)/float32(low) > 1000
	default:
		return high >= 1e8 || low < 1e-4 || high/low > 1000
	}
}

func toHalf(v float64) float64 { return float64(half.Float16ToFloat32(half.Float64ToFloat16(v))) }

// split writes a finite number and takes it apart. It has as many digits behind
// the point as tell it from its neighbours, but no less than atLeast of the
// number's exact digits, and no more than atMost.
func split(v float64, bits int, plus, scientific bool, atLeast, atMost int) (whole, fraction, exponent string) {
	form := byte('f')
	if scientific {
		form = 'e'
	}
	s := shortest(v, form, bits)
	mantissa, exponent, _ := strings.Cut(s, "e")
	whole, fraction, _ = strings.Cut(mantissa, ".")
	if n := min(max(len(fraction), atLeast), atMost); n != len(fraction) {
		mantissa, exponent, _ = strings.Cut(strconv.FormatFloat(v, form, n, 64), "e")
		whole, fraction, _ = strings.Cut(mantissa, ".")
		if atLeast == 0 {
			fraction = strings.TrimRight(fraction, "0")
		}
	}
	if plus && whole[0] != '-' {
		whole = "+" + whole
	}
	return whole, fraction, exponent
}

// special writes what is no number.
func special(v float64, plus bool) string {
	switch {
	case math.IsNaN(v) && plus:
		return "+nan"
	case math.IsNaN(v):
		return "nan"
	case v < 0:
		return "-inf"
	case plus:
		return "+inf"
	default:
		return "inf"
	}
}

func pad(s string, width int) string { return strings.Repeat(" ", max(width-len(s), 0)) + s }

// Float is str of a single real number.
func Float(v float64, bits int) string {
	s := number(v, bits)
	if !strings.ContainsAny(s, ".en") { // nor of inf and nan
		s += ".0"
	}
	return s
}

// Complex is str of a single complex number.
func Complex(v complex128, bits int) string {
	im := number(imag(v), bits)
	if im[0] != '-' {
		im = "+" + im
	}
	im += "j"
	if real(v) == 0 && !math.Signbit(real(v)) {
		return strings.TrimPrefix(im, "+")
	}
	return "(" + number(real(v), bits) + im + ")"
}

// positional is where a single number begins to have an exponent, for each width.
var positional = map[int]float64{16: 1e3, 32: 1e6, 64: 1e16}

// number writes a number as Python does, without a point where none is needed.
func number(v float64, bits int) string {
	switch size := math.Abs(v); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return special(v, false)
	case size == 0 || size >= 1e-4 && size < positional[bits]:
		return shortest(v, 'f', bits)
	default:
		return shortest(v, 'e', bits)
	}
}

// BFloat is a bfloat16 as ml_dtypes prints it: C's %g.
func BFloat(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return special(v, false)
	}
	s := strconv.FormatFloat(v, 'e', 5, 64)
	mantissa, exponent, _ := strings.Cut(s, "e")
	if e, _ := strconv.Atoi(exponent); e >= -4 && e < 6 {
		return trimZeros(strconv.FormatFloat(v, 'f', 5-e, 64))
	}
	return trimZeros(mantissa) + "e" + exponent
}

func trimZeros(s string) string {
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}
