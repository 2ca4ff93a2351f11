package reduce

import "unsafe"

// counts counts the elements that have any of the bits of Flip.
func counts[T unsigned]() *Reducer {
	return kernel[T, int64]{
		along: func(acc *int64, x []T, _ int64, f *Finish) {
			for first := 0; first < len(x) && (f.What != Any || *acc == 0); first += countItems {
				part := x[first:min(first+countItems, len(x))]
				n := len(part) - countZeros(part, T(f.Flip))
				*acc += int64(n)
				if f.What == All && n < len(part) {
					return // not all elements are nonzero
				}
			}
		},
		across: eachRow(func(acc []int64, x []T, f *Finish) {
			mask := T(f.Flip)
			for i, v := range x[:len(acc)] {
				v &= mask
				acc[i] += int64((v | -v) >> (8*unsafe.Sizeof(v) - 1)) // 1 unless v is 0
			}
		}),
		merge: each(func(acc, other *int64) { *acc += *other }),
		store: storeCounts,
	}.reducer()
}

// countItems is the number of elements between checks for an early result of any and
// all.
const countItems = 8 << 10

// countZeros returns the number of elements without any bit of mask.
func countZeros[T unsigned](x []T, mask T) int {
	n, done := countZerosVectors(x, mask)
	for _, v := range x[done:] {
		if v&mask == 0 {
			n++
		}
	}
	return n
}

// word128 is an element of 16 bytes.
type word128 [2]uint64

func countWords() *Reducer {
	one := func(v word128, f *Finish) int64 {
		if (v[0]|v[1])&f.Flip != 0 {
			return 1
		}
		return 0
	}
	return kernel[word128, int64]{
		along: func(acc *int64, x []word128, _ int64, f *Finish) {
			for _, v := range x {
				*acc += one(v, f)
			}
		},
		across: eachRow(func(acc []int64, x []word128, f *Finish) {
			for i, v := range x {
				acc[i] += one(v, f)
			}
		}),
		merge: each(func(acc, other *int64) { *acc += *other }),
		store: storeCounts,
	}.reducer()
}

func storeCounts(acc []int64, out results, f *Finish) {
	switch f.What {
	case Any:
		storeEach(out, acc, func(n int64) bool { return n != 0 })
	case All:
		storeEach(out, acc, func(n int64) bool { return n == f.Total })
	default:
		storeEach(out, acc, func(n int64) int64 { return n })
	}
}
