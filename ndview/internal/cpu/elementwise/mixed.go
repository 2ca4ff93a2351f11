package elementwise

import "unsafe"

// Comparisons of an int64 with a uint64, which have no common type.
func addMixed(l *[ops][Types]Loop) {
	l[MixedEqual][Uint64] = mixed(func(x int64, y uint64) bool { return x >= 0 && uint64(x) == y })
	l[MixedNotEqual][Uint64] = mixed(func(x int64, y uint64) bool { return x < 0 || uint64(x) != y })
	l[MixedLess][Uint64] = mixed(func(x int64, y uint64) bool { return x < 0 || uint64(x) < y })
	l[MixedLessEqual][Uint64] = mixed(func(x int64, y uint64) bool { return x < 0 || uint64(x) <= y })
	l[MixedGreater][Uint64] = mixed(func(x int64, y uint64) bool { return x >= 0 && uint64(x) > y })
	l[MixedGreaterEqual][Uint64] = mixed(func(x int64, y uint64) bool { return x >= 0 && uint64(x) >= y })
}

func mixed(f func(x int64, y uint64) bool) Loop {
	return func(at *[4]unsafe.Pointer, n int) {
		x, y := unsafe.Slice((*int64)(at[1]), n), unsafe.Slice((*uint64)(at[2]), n)
		for i := range unsafe.Slice((*bool)(at[0]), n) {
			*(*bool)(unsafe.Add(at[0], i)) = f(x[i], y[i])
		}
	}
}
