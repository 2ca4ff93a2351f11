package elementwise

import "unsafe"

func addChoices(l *[ops][Types]Loop) {
	l[Where][Uint8] = where[uint8]
	l[Where][Uint16] = where[uint16]
	l[Where][Uint32], l[Where][Float32] = where[uint32], where[uint32]
	l[Where][Uint64], l[Where][Float64], l[Where][Complex64] = where[uint64], where[uint64], where[uint64]
	l[Where][Complex128] = where[[2]uint64]
}

// where has both elements at hand before it chooses, so that the compiler needs
// no branch.
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
