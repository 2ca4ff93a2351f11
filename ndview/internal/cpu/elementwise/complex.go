package elementwise

import (
	"math"
	"math/bits"
)

// pair is a complex number as two parts, so that its arithmetic is exactly as written.
type pair[R float] struct{ re, im R }

func addComplexes[C complexes, R float](l *[ops][Types]Loop, t Type) {
	l[Positive][t] = positive[C]
	l[Equal][t] = equal[C]
	l[NotEqual][t] = notEqual[C]
	l[LogicalNot][t] = logicalNot[C]
	l[Less][t] = binaryLoop(lessPair[R])
	l[LessEqual][t] = binaryLoop(lessEqualPair[R])
	l[Greater][t] = binaryLoop(func(x, y pair[R]) bool { return lessPair(y, x) })
	l[GreaterEqual][t] = binaryLoop(func(x, y pair[R]) bool { return lessEqualPair(y, x) })
	l[LogicalAnd][t] = binaryLoop(func(x, y pair[R]) bool { return x.truth() && y.truth() })
	l[LogicalOr][t] = binaryLoop(func(x, y pair[R]) bool { return x.truth() || y.truth() })
	l[LogicalXor][t] = binaryLoop(func(x, y pair[R]) bool { return x.truth() != y.truth() })
	l[IsNaN][t] = unaryLoop(pair[R].isNaN)
	l[IsInf][t] = unaryLoop(pair[R].isInf)
	l[IsFinite][t] = unaryLoop(func(x pair[R]) bool { return x.re-x.re == 0 && x.im-x.im == 0 })

	l[Add][t] = binaryLoop(func(x, y pair[R]) pair[R] { return pair[R]{x.re + y.re, x.im + y.im} })
	l[Subtract][t] = binaryLoop(func(x, y pair[R]) pair[R] { return pair[R]{x.re - y.re, x.im - y.im} })
	l[Multiply][t] = binaryLoop(product[R])
	l[Divide][t] = binaryLoop(ratio[R])
	l[Maximum][t] = binaryLoop(func(x, y pair[R]) pair[R] { return choose(lessEqualPair(y, x) || x.isNaN(), x, y) })
	l[Minimum][t] = binaryLoop(func(x, y pair[R]) pair[R] { return choose(lessEqualPair(x, y) || x.isNaN(), x, y) })
	l[Fmax][t] = binaryLoop(func(x, y pair[R]) pair[R] { return choose(lessEqualPair(y, x) || y.isNaN(), x, y) })
	l[Fmin][t] = binaryLoop(func(x, y pair[R]) pair[R] { return choose(lessEqualPair(x, y) || y.isNaN(), x, y) })

	l[Negative][t] = unaryLoop(func(x pair[R]) pair[R] { return pair[R]{-x.re, -x.im} })
	l[Conjugate][t] = unaryLoop(func(x pair[R]) pair[R] { return pair[R]{x.re, -x.im} })
	l[Square][t] = unaryLoop(func(x pair[R]) pair[R] { return product(x, x) })
	l[Reciprocal][t] = unaryLoop(reciprocalPair[R])
	l[Sign][t] = unaryLoop(signPair[R])
	l[Real][t] = unaryLoop(func(x pair[R]) R { return x.re })
	l[Imag][t] = unaryLoop(func(x pair[R]) R { return x.im })
	l[Angle][t] = unaryLoop(func(x pair[R]) R { return R(arctan2(float64(x.im), float64(x.re))) })
	for op, f := range map[Op]func(complex128) complex128{
		Sqrt: complexSqrt, Exp: complexExp,
		Log: complexLog, Log2: scaled(complexLog, math.Log2E), Log10: scaled(complexLog, math.Log10E),
		Sinh: complexSinh, Cosh: complexCosh, Tanh: complexTanh,
		Sin: sister(complexSinh), Cos: complexCos, Tan: sister(complexTanh),
		Exp2: complexExp2, Expm1: complexExpm1, Log1p: complexLog1p,
	} {
		l[op][t] = unaryLoop(throughComplex128[R](f))
	}
	l[Power][t] = binaryLoop(powerPair[R])
	l[Rint][t] = unaryLoop(func(x pair[R]) pair[R] {
		return pair[R]{R(math.RoundToEven(float64(x.re))), R(math.RoundToEven(float64(x.im)))}
	})
	l[Absolute][t] = unaryLoop(pair[R].size)
}

func throughComplex128[R float](f func(complex128) complex128) func(pair[R]) pair[R] {
	return func(x pair[R]) pair[R] {
		r := f(complex(float64(x.re), float64(x.im)))
		return pair[R]{R(real(r)), R(imag(r))}
	}
}

func powerPair[R float](x, y pair[R]) pair[R] {
	r := complexPower(complex(float64(x.re), float64(x.im)), complex(float64(y.re), float64(y.im)))
	return pair[R]{R(real(r)), R(imag(r))}
}

func choose[T any](which bool, x, y T) T {
	if which {
		return x
	}
	return y
}

func (x pair[R]) truth() bool { return x.re != 0 || x.im != 0 }
func (x pair[R]) isNaN() bool { return x.re != x.re || x.im != x.im }
func (x pair[R]) isInf() bool { return math.IsInf(float64(x.re), 0) || math.IsInf(float64(x.im), 0) }
func (x pair[R]) size() R     { return R(math.Hypot(float64(x.re), float64(x.im))) }

// Lexicographic order: real parts first, then imaginary parts.
func lessPair[R float](x, y pair[R]) bool {
	return x.re < y.re && x.im == x.im && y.im == y.im || x.re == y.re && x.im < y.im
}

func lessEqualPair[R float](x, y pair[R]) bool {
	return x.re < y.re && x.im == x.im && y.im == y.im || x.re == y.re && x.im <= y.im
}

// The conversions prevent the compiler from fusing a product with a sum.
func product[R float](x, y pair[R]) pair[R] {
	return pair[R]{R(x.re*y.re) - R(x.im*y.im), R(x.re*y.im) + R(x.im*y.re)}
}

// ratio is Smith's division, as in NumPy.
func ratio[R float](x, y pair[R]) pair[R] {
	re, im := R(math.Abs(float64(y.re))), R(math.Abs(float64(y.im)))
	switch {
	case re >= im && re == 0 && im == 0:
		return pair[R]{x.re / re, x.im / re}
	case re >= im:
		r := y.im / y.re
		scale := 1 / (y.re + R(y.im*r))
		return pair[R]{(x.re + R(x.im*r)) * scale, (x.im - R(x.re*r)) * scale}
	default:
		r := y.re / y.im
		scale := 1 / (y.im + R(y.re*r))
		return pair[R]{(R(x.re*r) + x.im) * scale, (R(x.im*r) - x.re) * scale}
	}
}

func reciprocalPair[R float](x pair[R]) pair[R] {
	if math.Abs(float64(x.im)) <= math.Abs(float64(x.re)) {
		r := x.im / x.re
		d := x.re + R(x.im*r)
		return pair[R]{1 / d, -r / d}
	}
	r := x.re / x.im
	d := R(x.re*r) + x.im
	return pair[R]{r / d, -1 / d}
}

// signPair is x / |x|.
func signPair[R float](x pair[R]) pair[R] {
	size := x.size()
	re, im := math.IsInf(float64(x.re), 0), math.IsInf(float64(x.im), 0)
	switch {
	case size == 0:
		return pair[R]{}
	case re && !im && x.im == x.im:
		return pair[R]{signFloat(x.re), 0}
	case im && !re && x.re == x.re:
		return pair[R]{0, signFloat(x.im)}
	}
	return pair[R]{x.re / size, x.im / size}
}

func complexExpm1(z complex128) complex128 {
	x, y := real(z), imag(z)
	if y == 0 {
		return complex(math.Expm1(x), y)
	}
	sine := math.Sin(y / 2)
	return complex(math.Expm1(x)*math.Cos(y)-2*sine*sine, grown(x, math.Sin(y)))
}

// exp2 multiplies by the logarithm of 2 with more digits than a float64 has,
// where the angle needs them.
func complexExp2(z complex128) complex128 {
	const low = 2.319046813846299558e-17 // ln 2 less its float64
	x, y := real(z), imag(z)
	size, angle := math.Exp2(x), float64(y*math.Ln2) // rounded, not fused with the sum below
	if y == 0 {
		return complex(size, y)
	}
	rest := math.FMA(y, math.Ln2, -angle) + y*low
	sine, cosine := math.Sincos(angle)
	sineOfRest, cosineOfRest := math.Sincos(rest)
	return complex(size*(cosine*cosineOfRest-sine*sineOfRest), size*(sine*cosineOfRest+cosine*sineOfRest))
}

// log1p is exact to the size of the number also where its square cancels it.
func complexLog1p(z complex128) complex128 {
	x, y := real(z), imag(z)
	if math.Abs(x) < 0.5 && math.Abs(y) < 0.5 {
		return complex(0.5*math.Log1p(x*(2+x)+y*y), arctan2(y, 1+x))
	}
	return complexLog(complex(1+x, y))
}

// The functions of complex numbers below are finite and accurate if the exact results
// are. Those of math/cmplx return NaN for the tangent of 800i, and for numbers that are
// infinite in one part only. kernels/elementwise/complex_math.cu is the same code.

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
	// Scaled by a quarter, so that the sum does not overflow; tiny numbers are scaled
	// up.
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

// grown returns part * exp(x), which may be finite although exp(x) is not.
func grown(x, part float64) float64 {
	if x < 700 {
		return math.Exp(x) * part
	}
	half := math.Exp(x * 0.5)
	return half * part * half
}

// logarithm replaces math.Log, which on amd64 treats subnormal numbers as normal.
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

// logarithm2 is exact for powers of 2, and as accurate near 1 as math.Log2.
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
	case h < 0x1p-1000: // subnormal h has few digits
		re = math.Log(math.Hypot(x*0x1p54, y*0x1p54)) - 54*math.Ln2
	default:
		re = math.Log(h)
	}
	return complex(re, arctan2(imag(z), real(z)))
}

// scaled multiplies both parts of a function's results. In a complex product an
// infinite part would make the other one NaN.
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

// sister returns f(iz)/i, a trigonometric function in terms of a hyperbolic one.
func sister(f func(complex128) complex128) func(complex128) complex128 {
	return func(z complex128) complex128 {
		w := f(complex(-imag(z), real(z)))
		return complex(imag(w), -real(w))
	}
}

func complexCos(z complex128) complex128 { return complexCosh(complex(-imag(z), real(z))) }

// complexPower multiplies for small integral exponents, as NumPy does. Results are then
// exact if the parts are small integers.
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

// times is the product as written; Go's operator has other NaNs.
func times(x, y complex128) complex128 {
	return complex(float64(real(x)*real(y))-float64(imag(x)*imag(y)), float64(real(x)*imag(y))+float64(imag(x)*real(y)))
}
