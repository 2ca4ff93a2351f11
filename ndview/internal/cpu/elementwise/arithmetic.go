package elementwise

import "unsafe"

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
