package elementwise

import (
	"math"
	"math/bits"
)

// Functions of complex numbers, whose results are finite and right where the true
// ones are: math/cmplx has NaN for the tangent of 800i, and for a number that is
// infinite in one part only. kernels/complex_math.cu has the same.

func complexSqrt(z complex128) complex128 {
	x, y := real(z), imag(z)
	switch {
	case x == 0 && y == 0:
		return complex(0, y)
	case math.IsInf(y, 0):
		return complex(math.Inf(1), y)
	case math.IsInf(x, 0):
		nan := y != y
		switch {
		case x > 0 && nan:
			return z
		case x > 0:
			return complex(x, math.Copysign(0, y))
		case nan:
			return complex(y, math.Inf(1))
		}
		return complex(0, math.Copysign(math.Inf(1), y))
	}
	// A quarter, so that the sum does not overflow; small ones are made larger.
	scale, back := 0.25, 2.0
	if math.Abs(x) < 0x1p-1000 && math.Abs(y) < 0x1p-1000 {
		scale, back = 0x1p54, 0x1p-27
	}
	x, y = x*scale, y*scale
	t := math.Sqrt((math.Abs(x) + math.Hypot(x, y)) * 0.5)
	if x >= 0 {
		return complex(t*back, y/(2*t)*back)
	}
	return complex(math.Abs(y)/(2*t)*back, math.Copysign(t, y)*back)
}

func complexExp(z complex128) complex128 {
	x, y := real(z), imag(z)
	e := exp(x)
	switch {
	case y == 0:
		return complex(e, y)
	case y-y == 0:
		sine, cosine := math.Sincos(y)
		return complex(grown(x, cosine), grown(x, sine))
	case e == 0:
		return 0
	case math.IsInf(e, 0):
		return complex(e, math.NaN())
	}
	return complex(math.NaN(), math.NaN())
}

// grown is part * exp(x), which may be finite where exp(x) is not.
func grown(x, part float64) float64 {
	if x < 700 {
		return math.Exp(x) * part
	}
	half := math.Exp(x * 0.5)
	return half * part * half
}

// logarithm is math.Log, which on amd64 takes all numbers below the normal ones
// for one.
func logarithm(x float64) float64 {
	if x < 0x1p-1022 {
		return math.Log(x*0x1p54) - 54*math.Ln2
	}
	return math.Log(x)
}

func logarithm10(x float64) float64 {
	if x < 0x1p-1022 {
		return logarithm(x) / math.Ln10
	}
	return math.Log10(x)
}

// logarithm2 is exact for powers of 2, and loses nothing near 1, as math.Log2 does.
func logarithm2(x float64) float64 {
	fraction, exponent := math.Frexp(x)
	if fraction < math.Sqrt2/2 {
		fraction, exponent = 2*fraction, exponent-1
	}
	return float64(exponent) + math.Log(fraction)*math.Log2E
}

func complexLog(z complex128) complex128 {
	x, y := math.Abs(real(z)), math.Abs(imag(z))
	h := math.Hypot(x, y)
	var re float64
	switch {
	case h > 0.5 && h < 2: // near 1 the logarithm is small
		most, least := max(x, y), min(x, y)
		re = math.Log1p((most-1)*(most+1)+least*least) * 0.5
	case math.IsInf(h, 0) && !math.IsInf(x, 0) && !math.IsInf(y, 0):
		re = math.Log(math.Hypot(x*0.5, y*0.5)) + math.Ln2
	case h < 0x1p-1000: // where it has few digits
		re = math.Log(math.Hypot(x*0x1p54, y*0x1p54)) - 54*math.Ln2
	default:
		re = math.Log(h)
	}
	return complex(re, arctan2(imag(z), real(z)))
}

// scaled multiplies the results of a function, part by part: in a complex product
// an infinite part would make the other NaN.
func scaled(f func(complex128) complex128, by float64) func(complex128) complex128 {
	return func(z complex128) complex128 {
		w := f(z)
		return complex(real(w)*by, imag(w)*by)
	}
}

func complexSinh(z complex128) complex128 {
	x, y := real(z), imag(z)
	if y == 0 {
		return complex(sinh(x), y)
	}
	sine, cosine := math.Sincos(y)
	if large := math.Abs(x); large > 40 && y-y == 0 {
		return complex(math.Copysign(0.5, x)*grown(large, cosine), 0.5*grown(large, sine))
	}
	return complex(math.Sinh(x)*cosine, math.Cosh(x)*sine)
}

func complexCosh(z complex128) complex128 {
	x, y := real(z), imag(z)
	if x == 0 || y == 0 {
		return complex(cosh(x)*math.Cos(y), math.Copysign(0, x)*y)
	}
	sine, cosine := math.Sincos(y)
	if large := math.Abs(x); large > 40 && y-y == 0 {
		return complex(0.5*grown(large, cosine), math.Copysign(0.5, x)*grown(large, sine))
	}
	return complex(math.Cosh(x)*cosine, math.Sinh(x)*sine)
}

func complexTanh(z complex128) complex128 {
	x, y := real(z), imag(z)
	sine, cosine := math.Sincos(y)
	if math.Abs(x) > 20 && y-y == 0 {
		return complex(math.Copysign(1, x), 4*sine*cosine*math.Exp(-2*math.Abs(x)))
	}
	t, s := tangent(y), math.Sinh(x)
	beta, rho := 1+t*t, math.Sqrt(1+s*s)
	d := 1 + beta*s*s
	return complex(beta*rho*s/d, t/d)
}

// sister is the function of a right angle that f is of a hyperbola: f(iz)/i.
func sister(f func(complex128) complex128) func(complex128) complex128 {
	return func(z complex128) complex128 {
		w := f(complex(-imag(z), real(z)))
		return complex(imag(w), -real(w))
	}
}

func complexCos(z complex128) complex128 { return complexCosh(complex(-imag(z), real(z))) }

// complexPower takes small whole powers by products, as NumPy does: they are exact
// where the parts are small integers.
func complexPower(x, y complex128) complex128 {
	n := real(y)
	switch {
	case y == 0:
		return 1
	case x == 0 && n > 0:
		return 0
	case x == 0:
		return complex(math.NaN(), math.NaN())
	case imag(y) == 0 && n == math.Trunc(n) && math.Abs(n) < 100:
		whole := int(math.Abs(n))
		r := x
		for bit := bits.Len(uint(whole)) - 2; bit >= 0; bit-- {
			r = times(r, r)
			if whole>>bit&1 != 0 {
				r = times(r, x)
			}
		}
		if n < 0 {
			q := reciprocalPair(pair[float64]{real(r), imag(r)})
			r = complex(q.re, q.im)
		}
		return r
	}
	return complexExp(times(y, complexLog(x)))
}

// times is the product as it is written; Go's own has other NaNs.
func times(x, y complex128) complex128 {
	return complex(float64(real(x)*real(y))-float64(imag(x)*imag(y)), float64(real(x)*imag(y))+float64(imag(x)*real(y)))
}
