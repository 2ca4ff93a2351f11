package elementwise

import "unsafe"

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
	l[Reciprocal][t] = each1(func(x T) T { return quotient(1, x) })
	l[FloorDivide][t] = each2(floorDivide[T])
	l[Remainder][t] = each2(remainder[T])
	l[Fmod][t] = each2(modulus[T])
	l[Power][t] = each2(power[T])
}

// each1 and each2 are loops of operations that cost more than a call.
func each1[T, R any](f func(x T) R) Loop {
	return func(at *[4]unsafe.Pointer, n int) {
		out, x := unary[T, R](at, n)
		for i := range out {
			out[i] = f(x[i])
		}
	}
}

func each2[T, R any](f func(x, y T) R) Loop {
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

// A count of bits that is negative is a large one here.
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

// quotient rounds towards zero, and is 0 where y is.
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

// power is x to the y, rounded towards zero where y is negative.
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
