package reduce

import (
	"math"
	"unsafe"
)

// Maxima, and minima as maxima of elements whose order is turned around, as
// kernels/reduce_ops.cuh has them. An order says how elements of type T compare,
// as values of type W; a NaN is over all numbers.
type order[T, W any] struct {
	lowest W
	of     func(x T, f *Finish) W
	back   func(w W, f *Finish) T
	over   func(a, b W) bool
	pick   func(a, b W) W // one that the other is not over
	// best is that of w and all of x which no other is over.
	best func(w W, x []T, f *Finish) W
	// eachBest is best of each w and x.
	eachBest func(w []W, x []T, f *Finish)
}

type unsigned interface {
	uint8 | uint16 | uint32 | uint64
}

type signed interface{ int8 | int16 | int32 | int64 }

func integerOrder[U unsigned, S signed]() order[U, S] {
	var zero U
	return order[U, S]{
		lowest: S(U(1) << (8*unsafe.Sizeof(zero) - 1)),
		of:     func(x U, f *Finish) S { return S((x ^ U(f.Flip)) + U(f.Bias)) },
		back:   func(w S, f *Finish) U { return (U(w) - U(f.Bias)) ^ U(f.Flip) },
		over:   func(a, b S) bool { return a > b },
		pick:   func(a, b S) S { return max(a, b) },
		best: func(w S, x []U, f *Finish) S {
			flip, bias := U(f.Flip), U(f.Bias)
			a, b, c, d := w, w, w, w
			for ; len(x) >= 4; x = x[4:] {
				a = max(a, S((x[0]^flip)+bias))
				b = max(b, S((x[1]^flip)+bias))
				c = max(c, S((x[2]^flip)+bias))
				d = max(d, S((x[3]^flip)+bias))
			}
			for _, v := range x {
				a = max(a, S((v^flip)+bias))
			}
			return max(a, b, c, d)
		},
		eachBest: func(w []S, x []U, f *Finish) {
			flip, bias := U(f.Flip), U(f.Bias)
			for i, v := range x[:len(w)] {
				w[i] = max(w[i], S((v^flip)+bias))
			}
		},
	}
}

func overFloat[W float](a, b W) bool { return a > b || a != a && b == b }

func turn[W float](w W, f *Finish) W {
	if f.Flip != 0 {
		return -w
	}
	return w
}

func floatOrder[T float]() order[T, T] {
	return order[T, T]{
		lowest: T(math.Inf(-1)),
		of:     turn[T],
		back:   turn[T],
		over:   overFloat[T],
		pick:   func(a, b T) T { return max(a, b) },
		best: func(w T, x []T, f *Finish) T {
			a, b, c, d := w, w, w, w
			if f.Flip != 0 {
				a, b, c, d = -w, -w, -w, -w
				for ; len(x) >= 4; x = x[4:] {
					a, b, c, d = min(a, x[0]), min(b, x[1]), min(c, x[2]), min(d, x[3])
				}
				for _, v := range x {
					a = min(a, v)
				}
				return -min(a, b, c, d)
			}
			for ; len(x) >= 4; x = x[4:] {
				a, b, c, d = max(a, x[0]), max(b, x[1]), max(c, x[2]), max(d, x[3])
			}
			for _, v := range x {
				a = max(a, v)
			}
			return max(a, b, c, d)
		},
		eachBest: func(w, x []T, f *Finish) {
			for i, v := range x[:len(w)] {
				w[i] = max(w[i], turn(v, f))
			}
		},
	}
}

func halfOrder[T float16 | bfloat16](widen func(uint16) float32, narrow func(float32) uint16) order[T, float32] {
	of := func(x T, f *Finish) float32 { return turn(widen(uint16(x)), f) }
	return order[T, float32]{
		lowest: float32(math.Inf(-1)),
		of:     of,
		back:   func(w float32, f *Finish) T { return T(narrow(turn(w, f))) },
		over:   overFloat[float32],
		pick:   func(a, b float32) float32 { return max(a, b) },
		best: func(w float32, x []T, f *Finish) float32 {
			for _, v := range x {
				w = max(w, of(v, f))
			}
			return w
		},
		eachBest: func(w []float32, x []T, f *Finish) {
			for i, v := range x {
				w[i] = max(w[i], of(v, f))
			}
		},
	}
}

// overComplex goes by the real parts, then the imaginary ones.
func overComplex(a, b complex128) bool {
	if nanA, nanB := isNaN(a), isNaN(b); nanA || nanB {
		return nanA && !nanB
	}
	return real(a) > real(b) || real(a) == real(b) && imag(a) > imag(b)
}

func complexOrder[T complex64 | complex128]() order[T, complex128] {
	of := func(x T, f *Finish) complex128 {
		v := complex128(x)
		return complex(turn(real(v), f), turn(imag(v), f))
	}
	return order[T, complex128]{
		lowest: complex(math.Inf(-1), math.Inf(-1)),
		of:     of,
		back: func(w complex128, f *Finish) T {
			return T(complex(turn(real(w), f), turn(imag(w), f)))
		},
		over: overComplex,
		pick: func(a, b complex128) complex128 {
			if overComplex(b, a) {
				return b
			}
			return a
		},
		best: func(w complex128, x []T, f *Finish) complex128 {
			for _, v := range x {
				if k := of(v, f); overComplex(k, w) {
					w = k
				}
			}
			return w
		},
		eachBest: func(w []complex128, x []T, f *Finish) {
			for i, v := range x {
				if k := of(v, f); overComplex(k, w[i]) {
					w[i] = k
				}
			}
		},
	}
}

func maxima[T, W any](o order[T, W]) *Reducer {
	return operation[T, W]{
		none:   o.lowest,
		along:  func(acc *W, x []T, _ int64, f *Finish) { *acc = o.best(*acc, x, f) },
		across: func(acc []W, x []T, _ int64, f *Finish) { o.eachBest(acc, x, f) },
		merge:  func(acc, other *W) { *acc = o.pick(*acc, *other) },
		store:  func(acc *W, out unsafe.Pointer, f *Finish) { *(*T)(out) = o.back(*acc, f) },
	}.reducer()
}

// place is a greatest element and the number of its step.
type place[W any] struct {
	best   W
	number int64
}

// nowhere is the number of no step.
const nowhere = math.MaxInt64

// stretch is how many elements are searched for a new greatest at a time.
const stretch = 1024

// argMaxima finds the greatest of a stretch first, and where it is only if it is
// a new one, which soon becomes rare.
func argMaxima[T, W any](o order[T, W]) *Reducer {
	better := func(a, b *place[W]) bool {
		if o.over(a.best, b.best) || o.over(b.best, a.best) {
			return o.over(a.best, b.best)
		}
		return a.number < b.number
	}
	return operation[T, place[W]]{
		none: place[W]{best: o.lowest, number: nowhere},
		along: func(acc *place[W], x []T, number int64, f *Finish) {
			for first := 0; first < len(x); first += stretch {
				part := x[first:min(first+stretch, len(x))]
				best := o.best(o.of(part[0], f), part, f)
				if !o.over(best, acc.best) && acc.number != nowhere {
					continue
				}
				at := 0
				for o.over(best, o.of(part[at], f)) {
					at++
				}
				acc.best, acc.number = best, number+int64(first+at)
			}
		},
		across: func(acc []place[W], x []T, number int64, f *Finish) {
			for i, v := range x {
				if w := o.of(v, f); o.over(w, acc[i].best) || acc[i].number == nowhere {
					acc[i].best, acc[i].number = w, number
				}
			}
		},
		merge: func(acc, other *place[W]) {
			if better(other, acc) {
				*acc = *other
			}
		},
		number: func(acc *place[W], by, plus int64) {
			if acc.number != nowhere {
				acc.number = acc.number*by + plus
			}
		},
		store: func(acc *place[W], out unsafe.Pointer, _ *Finish) { *(*int64)(out) = acc.number },
	}.reducer()
}

func isNaN(x complex128) bool { return math.IsNaN(real(x)) || math.IsNaN(imag(x)) }
