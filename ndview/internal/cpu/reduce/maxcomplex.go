package reduce

import "math"

// least is under all complex numbers.
var least = complex(math.Inf(-1), math.Inf(-1))

// overComplex goes by the real parts, then the imaginary ones.
func overComplex(a, b complex128) bool {
	if nanA, nanB := isNaN(a), isNaN(b); nanA || nanB {
		return nanA && !nanB
	}
	return real(a) > real(b) || real(a) == real(b) && imag(a) > imag(b)
}

func isNaN(x complex128) bool { return math.IsNaN(real(x)) || math.IsNaN(imag(x)) }

// turn turns the order of complex numbers around if f says so.
func turn(v complex128, f *Finish) complex128 {
	if f.Flip != 0 {
		return -v
	}
	return v
}

// maxComplex finds the first of the greatest, several of which may be neither less
// nor greater than each other: NaNs above all.
func maxComplex[T complex64 | complex128]() *Reducer {
	return firstComplex[T](func(acc []place[complex128], out results, f *Finish) {
		write(out, acc, func(p place[complex128]) T { return T(turn(p.best, f)) })
	})
}

// argMaxComplex finds where that is.
func argMaxComplex[T complex64 | complex128]() *Reducer {
	return firstComplex[T](storePlaces[complex128])
}

func firstComplex[T complex64 | complex128](store func(acc []place[complex128], out results, f *Finish)) *Reducer {
	type best = place[complex128]
	add := func(acc *best, v complex128, number int64) {
		if overComplex(v, acc.best) || acc.number == nowhere {
			acc.best, acc.number = v, number
		}
	}
	return operation[T, best]{
		none: best{best: least, number: nowhere},
		along: func(acc *best, x []T, number int64, f *Finish) {
			for i, v := range x {
				add(acc, turn(complex128(v), f), number+int64(i))
			}
		},
		across: func(acc []best, x grid[T], number int64, f *Finish) {
			for r := range x.rows {
				for i, v := range x.row(r) {
					add(&acc[i], turn(complex128(v), f), number+r)
				}
			}
		},
		merge: each(func(acc, other *best) {
			over := overComplex(other.best, acc.best)
			if over || other.number < acc.number && !overComplex(acc.best, other.best) {
				*acc = *other
			}
		}),
		number: func(acc *best, by, plus int64) { acc.renumber(by, plus) },
		store:  store,
	}.reducer()
}
