package elementwise

import "unsafe"

func addCompare[T ordinary](l *[ops][Types]Loop, t Type) {
	l[Equal][t] = equal[T]
	l[NotEqual][t] = notEqual[T]
	l[Less][t] = less[T]
	l[LessEqual][t] = lessEqual[T]
	l[Greater][t] = greater[T]
	l[GreaterEqual][t] = greaterEqual[T]
	l[LogicalAnd][t] = logicalAnd[T]
	l[LogicalOr][t] = logicalOr[T]
	l[LogicalXor][t] = logicalXor[T]
	l[LogicalNot][t] = logicalNot[T]
}

func equal[T comparable](at *[4]unsafe.Pointer, n int) {
	out, x, y := binary[T, bool](at, n)
	for i := range out {
		out[i] = x[i] == y[i]
	}
}

func notEqual[T comparable](at *[4]unsafe.Pointer, n int) {
	out, x, y := binary[T, bool](at, n)
	for i := range out {
		out[i] = x[i] != y[i]
	}
}

func less[T ordinary](at *[4]unsafe.Pointer, n int) {
	out, x, y := binary[T, bool](at, n)
	for i := range out {
		out[i] = x[i] < y[i]
	}
}

func lessEqual[T ordinary](at *[4]unsafe.Pointer, n int) {
	out, x, y := binary[T, bool](at, n)
	for i := range out {
		out[i] = x[i] <= y[i]
	}
}

func greater[T ordinary](at *[4]unsafe.Pointer, n int) {
	swapped := [4]unsafe.Pointer{at[0], at[2], at[1]}
	less[T](&swapped, n)
}

func greaterEqual[T ordinary](at *[4]unsafe.Pointer, n int) {
	swapped := [4]unsafe.Pointer{at[0], at[2], at[1]}
	lessEqual[T](&swapped, n)
}

func logicalAnd[T ordinary](at *[4]unsafe.Pointer, n int) {
	out, x, y := binary[T, bool](at, n)
	for i := range out {
		out[i] = x[i] != 0 && y[i] != 0
	}
}

func logicalOr[T ordinary](at *[4]unsafe.Pointer, n int) {
	out, x, y := binary[T, bool](at, n)
	for i := range out {
		out[i] = x[i] != 0 || y[i] != 0
	}
}

func logicalXor[T ordinary](at *[4]unsafe.Pointer, n int) {
	out, x, y := binary[T, bool](at, n)
	for i := range out {
		out[i] = (x[i] != 0) != (y[i] != 0)
	}
}

func logicalNot[T comparable](at *[4]unsafe.Pointer, n int) {
	out, x := unary[T, bool](at, n)
	var zero T
	for i := range out {
		out[i] = x[i] == zero
	}
}
