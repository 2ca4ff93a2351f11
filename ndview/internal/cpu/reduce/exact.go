package reduce

import "unsafe"

// exact is a sum and what its additions lost.
type exact struct{ sum, rest float64 }

func (e *exact) add(x float64) {
	s := e.sum + x
	ofX := s - e.sum
	e.rest += (e.sum - (s - ofX)) + (x - ofX)
	e.sum = s
}

func (e *exact) merge(other *exact) {
	e.add(other.sum)
	e.rest += other.rest
}

// value is the sum; one that is infinite or overflowed has no rest.
func (e *exact) value() float64 {
	if v := e.sum + e.rest; v == v {
		return v
	}
	return e.sum
}

// values puts values where their sums were.
func values(acc []exact) []float64 {
	v := unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(acc))), len(acc))
	for i := valuesVectors(acc); i < len(acc); i++ {
		v[i] = acc[i].value()
	}
	return v
}

// addAll adds numbers in eights, whose sum is rounded thrice, and what that sum
// is added to loses nothing.
func addAll[T integer | float](e *exact, x []T) {
	for ; len(x) >= 8; x = x[8:] {
		a := (float64(x[0]) + float64(x[1])) + (float64(x[2]) + float64(x[3]))
		b := (float64(x[4]) + float64(x[5])) + (float64(x[6]) + float64(x[7]))
		e.add(a + b)
	}
	for _, v := range x {
		e.add(float64(v))
	}
}

// sumFloat64 adds numbers up as float64, and keeps what is lost.
func sumFloat64[T integer | float64](along func(acc *exact, x []T), across func(acc []exact, x grid[T])) *Reducer {
	return operation[T, exact]{
		along:  func(acc *exact, x []T, _ int64, _ *Finish) { along(acc, x) },
		across: func(acc []exact, x grid[T], _ int64, _ *Finish) { across(acc, x) },
		merge:  each(func(acc, other *exact) { acc.merge(other) }),
		store: func(acc []exact, out results, f *Finish) {
			storeFloats(meansOf(values(acc), f), out, f.To)
		},
	}.reducer()
}

// addEach adds rows of numbers to sums.
func addEach[T integer | float](acc []exact, x grid[T]) {
	for r := range x.rows {
		for i, v := range x.row(r)[:len(acc)] {
			acc[i].add(float64(v))
		}
	}
}

// addDoubles is addAll of elements in vectors.
func addDoubles(acc *exact, x []float64) {
	lanes, done := exactVectors(x)
	if done > 0 {
		for i := range lanes {
			acc.merge(&lanes[i])
		}
	}
	addAll(acc, x[done:])
}

// addEachDouble is addEach in vectors.
func addEachDouble(acc []exact, x grid[float64]) {
	for r := int64(0); r < x.rows; {
		rows, done := addExactVectors(acc, x, r)
		for last := r + rows; r < last; r++ {
			for i, v := range x.row(r)[done:] {
				acc[done+i].add(v)
			}
		}
	}
}

// twofold is a sum of complex numbers.
type twofold struct{ re, im exact }

func (t *twofold) add(v complex128) {
	t.re.add(real(v))
	t.im.add(imag(v))
}

func sumComplex[T complex64 | complex128]() *Reducer {
	return operation[T, twofold]{
		along: func(acc *twofold, x []T, _ int64, _ *Finish) {
			for _, v := range x {
				acc.add(complex128(v))
			}
		},
		across: eachRow(func(acc []twofold, x []T, _ *Finish) {
			for i, v := range x {
				acc[i].add(complex128(v))
			}
		}),
		merge: each(func(acc, other *twofold) {
			acc.re.merge(&other.re)
			acc.im.merge(&other.im)
		}),
		store: func(acc []twofold, out results, f *Finish) {
			// A complex sum is that of its real parts and that of its imaginary ones.
			parts := values(unsafe.Slice((*exact)(unsafe.Pointer(unsafe.SliceData(acc))), 2*len(acc)))
			meansOf(parts, f)
			sums := unsafe.Slice((*complex128)(unsafe.Pointer(unsafe.SliceData(parts))), len(acc))
			storeComplexes(sums, out, f.To)
		},
	}.reducer()
}
