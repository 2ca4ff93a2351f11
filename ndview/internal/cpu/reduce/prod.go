package reduce

func prodInteger[T integer]() *Reducer {
	return operation[T, int64]{
		none: 1,
		along: func(acc *int64, x []T, _ int64, _ *Finish) {
			a, b := int64(1), int64(1)
			for ; len(x) >= 2; x = x[2:] {
				a *= int64(x[0])
				b *= int64(x[1])
			}
			for _, v := range x {
				a *= int64(v)
			}
			*acc *= a * b
		},
		across: eachRow(func(acc []int64, x []T, _ *Finish) {
			for i, v := range x[:len(acc)] {
				acc[i] *= int64(v)
			}
		}),
		merge: each(func(acc, other *int64) { *acc *= *other }),
		store: func(acc []int64, out results, f *Finish) { storeIntegers[T](acc, out, f.To) },
	}.reducer()
}

// prodFloat multiplies in float64, so that products of smaller floats are rounded
// once.
func prodFloat[T float | float16 | bfloat16](widen func(T) float64) *Reducer {
	return operation[T, float64]{
		none: 1,
		along: func(acc *float64, x []T, _ int64, _ *Finish) {
			a, b := 1.0, 1.0
			for ; len(x) >= 2; x = x[2:] {
				a *= widen(x[0])
				b *= widen(x[1])
			}
			for _, v := range x {
				a *= widen(v)
			}
			*acc *= a * b
		},
		across: eachRow(func(acc []float64, x []T, _ *Finish) {
			for i, v := range x[:len(acc)] {
				acc[i] *= widen(v)
			}
		}),
		merge: each(func(acc, other *float64) { *acc *= *other }),
		store: func(acc []float64, out results, f *Finish) { storeFloats(acc, out, f.To) },
	}.reducer()
}

func prodComplex[T complex64 | complex128]() *Reducer {
	return operation[T, complex128]{
		none: 1,
		along: func(acc *complex128, x []T, _ int64, _ *Finish) {
			for _, v := range x {
				*acc *= complex128(v)
			}
		},
		across: eachRow(func(acc []complex128, x []T, _ *Finish) {
			for i, v := range x {
				acc[i] *= complex128(v)
			}
		}),
		merge: each(func(acc, other *complex128) { *acc *= *other }),
		store: func(acc []complex128, out results, f *Finish) { storeComplexes(acc, out, f.To) },
	}.reducer()
}
