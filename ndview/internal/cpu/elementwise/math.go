package elementwise

import "math"

// addMath adds what is computed in float64 whatever the type, so that a float32
// is right to its last bit but one.
func addMath[T float](l *[ops][Types]Loop, t Type) {
	for op, f := range map[Op]func(float64) float64{
		Cbrt: math.Cbrt, Exp: exp, Exp2: math.Exp2, Expm1: math.Expm1,
		Log: logarithm, Log2: logarithm2, Log10: logarithm10, Log1p: math.Log1p,
		Sin: sine, Cos: cosine, Tan: tangent,
		Arcsin: arcsin, Arccos: arccos, Arctan: math.Atan,
		Sinh: sinh, Cosh: cosh, Tanh: math.Tanh,
		Arcsinh: math.Asinh, Arccosh: math.Acosh, Arctanh: math.Atanh,
	} {
		l[op][t] = each1(func(x T) T { return T(f(float64(x))) })
	}
	l[Angle][t] = each1(func(x T) T {
		switch {
		case x != x:
			return x
		case math.Signbit(float64(x)):
			return T(math.Pi)
		}
		return 0
	})
	l[Power][t] = each2(func(x, y T) T { return T(pow(float64(x), float64(y))) })
	l[Arctan2][t] = each2(func(y, x T) T { return T(arctan2(float64(y), float64(x))) })
	l[Hypot][t] = each2(func(x, y T) T { return T(math.Hypot(float64(x), float64(y))) })
	l[Nextafter][t] = each2(nextafter[T])
}

// nextafter is y where that equals x, of a zero with its sign.
func nextafter[T float](x, y T) T {
	if x == y {
		return y
	}
	if v, ok := any(x).(float32); ok {
		return T(math.Nextafter32(v, float32(y)))
	}
	return T(math.Nextafter(float64(x), float64(y)))
}
