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

func addChoices(l *[ops][Types]Loop) {
	l[Where][Uint8] = where[uint8]
	l[Where][Uint16] = where[uint16]
	l[Where][Uint32], l[Where][Float32] = where[uint32], where[uint32]
	l[Where][Uint64], l[Where][Float64], l[Where][Complex64] = where[uint64], where[uint64], where[uint64]
	l[Where][Complex128] = where[[2]uint64]
}

// where loads both elements before it chooses, so that the compiler needs no branch.
func where[T any](at *[4]unsafe.Pointer, n int) {
	out, condition := unsafe.Slice((*T)(at[0]), n), unsafe.Slice((*bool)(at[1]), n)
	x, y := unsafe.Slice((*T)(at[2]), n), unsafe.Slice((*T)(at[3]), n)
	for i := range out {
		v, other := y[i], x[i]
		if condition[i] {
			v = other
		}
		out[i] = v
	}
}

func clip[T ordinary](at *[4]unsafe.Pointer, n int) {
	out, x := unary[T, T](at, n)
	low, high := unsafe.Slice((*T)(at[2]), n), unsafe.Slice((*T)(at[3]), n)
	for i := range out {
		v := x[i]
		if l := low[i]; v == v && !(v > l) {
			v = l
		}
		if h := high[i]; v == v && !(v < h) {
			v = h
		}
		out[i] = v
	}
}

// addMixed adds comparisons of an int64 with a uint64, which have no common type.
func addMixed(l *[ops][Types]Loop) {
	l[MixedEqual][Uint64] = mixedComparison(func(x int64, y uint64) bool { return x >= 0 && uint64(x) == y })
	l[MixedNotEqual][Uint64] = mixedComparison(func(x int64, y uint64) bool { return x < 0 || uint64(x) != y })
	l[MixedLess][Uint64] = mixedComparison(func(x int64, y uint64) bool { return x < 0 || uint64(x) < y })
	l[MixedLessEqual][Uint64] = mixedComparison(func(x int64, y uint64) bool { return x < 0 || uint64(x) <= y })
	l[MixedGreater][Uint64] = mixedComparison(func(x int64, y uint64) bool { return x >= 0 && uint64(x) > y })
	l[MixedGreaterEqual][Uint64] = mixedComparison(func(x int64, y uint64) bool { return x >= 0 && uint64(x) >= y })
}

func mixedComparison(f func(x int64, y uint64) bool) Loop {
	return func(at *[4]unsafe.Pointer, n int) {
		x, y := unsafe.Slice((*int64)(at[1]), n), unsafe.Slice((*uint64)(at[2]), n)
		for i := range unsafe.Slice((*bool)(at[0]), n) {
			*(*bool)(unsafe.Add(at[0], i)) = f(x[i], y[i])
		}
	}
}
