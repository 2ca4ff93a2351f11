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
	// Across adds rows of n elements to n accumulators. Elements of a row are
	// stride bytes apart, rows pitch bytes; the first is step number of the
	// results, and those that follow are the next.
	Across func(acc, from unsafe.Pointer, n, stride, rows, pitch, number int64, f *Finish)
	// Merge adds n accumulators to n others, whose steps come first.
	Merge func(acc, other unsafe.Pointer, n int64)
	// Number says that step s of n accumulators is in truth s*by + plus.
	Number func(acc unsafe.Pointer, n, by, plus int64)
	// Store writes n results, stride bytes apart, and leaves the accumulators
	// undefined.
	Store func(acc, out unsafe.Pointer, n, stride int64, f *Finish)
}

// operation is a Reducer over slices.
type operation[T, A any] struct {
	none   A
	along  func(acc *A, x []T, number int64, f *Finish)
	across func(acc []A, x grid[T], number int64, f *Finish)
	merge  func(acc, other []A)
	number func(acc *A, by, plus int64) // nil where steps have no numbers
	store  func(acc []A, out results, f *Finish)
}

func (o operation[T, A]) reducer() *Reducer {
	var element T
	size := int64(unsafe.Sizeof(element))
	gathers := newGathers[T]()
	return &Reducer{
		Element: size,
		Size:    int64(unsafe.Sizeof(o.none)),
		None: func(acc unsafe.Pointer, n int64) {
			accs := unsafe.Slice((*A)(acc), n)
			accs[0] = o.none
			for done := 1; done < len(accs); done *= 2 {
				copy(accs[done:], accs[:done])
			}
		},
		Along: func(acc, from unsafe.Pointer, n, stride, number int64, f *Finish) {
			gathers.each(from, n, stride, 1, 0, func(_, first int64, x grid[T]) {
				o.along((*A)(acc), x.row(0), number+first, f)
			})
		},
		Across: func(acc, from unsafe.Pointer, n, stride, rows, pitch, number int64, f *Finish) {
			accs := unsafe.Slice((*A)(acc), n)
			gathers.each(from, n, stride, rows, pitch, func(row, first int64, x grid[T]) {
				o.across(accs[first:first+x.width], x, number+row, f)
			})
		},
		Merge: func(acc, other unsafe.Pointer, n int64) {
			o.merge(unsafe.Slice((*A)(acc), n), unsafe.Slice((*A)(other), n))
		},
		Number: func(acc unsafe.Pointer, n, by, plus int64) {
			if o.number == nil {
				return
			}
			accs := unsafe.Slice((*A)(acc), n)
			for i := range accs {
				o.number(&accs[i], by, plus)
			}
		},
		Store: func(acc, out unsafe.Pointer, n, stride int64, f *Finish) {
			o.store(unsafe.Slice((*A)(acc), n), results{out, stride}, f)
		},
	}
}

// eachRow is across of an operation that takes one row after the other.
func eachRow[T, A any](add func(acc []A, x []T, f *Finish)) func([]A, grid[T], int64, *Finish) {
	return func(acc []A, x grid[T], _ int64, f *Finish) {
		for r := range x.rows {
			add(acc, x.row(r), f)
		}
	}
}

// each is merge or the like of an operation that takes one accumulator after the
// other.
func each[A any](merge func(acc, other *A)) func(acc, other []A) {
	return func(acc, other []A) {
		for i := range acc {
			merge(&acc[i], &other[i])
		}
	}
}

// results is where results go, stride bytes apart.
type results struct {
	at     unsafe.Pointer
	stride int64
}

// write writes what become of accumulators.
func write[R, A any](to results, acc []A, as func(A) R) {
	for i, a := range acc {
		*(*R)(to.of(i)) = as(a)
	}
}

func (r results) of(i int) unsafe.Pointer { return unsafe.Add(r.at, int64(i)*r.stride) }

// dense is results of a type that have no gaps, which ok tells.
func dense[R any](r results, n int) (to []R, ok bool) {
	var result R
	if r.stride != int64(unsafe.Sizeof(result)) && n > 1 {
		return nil, false
	}
	return unsafe.Slice((*R)(r.at), n), true
}
