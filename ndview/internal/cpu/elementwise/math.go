package elementwise

import (
	"math"

	"github.com/quiver-gpu/quiver/ndview/internal/half"
)

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
	if t == Float32 {
		l[NextafterFloat16][t] = each2(func(x, y T) T {
			return T(nextafterHalf(float32(x), float32(y), half.Float32ToFloat16, half.Float16ToFloat32))
		})
		l[NextafterBFloat16][t] = each2(func(x, y T) T {
			return T(nextafterHalf(float32(x), float32(y), half.Float32ToBFloat16, half.BFloat16ToFloat32))
		})
	}
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

// nextafterHalf is nextafter of floats that are halves, whose bits rise with their size.
func nextafterHalf(x, y float32, narrow func(float32) uint16, widen func(uint16) float32) float32 {
	switch {
	case x != x || y != y:
		return x + y
	case x == y:
		return y
	case x == 0:
		return widen(narrow(float32(math.Copysign(0, float64(y)))) | 1)
	case (x < y) == (x > 0):
		return widen(narrow(x) + 1)
	}
	return widen(narrow(x) - 1)
}
