package elementwise

import (
	"math"
	"unsafe"
)

func addArithmetic[T ordinary](l *[ops][Types]Loop, t Type) {
	l[Add][t] = add[T]
	l[Subtract][t] = subtract[T]
	l[Multiply][t] = multiply[T]
	l[Square][t] = square[T]
	l[Positive][t] = positive[T]
	l[Negative][t] = negative[T]
	l[Imag][t] = func(at *[4]unsafe.Pointer, n int) { clear(unsafe.Slice((*T)(at[0]), n)) }
	l[Clip][t] = clip[T]
	addCompare[T](l, t)
}

func add[T ordinary](at *[4]unsafe.Pointer, n int) {
	out, x, y := binary[T, T](at, n)
	for i := range out {
		out[i] = x[i] + y[i]
	}
}

func subtract[T ordinary](at *[4]unsafe.Pointer, n int) {
	out, x, y := binary[T, T](at, n)
	for i := range out {
		out[i] = x[i] - y[i]
	}
}

func multiply[T ordinary](at *[4]unsafe.Pointer, n int) {
	out, x, y := binary[T, T](at, n)
	for i := range out {
		out[i] = x[i] * y[i]
	}
}

func square[T ordinary](at *[4]unsafe.Pointer, n int) {
	out, x := unary[T, T](at, n)
	for i := range out {
		out[i] = x[i] * x[i]
	}
}

func positive[T any](at *[4]unsafe.Pointer, n int) {
	out, x := unary[T, T](at, n)
	copy(out, x)
}

func negative[T ordinary](at *[4]unsafe.Pointer, n int) {
	out, x := unary[T, T](at, n)
	for i := range out {
		out[i] = -x[i]
	}
}

func addIntegers[T integer](l *[ops][Types]Loop, t Type) {
	addArithmetic[T](l, t)
	l[Maximum][t], l[Fmax][t] = maximum[T], maximum[T]
	l[Minimum][t], l[Fmin][t] = minimum[T], minimum[T]
	l[And][t] = and[T]
	l[Or][t] = or[T]
	l[Xor][t] = xor[T]
	l[Invert][t] = invert[T]
	l[LeftShift][t] = leftShift[T]
	l[RightShift][t] = rightShift[T]
	l[Absolute][t] = absolute[T]
	l[Sign][t] = sign[T]
	l[Reciprocal][t] = unaryLoop(func(x T) T { return quotient(1, x) })
	l[FloorDivide][t] = binaryLoop(floorDivide[T])
	l[Remainder][t] = binaryLoop(remainder[T])
	l[Fmod][t] = binaryLoop(modulus[T])
	l[Power][t] = binaryLoop(power[T])
}

// unaryLoop and binaryLoop make loops from functions that cost more than a call.
func unaryLoop[T, R any](f func(x T) R) Loop {
	return func(at *[4]unsafe.Pointer, n int) {
		out, x := unary[T, R](at, n)
		for i := range out {
			out[i] = f(x[i])
		}
	}
}

func binaryLoop[T, R any](f func(x, y T) R) Loop {
	return func(at *[4]unsafe.Pointer, n int) {
		out, x, y := binary[T, R](at, n)
		for i := range out {
			out[i] = f(x[i], y[i])
		}
	}
}

func maximum[T integer](at *[4]unsafe.Pointer, n int) {
	out, x, y := binary[T, T](at, n)
	for i := range out {
		out[i] = max(x[i], y[i])
	}
}

func minimum[T integer](at *[4]unsafe.Pointer, n int) {
	out, x, y := binary[T, T](at, n)
	for i := range out {
		out[i] = min(x[i], y[i])
	}
}

func and[T integer](at *[4]unsafe.Pointer, n int) {
	out, x, y := binary[T, T](at, n)
	for i := range out {
		out[i] = x[i] & y[i]
	}
}

func or[T integer](at *[4]unsafe.Pointer, n int) {
	out, x, y := binary[T, T](at, n)
	for i := range out {
		out[i] = x[i] | y[i]
	}
}

func xor[T integer](at *[4]unsafe.Pointer, n int) {
	out, x, y := binary[T, T](at, n)
	for i := range out {
		out[i] = x[i] ^ y[i]
	}
}

func invert[T integer](at *[4]unsafe.Pointer, n int) {
	out, x := unary[T, T](at, n)
	for i := range out {
		out[i] = ^x[i]
	}
}

// A negative shift count converts to a large one.
func leftShift[T integer](at *[4]unsafe.Pointer, n int) {
	out, x, y := binary[T, T](at, n)
	for i := range out {
		out[i] = x[i] << uint64(y[i])
	}
}

func rightShift[T integer](at *[4]unsafe.Pointer, n int) {
	out, x, y := binary[T, T](at, n)
	for i := range out {
		out[i] = x[i] >> uint64(y[i])
	}
}

func absolute[T integer](at *[4]unsafe.Pointer, n int) {
	out, x := unary[T, T](at, n)
	for i, v := range x {
		if v < 0 {
			v = -v
		}
		out[i] = v
	}
}

func sign[T integer](at *[4]unsafe.Pointer, n int) {
	out, x := unary[T, T](at, n)
	for i, v := range x {
		var s T
		if v > 0 {
			s = 1
		}
		if v < 0 {
			s--
		}
		out[i] = s
	}
}

// quotient rounds towards zero. Division by zero gives 0.
func quotient[T integer](x, y T) T {
	if y == 0 {
		return 0
	}
	return x / y
}

func floorDivide[T integer](x, y T) T {
	if y == 0 {
		return 0
	}
	q := x / y
	if r := x - q*y; r != 0 && r < 0 != (y < 0) {
		q--
	}
	return q
}

func remainder[T integer](x, y T) T {
	if y == 0 {
		return 0
	}
	r := x % y
	if r != 0 && r < 0 != (y < 0) {
		r += y
	}
	return r
}

func modulus[T integer](x, y T) T {
	if y == 0 {
		return 0
	}
	return x % y
}

// power returns x to the y. For negative y it is rounded towards zero.
func power[T integer](x, y T) T {
	if y < 0 {
		switch {
		case x == 1:
			return 1
		case x+1 == 0:
			return 1 - 2*(y&1)
		}
		return 0
	}
	r := T(1)
	for ; y > 0; y >>= 1 {
		if y&1 != 0 {
			r *= x
		}
		x *= x
	}
	return r
}

func addFloats[T float](l *[ops][Types]Loop, t Type) {
	addArithmetic[T](l, t)
	l[Divide][t] = divide[T]
	l[Maximum][t] = maximumNaN[T]
	l[Minimum][t] = minimumNaN[T]
	l[Fmax][t] = fmax[T]
	l[Fmin][t] = fmin[T]
	l[Absolute][t] = absoluteFloat[T]
	l[Sqrt][t] = sqrt[T]
	l[Reciprocal][t] = reciprocal[T]
	l[IsNaN][t] = isNaN[T]
	l[IsInf][t] = isInf[T]
	l[IsFinite][t] = isFinite[T]
	l[Signbit][t] = unaryLoop(func(x T) bool { return math.Signbit(float64(x)) })
	l[Sign][t] = unaryLoop(signFloat[T])
	l[Floor][t] = unaryLoop(func(x T) T { return T(math.Floor(float64(x))) })
	l[Ceil][t] = unaryLoop(func(x T) T { return T(math.Ceil(float64(x))) })
	l[Trunc][t] = unaryLoop(func(x T) T { return T(math.Trunc(float64(x))) })
	l[Rint][t] = unaryLoop(func(x T) T { return T(math.RoundToEven(float64(x))) })
	l[Copysign][t] = binaryLoop(func(x, y T) T { return T(math.Copysign(float64(x), float64(y))) })
	l[FloorDivide][t] = binaryLoop(floorDivideFloat[T])
	l[Remainder][t] = binaryLoop(remainderFloat[T])
	l[Fmod][t] = binaryLoop(mod[T])
	addMath[T](l, t)
}

func divide[T float](at *[4]unsafe.Pointer, n int) {
	out, x, y := binary[T, T](at, n)
	for i := range out {
		out[i] = x[i] / y[i]
	}
}

func maximumNaN[T float](at *[4]unsafe.Pointer, n int) {
	out, x, y := binary[T, T](at, n)
	for i := range out {
		v := y[i]
		if x[i] >= v || x[i] != x[i] {
			v = x[i]
		}
		out[i] = v
	}
}

func minimumNaN[T float](at *[4]unsafe.Pointer, n int) {
	out, x, y := binary[T, T](at, n)
	for i := range out {
		v := y[i]
		if x[i] <= v || x[i] != x[i] {
			v = x[i]
		}
		out[i] = v
	}
}

func fmax[T float](at *[4]unsafe.Pointer, n int) {
	out, x, y := binary[T, T](at, n)
	for i := range out {
		v := y[i]
		if x[i] >= v || v != v {
			v = x[i]
		}
		out[i] = v
	}
}

func fmin[T float](at *[4]unsafe.Pointer, n int) {
	out, x, y := binary[T, T](at, n)
	for i := range out {
		v := y[i]
		if x[i] <= v || v != v {
			v = x[i]
		}
		out[i] = v
	}
}

func absoluteFloat[T float](at *[4]unsafe.Pointer, n int) {
	out, x := unary[T, T](at, n)
	for i, v := range x {
		out[i] = T(math.Abs(float64(v)))
	}
}

// The float32 root computed in float64 and rounded again is correctly rounded.
func sqrt[T float](at *[4]unsafe.Pointer, n int) {
	out, x := unary[T, T](at, n)
	for i, v := range x {
		out[i] = T(math.Sqrt(float64(v)))
	}
}

func reciprocal[T float](at *[4]unsafe.Pointer, n int) {
	out, x := unary[T, T](at, n)
	for i, v := range x {
		out[i] = 1 / v
	}
}

func isNaN[T float](at *[4]unsafe.Pointer, n int) {
	out, x := unary[T, bool](at, n)
	for i, v := range x {
		out[i] = v != v
	}
}

// x - x is NaN for infinities and NaNs only.
func isFinite[T float](at *[4]unsafe.Pointer, n int) {
	out, x := unary[T, bool](at, n)
	for i, v := range x {
		out[i] = v-v == 0
	}
}

func isInf[T float](at *[4]unsafe.Pointer, n int) {
	out, x := unary[T, bool](at, n)
	for i, v := range x {
		out[i] = v == v && v-v != 0
	}
}

func signFloat[T float](x T) T {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	case x == 0:
		return 0
	}
	return x
}

func mod[T float](x, y T) T { return T(math.Mod(float64(x), float64(y))) }

// remainderFloat has the sign of y, even if it is zero.
func remainderFloat[T float](x, y T) T {
	r := mod(x, y)
	switch {
	case y == 0 || r != r:
		return r
	case r == 0:
		return T(math.Copysign(0, float64(y)))
	case r < 0 != (y < 0):
		return r + y
	}
	return r
}

// floorDivideFloat is Python's x // y, as exactly as the type allows.
func floorDivideFloat[T float](x, y T) T {
	if y == 0 {
		return x / y
	}
	r := mod(x, y)
	q := (x - r) / y
	if r != 0 && r < 0 != (y < 0) {
		q--
	}
	if q == 0 {
		return T(math.Copysign(0, float64(x/y)))
	}
	whole := T(math.Floor(float64(q)))
	if q-whole > 0.5 {
		whole++
	}
	return whole
}

// nat is NaT, "not a time".
const nat = math.MinInt64

func addTimes(l *[ops][Types]Loop) {
	for op, f := range map[Op]func(x, y int64) int64{
		TimeAdd:       propagateNaT(func(x, y int64) int64 { return x + y }),
		TimeSubtract:  propagateNaT(func(x, y int64) int64 { return x - y }),
		TimeMultiply:  propagateNaT(func(x, y int64) int64 { return x * y }),
		TimeMaximum:   func(x, y int64) int64 { return choose(x == nat || y != nat && x >= y, x, y) },
		TimeMinimum:   func(x, y int64) int64 { return choose(x == nat || y != nat && x <= y, x, y) },
		TimeFmax:      func(x, y int64) int64 { return choose(y == nat || x != nat && x >= y, x, y) },
		TimeFmin:      func(x, y int64) int64 { return choose(y == nat || x != nat && x <= y, x, y) },
		TimeDivide:    natIfZero(quotient[int64]),
		TimeRemainder: propagateNaT(natIfZero(remainder[int64])),
		TimeQuotient: func(x, y int64) int64 {
			if x == nat || y == nat {
				return 0
			}
			return floorDivide(x, y)
		},
	} {
		l[op][Int64] = binaryLoop(f)
	}
	for op, f := range map[Op]func(x, y int64) bool{
		TimeEqual:        func(x, y int64) bool { return x == y && x != nat },
		TimeNotEqual:     func(x, y int64) bool { return x != y || x == nat },
		TimeLess:         func(x, y int64) bool { return x < y && x != nat },
		TimeLessEqual:    func(x, y int64) bool { return x <= y && x != nat },
		TimeGreater:      func(x, y int64) bool { return x > y && y != nat },
		TimeGreaterEqual: func(x, y int64) bool { return x >= y && y != nat },
	} {
		l[op][Int64] = binaryLoop(f)
	}
	l[TimeIsNaN][Int64] = unaryLoop(func(x int64) bool { return x == nat })
	l[TimeIsFinite][Int64] = unaryLoop(func(x int64) bool { return x != nat })
	l[TimeNegative][Int64] = negative[int64]
	l[TimeAbsolute][Int64] = absolute[int64]
}

func propagateNaT(f func(x, y int64) int64) func(x, y int64) int64 {
	return func(x, y int64) int64 {
		if x == nat || y == nat {
			return nat
		}
		return f(x, y)
	}
}

// natIfZero returns NaT for division by zero and for a NaT dividend.
func natIfZero(f func(x, y int64) int64) func(x, y int64) int64 {
	return func(x, y int64) int64 {
		if x == nat || y == 0 {
			return nat
		}
		return f(x, y)
	}
}
