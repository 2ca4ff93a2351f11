package reduce

import (
	"math"
	"sync"
	"unsafe"

	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
)

// maxima computes maxima of elements that have keys, which are the accumulators.
func maxima[U unsigned, S signed](k keyCodec[U, S]) *Reducer {
	blocks := newScratch()
	return kernel[U, S]{
		none: lowest[S](),
		along: func(acc *S, x []U, _ int64, f *Finish) {
			block, _ := blocks.Get().(*scratch)
			*acc = k.max(*acc, x, f, block)
			blocks.Put(block)
		},
		across: func(acc []S, x grid[U], _ int64, f *Finish) {
			block, _ := blocks.Get().(*scratch)
			for r := int64(0); r < x.rows; {
				rows, done := k.maxEachEncoded(acc, x, r, f)
				for last := r + rows; r < last; r++ {
					row := x.row(r)
					for first := done; first < len(row); {
						keys := k.of(row[first:], f, block)
						maxEach(acc[first:], keys)
						first += len(keys)
					}
				}
			}
			blocks.Put(block)
		},
		merge: func(acc, other []S) { maxEach(acc, other) },
		store: func(acc []S, out results, f *Finish) {
			if k.isKey(f) && out.stride == int64(unsafe.Sizeof(acc[0])) {
				copy(unsafe.Slice((*S)(out.at), len(acc)), acc)
				return
			}
			k.decode(out, acc, f)
		},
	}.reducer()
}

// max returns the maximum of w and the keys of x.
func (k keyCodec[U, S]) max(w S, x []U, f *Finish, block *scratch) S {
	w, done := k.maxEncoded(w, x, f)
	for x = x[done:]; len(x) > 0; {
		keys := k.of(x, f, block)
		w = maxOf(w, keys)
		x = x[len(keys):]
	}
	return w
}

// maxOf returns the maximum of w and keys.
func maxOf[S signed](w S, keys []S) S {
	w, done := maxVectors(w, keys)
	for _, k := range keys[done:] {
		w = max(w, k)
	}
	return w
}

// maxEach sets each of w to the maximum of it and its key.
func maxEach[S signed](w, keys []S) {
	w = w[:len(keys)]
	for i := maxEachVectors(w, keys); i < len(w); i++ {
		w[i] = max(w[i], keys[i])
	}
}

// Maxima are computed on keys: signed integers of the elements' size, in the order of
// the elements, or in reverse order for minima. NaN is greater than all numbers, and
// NaT greater than all times. Finish has the parameters of integer keys, see
// kernels/reduce/order.cuh.
type unsigned interface {
	uint8 | uint16 | uint32 | uint64
}

type signed interface{ int8 | int16 | int32 | int64 }

// keyCodec converts elements to keys, and keys to elements.
type keyCodec[U unsigned, S signed] struct {
	// isKey reports whether elements are their own keys.
	isKey  func(f *Finish) bool
	encode func(to []S, x []U, f *Finish)
	decode func(to results, keys []S, f *Finish)
	// maxEncoded and maxEachEncoded are maxOf and maxEach of the keys of elements, for
	// encodings that are faster without storing keys, or for several rows at a time.
	// They return the number of elements, and rows from r, that they processed, which
	// may be none.
	maxEncoded     func(w S, x []U, f *Finish) (S, int)
	maxEachEncoded func(w []S, x grid[U], r int64, f *Finish) (rows int64, done int)
}

// keyBytes is the size of the buffer for keys.
const keyBytes = 2 << 10

// scratch is a buffer for keys of any size.
type scratch [keyBytes / 8]uint64

func newScratch() *sync.Pool { return &sync.Pool{New: func() any { return new(scratch) }} }

// keysPerScratch returns the number of keys of a type in a scratch.
func keysPerScratch[S signed]() int {
	var s S
	return keyBytes / int(unsafe.Sizeof(s))
}

// of returns the keys of elements, as many as fit into block if they must be encoded.
func (k keyCodec[U, S]) of(x []U, f *Finish, block *scratch) []S {
	if k.isKey(f) {
		return asSigned[S](x)
	}
	keys := unsafe.Slice((*S)(unsafe.Pointer(block)), min(len(x), keysPerScratch[S]()))
	k.encode(keys, x[:len(keys)], f)
	return keys
}

// size returns the number of bytes of an element or key.
func (k keyCodec[U, S]) size() int {
	var s S
	return int(unsafe.Sizeof(s))
}

func asSigned[S signed, U unsigned](x []U) []S {
	return unsafe.Slice((*S)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

func lowest[S signed]() S {
	var s S
	return S(-1) << (8*unsafe.Sizeof(s) - 1)
}

func integerKeys[U unsigned, S signed]() keyCodec[U, S] {
	same := func(f *Finish) bool { return U(f.Flip) == 0 && U(f.Bias) == 0 }
	return keyCodec[U, S]{
		isKey: same,
		encode: func(to []S, x []U, f *Finish) {
			flip, bias := U(f.Flip), U(f.Bias)
			done := flipVectors(to, x, flip, bias)
			for i := done; i < len(x); i++ {
				to[i] = S((x[i] ^ flip) + bias)
			}
		},
		decode: func(to results, keys []S, f *Finish) {
			flip, bias := U(f.Flip), U(f.Bias)
			for i, k := range keys {
				*(*U)(to.pointer(i)) = (U(k) - bias) ^ flip
			}
		},
		maxEncoded: func(w S, _ []U, _ *Finish) (S, int) { return w, 0 },
		maxEachEncoded: func(w []S, x grid[U], r int64, f *Finish) (int64, int) {
			if same(f) {
				return maxEachOf4Rows(w, x, r)
			}
			return 1, 0
		},
	}
}

// floatKeys encodes floats; infinity has the bits of their infinity. If alike, zeros of
// both signs have the same key.
func floatKeys[U unsigned, S signed](infinity U, alike bool) keyCodec[U, S] {
	sign := ^(^U(0) >> 1)
	shift := 8*unsafe.Sizeof(sign) - 1
	minus := ^U(0) // the key of -0
	if alike {
		minus = 0
	}
	flipOf := func(f *Finish) U {
		if f.Flip != 0 {
			return sign
		}
		return 0
	}
	return keyCodec[U, S]{
		isKey: func(*Finish) bool { return false },
		encode: func(to []S, x []U, f *Finish) {
			flip := flipOf(f)
			done := floatKeyVectors(to, x, flip, infinity, alike)
			for i := done; i < len(x); i++ {
				switch v := x[i] ^ flip; {
				case v&^sign > infinity:
					to[i] = S(^sign)
				case v == sign:
					to[i] = S(minus)
				default:
					to[i] = S(v ^ U(S(v)>>shift)&^sign)
				}
			}
		},
		decode: func(to results, keys []S, f *Finish) {
			flip, done := flipOf(f), 0
			if to, ok := dense[U](to, len(keys)); ok {
				done = decodeVectors(to, keys, flip)
			}
			for i, k := range keys[done:] {
				*(*U)(to.pointer(done + i)) = U(k) ^ U(k>>shift)&^sign ^ flip
			}
		},
		maxEncoded: func(w S, x []U, f *Finish) (S, int) { return maxFloatVectors(w, x, flipOf(f), alike) },
		maxEachEncoded: func(w []S, x grid[U], r int64, f *Finish) (int64, int) {
			return maxEachFloatVectors(w, x, r, flipOf(f), alike)
		},
	}
}

// candidate is a maximum and its step number.
type candidate[W any] struct {
	best   W
	number int64
}

// noStep is the step number of a candidate without elements.
const noStep = math.MaxInt64

func (p *candidate[W]) renumber(by, plus int64) {
	if p.number != noStep {
		p.number = p.number*by + plus
	}
}

func storeSteps[W any](acc []candidate[W], out results, _ *Finish) {
	storeEach(out, acc, func(p candidate[W]) int64 { return p.number })
}

// update replaces p if the other candidate is better.
func update[S signed](p *candidate[S], best S, number int64) {
	if best > p.best || best == p.best && number < p.number {
		p.best, p.number = best, number
	}
}

// searchBytes is the number of bytes that are searched again for the position of their
// maximum.
const searchBytes = 64 << 10

// argMaxima computes the position of the first maximum. Equal elements must have equal
// keys.
func argMaxima[U unsigned, S signed](k keyCodec[U, S]) *Reducer {
	blocks := newScratch()
	tables := &sync.Pool{New: func() any { return new(columns) }}
	return kernel[U, candidate[S]]{
		none: candidate[S]{best: lowest[S](), number: noStep},
		along: func(acc *candidate[S], x []U, number int64, f *Finish) {
			block, _ := blocks.Get().(*scratch)
			for first := 0; first < len(x); {
				// The position matters only if there is a new maximum, which soon
				// becomes rare.
				part := x[first:min(first+searchBytes/k.size(), len(x))]
				best := k.max(lowest[S](), part, f, block)
				if best > acc.best || acc.number == noStep {
					*acc = candidate[S]{best, number + int64(first+k.indexOf(best, part, f, block))}
				}
				first += len(part)
			}
			blocks.Put(block)
		},
		across: func(acc []candidate[S], x grid[U], number int64, f *Finish) {
			block, _ := tables.Get().(*columns)
			argAcross(k, block, acc, x, number, f)
			tables.Put(block)
		},
		merge:    each(func(acc, other *candidate[S]) { update(acc, other.best, other.number) }),
		renumber: func(acc *candidate[S], by, plus int64) { acc.renumber(by, plus) },
		store:    storeSteps[S],
	}.reducer()
}

// columns has buffers for maxima of columns, for their rows, and for keys.
type columns struct{ best, at, keys scratch }

// argAcross is across of argMaxima. It counts rows in integers of the size of a key, in
// groups of at most the largest such integer.
func argAcross[U unsigned, S signed](k keyCodec[U, S], block *columns, acc []candidate[S], x grid[U], number int64, f *Finish) {
	count := min(int64(^lowest[S]()), math.MaxInt16)
	for first := 0; first < len(acc); first += keysPerScratch[S]() {
		last := min(first+keysPerScratch[S](), len(acc))
		best := unsafe.Slice((*S)(unsafe.Pointer(&block.best)), last-first)
		at := unsafe.Slice((*S)(unsafe.Pointer(&block.at)), last-first)
		for row := int64(0); row < x.rows; row += count {
			copy(best, k.of(x.row(row)[first:last], f, &block.keys))
			clear(at)
			for r := int64(1); r < min(count, x.rows-row); r++ {
				updateEach(best, at, k.of(x.row(row + r)[first:last], f, &block.keys), S(r))
			}
			for i, b := range best {
				update(&acc[first+i], b, number+row+int64(at[i]))
			}
		}
	}
}

// updateEach sets each of best to the maximum of it and its key, and the position to
// row if that is the key.
func updateEach[S signed](best, at, keys []S, row S) {
	best, at = best[:len(keys)], at[:len(keys)]
	for i := updateEachVectors(best, at, keys, row); i < len(keys); i++ {
		if keys[i] > best[i] {
			best[i], at[i] = keys[i], row
		}
	}
}

// indexOf returns the index of the first element with key w, which must exist.
func (k keyCodec[U, S]) indexOf(w S, x []U, f *Finish, block *scratch) int {
	for at := 0; ; {
		keys := k.of(x[at:], f, block)
		for i := findVectors(w, keys); i < len(keys); i++ {
			if keys[i] == w {
				return at + i
			}
		}
		at += len(keys)
	}
}

// leastComplex is less than all complex numbers.
var leastComplex = complex(math.Inf(-1), math.Inf(-1))

// greaterComplex compares lexicographically: real parts, then imaginary parts. NaNs are
// greatest.
func greaterComplex(a, b complex128) bool {
	if nanA, nanB := isNaN(a), isNaN(b); nanA || nanB {
		return nanA && !nanB
	}
	return real(a) > real(b) || real(a) == real(b) && imag(a) > imag(b)
}

func isNaN(x complex128) bool { return math.IsNaN(real(x)) || math.IsNaN(imag(x)) }

// flipOrder reverses the order of complex numbers if f.Flip is set.
func flipOrder(v complex128, f *Finish) complex128 {
	if f.Flip != 0 {
		return -v
	}
	return v
}

// maxComplex computes the first maximum: distinct complex numbers, such as NaNs, may be
// unordered.
func maxComplex[T complex64 | complex128]() *Reducer {
	return firstComplex[T](func(acc []candidate[complex128], out results, f *Finish) {
		storeEach(out, acc, func(p candidate[complex128]) T { return T(flipOrder(p.best, f)) })
	})
}

// argMaxComplex computes the position of the first maximum.
func argMaxComplex[T complex64 | complex128]() *Reducer {
	return firstComplex[T](storeSteps[complex128])
}

func firstComplex[T complex64 | complex128](store func(acc []candidate[complex128], out results, f *Finish)) *Reducer {
	type best = candidate[complex128]
	add := func(acc *best, v complex128, number int64) {
		if greaterComplex(v, acc.best) || acc.number == noStep {
			acc.best, acc.number = v, number
		}
	}
	return kernel[T, best]{
		none: best{best: leastComplex, number: noStep},
		along: func(acc *best, x []T, number int64, f *Finish) {
			for i, v := range x {
				add(acc, flipOrder(complex128(v), f), number+int64(i))
			}
		},
		across: func(acc []best, x grid[T], number int64, f *Finish) {
			for r := range x.rows {
				for i, v := range x.row(r) {
					add(&acc[i], flipOrder(complex128(v), f), number+r)
				}
			}
		},
		merge: each(func(acc, other *best) {
			over := greaterComplex(other.best, acc.best)
			if over || other.number < acc.number && !greaterComplex(acc.best, other.best) {
				*acc = *other
			}
		}),
		renumber: func(acc *best, by, plus int64) { acc.renumber(by, plus) },
		store:    store,
	}.reducer()
}

// Pick copies one element of size bytes per result: the one whose step is the position of
// the result. Results and positions are contiguous, in the same order. It is the host
// implementation of kernels/reduce/pick.cu.
func Pick(p *Plan, in, out, positions unsafe.Pointer, size int64) {
	cpu.Parallel(p.Outputs, grain/64, func(lo, hi int64) {
		for i := lo; i < hi; i++ {
			from, to := offset(p.Kept[:p.KeptAxes], i)
			step := *(*int64)(unsafe.Add(positions, to/size*8))
			run, _ := offset(p.Run[:p.RunAxes], step/p.Length)
			at := unsafe.Add(in, from+run+step%p.Length*p.Stride)
			copy(unsafe.Slice((*byte)(unsafe.Add(out, to)), size), unsafe.Slice((*byte)(at), size))
		}
	})
}
