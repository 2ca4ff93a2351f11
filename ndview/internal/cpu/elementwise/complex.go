package elementwise

import "math"

// pair is a complex number as its parts, whose arithmetic Go does as written.
type pair[R float] struct{ re, im R }

func addComplexes[C complexes, R float](l *[ops][Types]Loop, t Type) {
	l[Positive][t] = positive[C]
	l[Equal][t] = equal[C]
	l[NotEqual][t] = notEqual[C]
	l[LogicalNot][t] = logicalNot[C]
	l[Less][t] = each2(lessPair[R])
	l[LessEqual][t] = each2(lessEqualPair[R])
	l[Greater][t] = each2(func(x, y pair[R]) bool { return lessPair(y, x) })
	l[GreaterEqual][t] = each2(func(x, y pair[R]) bool { return lessEqualPair(y, x) })
	l[LogicalAnd][t] = each2(func(x, y pair[R]) bool { return x.truth() && y.truth() })
	l[LogicalOr][t] = each2(func(x, y pair[R]) bool { return x.truth() || y.truth() })
	l[LogicalXor][t] = each2(func(x, y pair[R]) bool { return x.truth() != y.truth() })
	l[IsNaN][t] = each1(pair[R].isNaN)
	l[IsInf][t] = each1(pair[R].isInf)
	l[IsFinite][t] = each1(func(x pair[R]) bool { return x.re-x.re == 0 && x.im-x.im == 0 })

	l[Add][t] = each2(func(x, y pair[R]) pair[R] { return pair[R]{x.re + y.re, x.im + y.im} })
	l[Subtract][t] = each2(func(x, y pair[R]) pair[R] { return pair[R]{x.re - y.re, x.im - y.im} })
	l[Multiply][t] = each2(product[R])
	l[Divide][t] = each2(ratio[R])
	l[Maximum][t] = each2(func(x, y pair[R]) pair[R] { return choose(lessEqualPair(y, x) || x.isNaN(), x, y) })
	l[Minimum][t] = each2(func(x, y pair[R]) pair[R] { return choose(lessEqualPair(x, y) || x.isNaN(), x, y) })
	l[Fmax][t] = each2(func(x, y pair[R]) pair[R] { return choose(lessEqualPair(y, x) || y.isNaN(), x, y) })
	l[Fmin][t] = each2(func(x, y pair[R]) pair[R] { return choose(lessEqualPair(x, y) || y.isNaN(), x, y) })

	l[Negative][t] = each1(func(x pair[R]) pair[R] { return pair[R]{-x.re, -x.im} })
	l[Conjugate][t] = each1(func(x pair[R]) pair[R] { return pair[R]{x.re, -x.im} })
	l[Square][t] = each1(func(x pair[R]) pair[R] { return product(x, x) })
	l[Reciprocal][t] = each1(reciprocalPair[R])
	l[Sign][t] = each1(signPair[R])
	l[Real][t] = each1(func(x pair[R]) R { return x.re })
	l[Imag][t] = each1(func(x pair[R]) R { return x.im })
	l[Angle][t] = each1(func(x pair[R]) R { return R(arctan2(float64(x.im), float64(x.re))) })
	for op, f := range map[Op]func(complex128) complex128{
		Sqrt: complexSqrt, Exp: complexExp,
		Log: complexLog, Log2: scaled(complexLog, math.Log2E), Log10: scaled(complexLog, math.Log10E),
		Sinh: complexSinh, Cosh: complexCosh, Tanh: complexTanh,
		Sin: sister(complexSinh), Cos: complexCos, Tan: sister(complexTanh),
		Exp2: complexExp2, Expm1: complexExpm1, Log1p: complexLog1p,
	} {
		l[op][t] = each1(throughComplex128[R](f))
	}
	l[Power][t] = each2(powerPair[R])
	l[Rint][t] = each1(func(x pair[R]) pair[R] {
		return pair[R]{R(math.RoundToEven(float64(x.re))), R(math.RoundToEven(float64(x.im)))}
	})
	l[Absolute][t] = each1(pair[R].size)
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

// The order is that of the real parts, then of the imaginary ones.
func lessPair[R float](x, y pair[R]) bool {
	return x.re < y.re && x.im == x.im && y.im == y.im || x.re == y.re && x.im < y.im
}

func lessEqualPair[R float](x, y pair[R]) bool {
	return x.re < y.re && x.im == x.im && y.im == y.im || x.re == y.re && x.im <= y.im
}

// The conversions keep the compiler from fusing a product with a sum.
func product[R float](x, y pair[R]) pair[R] {
	return pair[R]{R(x.re*y.re) - R(x.im*y.im), R(x.re*y.im) + R(x.im*y.re)}
}

// ratio is Smith's division, which NumPy has.
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
	size, angle := math.Exp2(x), y*math.Ln2
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
