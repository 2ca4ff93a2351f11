package reduce

import "unsafe"

// counts counts elements that have any of the bits of Flip.
func counts[T unsigned]() *Reducer {
	return operation[T, int64]{
		along: func(acc *int64, x []T, _ int64, f *Finish) {
			for first := 0; first < len(x) && (f.What != Any || *acc == 0); first += counted {
				part := x[first:min(first+counted, len(x))]
				n := len(part) - zeros(part, T(f.Flip))
				*acc += int64(n)
				if f.What == All && n < len(part) {
					return // the count can no longer be that of all
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

// counted is how many elements are counted before it is asked whether that is
// enough.
const counted = 8 << 10

// zeros is how many elements have no bit of mask.
func zeros[T unsigned](x []T, mask T) int {
	n, done := zeroVectors(x, mask)
	for _, v := range x[done:] {
		if v&mask == 0 {
			n++
		}
	}
	return n
}

// words is an element of 16 bytes.
type words [2]uint64

func countWords() *Reducer {
	one := func(v words, f *Finish) int64 {
		if (v[0]|v[1])&f.Flip != 0 {
			return 1
		}
		return 0
	}
	return operation[words, int64]{
		along: func(acc *int64, x []words, _ int64, f *Finish) {
			for _, v := range x {
				*acc += one(v, f)
			}
		},
		across: eachRow(func(acc []int64, x []words, f *Finish) {
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
		write(out, acc, func(n int64) bool { return n != 0 })
	case All:
		write(out, acc, func(n int64) bool { return n == f.Total })
	default:
		write(out, acc, func(n int64) int64 { return n })
	}
}
