package reduce

import "unsafe"

// counts counts elements that have any of the bits of Flip.
func counts[T unsigned]() *Reducer {
	return operation[T, int64]{
		along: func(acc *int64, x []T, _ int64, f *Finish) {
			mask := T(f.Flip)
			n := len(x)
			for _, v := range x {
				if v&mask == 0 {
					n--
				}
			}
			*acc += int64(n)
		},
		across: func(acc []int64, x []T, _ int64, f *Finish) {
			mask := T(f.Flip)
			for i, v := range x[:len(acc)] {
				if v&mask != 0 {
					acc[i]++
				}
			}
		},
		merge: func(acc, other *int64) { *acc += *other },
		store: storeCount,
	}.reducer()
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
		across: func(acc []int64, x []words, _ int64, f *Finish) {
			for i, v := range x {
				acc[i] += one(v, f)
			}
		},
		merge: func(acc, other *int64) { *acc += *other },
		store: storeCount,
	}.reducer()
}

func storeCount(acc *int64, out unsafe.Pointer, f *Finish) {
	switch f.What {
	case Any:
		*(*bool)(out) = *acc != 0
	case All:
		*(*bool)(out) = *acc == f.Total
	default:
		*(*int64)(out) = *acc
	}
}
