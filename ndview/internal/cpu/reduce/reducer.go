package reduce

import (
	"unsafe"

	"github.com/quiver-gpu/quiver/ndview/internal/half"
)

// Reducer is a reduction for one element type. An accumulator represents the elements
// reduced so far.
type Reducer struct {
	Element int64 // bytes per element
	Size    int64 // bytes per accumulator
	// None initializes n accumulators of no elements.
	None func(acc unsafe.Pointer, n int64)
	// Along adds n elements, stride bytes apart, to one accumulator. The first is step
	// number of its result.
	Along func(acc, from unsafe.Pointer, n, stride, number int64, f *Finish)
	// Across adds rows of n elements to n accumulators. Elements of a row are stride
	// bytes apart, rows pitch bytes. The first row is step number of the results, the
	// others follow.
	Across func(acc, from unsafe.Pointer, n, stride, rows, pitch, number int64, f *Finish)
	// Merge merges n accumulators into n others, whose steps come first.
	Merge func(acc, other unsafe.Pointer, n int64)
	// Renumber replaces step number s of n accumulators by s*by + plus.
	Renumber func(acc unsafe.Pointer, n, by, plus int64)
	// Store writes n results, stride bytes apart. It may overwrite the accumulators.
	Store func(acc, out unsafe.Pointer, n, stride int64, f *Finish)
}

// kernel is a reduction over slices, from which reducer makes a Reducer.
type kernel[T, A any] struct {
	none     A
	along    func(acc *A, x []T, number int64, f *Finish)
	across   func(acc []A, x grid[T], number int64, f *Finish)
	merge    func(acc, other []A)
	renumber func(acc *A, by, plus int64) // nil if step numbers do not matter
	store    func(acc []A, out results, f *Finish)
}

func (o kernel[T, A]) reducer() *Reducer {
	var element T
	size := int64(unsafe.Sizeof(element))
	gathers := newGatherBuffers[T]()
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
		Renumber: func(acc unsafe.Pointer, n, by, plus int64) {
			if o.renumber == nil {
				return
			}
			accs := unsafe.Slice((*A)(acc), n)
			for i := range accs {
				o.renumber(&accs[i], by, plus)
			}
		},
		Store: func(acc, out unsafe.Pointer, n, stride int64, f *Finish) {
			o.store(unsafe.Slice((*A)(acc), n), results{out, stride}, f)
		},
	}
}

// eachRow makes across from a function of one row.
func eachRow[T, A any](add func(acc []A, x []T, f *Finish)) func([]A, grid[T], int64, *Finish) {
	return func(acc []A, x grid[T], _ int64, f *Finish) {
		for r := range x.rows {
			add(acc, x.row(r), f)
		}
	}
}

// each makes merge from a function of one accumulator.
func each[A any](merge func(acc, other *A)) func(acc, other []A) {
	return func(acc, other []A) {
		for i := range acc {
			merge(&acc[i], &other[i])
		}
	}
}

// results is the address of results, stride bytes apart.
type results struct {
	at     unsafe.Pointer
	stride int64
}

// storeEach writes the results of accumulators.
func storeEach[R, A any](to results, acc []A, as func(A) R) {
	for i, a := range acc {
		*(*R)(to.pointer(i)) = as(a)
	}
}

func (r results) pointer(i int) unsafe.Pointer { return unsafe.Add(r.at, int64(i)*r.stride) }

// dense returns the results as a slice; ok reports whether they are contiguous.
func dense[R any](r results, n int) (to []R, ok bool) {
	var result R
	if r.stride != int64(unsafe.Sizeof(result)) && n > 1 {
		return nil, false
	}
	return unsafe.Slice((*R)(r.at), n), true
}

// Reducers are all reductions by the names of their kernels: operation and element
// type, as in "sum_f32".
var Reducers = map[string]*Reducer{
	"sum_u8":    sumInteger[uint8](),
	"sum_i8":    sumInteger[int8](),
	"sum_u16":   sumInteger[uint16](),
	"sum_i16":   sumInteger[int16](),
	"sum_u32":   sumInteger[uint32](),
	"sum_i32":   sumInteger[int32](),
	"sum_u64":   sumInteger[uint64](),
	"sum_i64":   sumInteger[int64](),
	"sum_f16":   sumHalf[float16](half.Float16sToFloat32s),
	"sum_bf16":  sumHalf[bfloat16](half.BFloat16sToFloat32s),
	"sum_f32":   sumFloat32(),
	"sum_f64":   sumFloat64(addDoubles, addEachDouble),
	"sum_c64":   sumComplex[complex64](),
	"sum_c128":  sumComplex[complex128](),
	"sum_ticks": sumTimes(),
	"mean_u32":  sumFloat64(addAll[uint32], addEach[uint32]),
	"mean_i32":  sumFloat64(addAll[int32], addEach[int32]),
	"mean_u64":  sumFloat64(addAll[uint64], addEach[uint64]),
	"mean_i64":  sumFloat64(addAll[int64], addEach[int64]),

	"prod_u8":   prodInteger[uint8](),
	"prod_i8":   prodInteger[int8](),
	"prod_u16":  prodInteger[uint16](),
	"prod_i16":  prodInteger[int16](),
	"prod_u32":  prodInteger[uint32](),
	"prod_i32":  prodInteger[int32](),
	"prod_u64":  prodInteger[uint64](),
	"prod_i64":  prodInteger[int64](),
	"prod_f16":  prodFloat(func(x float16) float64 { return float64(half.Float16ToFloat32(uint16(x))) }),
	"prod_bf16": prodFloat(func(x bfloat16) float64 { return float64(half.BFloat16ToFloat32(uint16(x))) }),
	"prod_f32":  prodFloat(func(x float32) float64 { return float64(x) }),
	"prod_f64":  prodFloat(func(x float64) float64 { return x }),
	"prod_c64":  prodComplex[complex64](),
	"prod_c128": prodComplex[complex128](),

	"max_8":    maxima(integerKeys[uint8, int8]()),
	"max_16":   maxima(integerKeys[uint16, int16]()),
	"max_32":   maxima(integerKeys[uint32, int32]()),
	"max_64":   maxima(integerKeys[uint64, int64]()),
	"max_f16":  maxima(floatKeys[uint16, int16](0x7c00, false)),
	"max_bf16": maxima(floatKeys[uint16, int16](0x7f80, false)),
	"max_f32":  maxima(floatKeys[uint32, int32](0x7f800000, false)),
	"max_f64":  maxima(floatKeys[uint64, int64](0x7ff0000000000000, false)),
	"max_c64":  maxComplex[complex64](),
	"max_c128": maxComplex[complex128](),

	"argmax_8":    argMaxima(integerKeys[uint8, int8]()),
	"argmax_16":   argMaxima(integerKeys[uint16, int16]()),
	"argmax_32":   argMaxima(integerKeys[uint32, int32]()),
	"argmax_64":   argMaxima(integerKeys[uint64, int64]()),
	"argmax_f16":  argMaxima(floatKeys[uint16, int16](0x7c00, true)),
	"argmax_bf16": argMaxima(floatKeys[uint16, int16](0x7f80, true)),
	"argmax_f32":  argMaxima(floatKeys[uint32, int32](0x7f800000, true)),
	"argmax_f64":  argMaxima(floatKeys[uint64, int64](0x7ff0000000000000, true)),
	"argmax_c64":  argMaxComplex[complex64](),
	"argmax_c128": argMaxComplex[complex128](),

	"count_8":   counts[uint8](),
	"count_16":  counts[uint16](),
	"count_32":  counts[uint32](),
	"count_64":  counts[uint64](),
	"count_128": countWords(),
	"count":     counts[uint8](), // for merging accumulators only
}
