package reduce

import "unsafe"

// Reducer is an operation of reductions for elements of one type. An accumulator
// holds what became of some elements.
type Reducer struct {
	Element int64 // bytes of an element
	Size    int64 // bytes of an accumulator
	// None makes n accumulators of no elements.
	None func(acc unsafe.Pointer, n int64)
	// Along adds n elements, stride bytes apart, to one accumulator. The first is
	// step number of its result.
	Along func(acc, from unsafe.Pointer, n, stride, number int64, f *Finish)
	// Across adds one of n elements to each of n accumulators; all are step number
	// of their results.
	Across func(acc, from unsafe.Pointer, n, stride, number int64, f *Finish)
	// Merge adds n accumulators to n others, whose steps come first.
	Merge func(acc, other unsafe.Pointer, n int64)
	// Number says that step s of n accumulators is in truth s*by + plus.
	Number func(acc unsafe.Pointer, n, by, plus int64)
	// Store writes n results, stride bytes apart.
	Store func(acc, out unsafe.Pointer, n, stride int64, f *Finish)
}

// operation is a Reducer over slices.
type operation[T, A any] struct {
	none   A
	along  func(acc *A, x []T, number int64, f *Finish)
	across func(acc []A, x []T, number int64, f *Finish)
	merge  func(acc, other *A)
	number func(acc *A, by, plus int64) // nil where steps have no numbers
	store  func(acc *A, out unsafe.Pointer, f *Finish)
}

// gatherAt is how many elements with gaps are put together at a time.
const gatherAt = 512

func (o operation[T, A]) reducer() *Reducer {
	var element T
	size := int64(unsafe.Sizeof(element))
	return &Reducer{
		Element: size,
		Size:    int64(unsafe.Sizeof(o.none)),
		None: func(acc unsafe.Pointer, n int64) {
			for i := range unsafe.Slice((*A)(acc), n) {
				unsafe.Slice((*A)(acc), n)[i] = o.none
			}
		},
		Along: func(acc, from unsafe.Pointer, n, stride, number int64, f *Finish) {
			pieces(from, n, stride, size, func(first int64, x []T) { o.along((*A)(acc), x, number+first, f) })
		},
		Across: func(acc, from unsafe.Pointer, n, stride, number int64, f *Finish) {
			pieces(from, n, stride, size, func(first int64, x []T) {
				o.across(unsafe.Slice((*A)(acc), n)[first:first+int64(len(x))], x, number, f)
			})
		},
		Merge: func(acc, other unsafe.Pointer, n int64) {
			to, from := unsafe.Slice((*A)(acc), n), unsafe.Slice((*A)(other), n)
			for i := range to {
				o.merge(&to[i], &from[i])
			}
		},
		Number: func(acc unsafe.Pointer, n, by, plus int64) {
			if o.number == nil {
				return
			}
			for i := range n {
				o.number((*A)(unsafe.Add(acc, i*int64(unsafe.Sizeof(o.none)))), by, plus)
			}
		},
		Store: func(acc, out unsafe.Pointer, n, stride int64, f *Finish) {
			for i, a := range unsafe.Slice((*A)(acc), n) {
				o.store(&a, unsafe.Add(out, int64(i)*stride), f)
			}
		},
	}
}

// pieces calls do with n elements, in place where they have no gaps and lie as Go
// wants them.
func pieces[T any](from unsafe.Pointer, n, stride, size int64, do func(first int64, x []T)) {
	var element T
	if stride == size && uintptr(from)%unsafe.Alignof(element) == 0 {
		do(0, unsafe.Slice((*T)(from), n))
		return
	}
	var block [gatherAt]T
	for first := int64(0); first < n; first += gatherAt {
		x := block[:min(gatherAt, n-first)]
		for i := range x {
			at := unsafe.Add(from, (first+int64(i))*stride)
			copy(unsafe.Slice((*byte)(unsafe.Pointer(&x[i])), size), unsafe.Slice((*byte)(at), size))
		}
		do(first, x)
	}
}
