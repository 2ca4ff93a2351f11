package reduce

import (
	"math"
	"sync"
	"unsafe"
)

// maxima finds the greatest of elements that have keys, which are its accumulators.
func maxima[U unsigned, S signed](k keying[U, S]) *Reducer {
	blocks := newScratch()
	return operation[U, S]{
		none: lowest[S](),
		along: func(acc *S, x []U, _ int64, f *Finish) {
			block, _ := blocks.Get().(*scratch)
			*acc = k.greatestOf(*acc, x, f, block)
			blocks.Put(block)
		},
		across: func(acc []S, x grid[U], _ int64, f *Finish) {
			block, _ := blocks.Get().(*scratch)
			for r := int64(0); r < x.rows; {
				rows, done := k.each(acc, x, r, f)
				for last := r + rows; r < last; r++ {
					row := x.row(r)
					for first := done; first < len(row); {
						keys := k.of(row[first:], f, block)
						eachGreatest(acc[first:], keys)
						first += len(keys)
					}
				}
			}
			blocks.Put(block)
		},
		merge: func(acc, other []S) { eachGreatest(acc, other) },
		store: func(acc []S, out results, f *Finish) {
			if k.same(f) && out.stride == int64(unsafe.Sizeof(acc[0])) {
				copy(unsafe.Slice((*S)(out.at), len(acc)), acc)
				return
			}
			k.back(out, acc, f)
		},
	}.reducer()
}

// greatestOf is the greatest of w and the keys of x.
func (k keying[U, S]) greatestOf(w S, x []U, f *Finish, block *scratch) S {
	w, done := k.greatest(w, x, f)
	for x = x[done:]; len(x) > 0; {
		keys := k.of(x, f, block)
		w = greatest(w, keys)
		x = x[len(keys):]
	}
	return w
}

// greatest is the greatest of w and keys.
func greatest[S signed](w S, keys []S) S {
	w, done := greatestVectors(w, keys)
	for _, k := range keys[done:] {
		w = max(w, k)
	}
	return w
}

// eachGreatest makes each of w the greater of it and its key.
func eachGreatest[S signed](w, keys []S) {
	w = w[:len(keys)]
	for i := eachGreatestVectors(w, keys); i < len(w); i++ {
		w[i] = max(w[i], keys[i])
	}
}

// Maxima of numbers are maxima of keys: signed integers of the elements' size, in
// the order of the elements, or in the reverse order for minima. NaN is over all
// numbers, and NaT over all times. What keeps integers in order is said by Finish,
// as kernels/reduce_order.cuh has it.
type unsigned interface {
	uint8 | uint16 | uint32 | uint64
}

type signed interface{ int8 | int16 | int32 | int64 }

// keying makes keys of elements, and elements of keys.
type keying[U unsigned, S signed] struct {
	// same tells whether elements are their own keys.
	same func(f *Finish) bool
	keys func(to []S, x []U, f *Finish)
	back func(to results, keys []S, f *Finish)
	// greatest and each are the loops of the same name over the keys of as many
	// elements as they say, which may be none: where making keys on the way is
	// faster, or several rows at once. Those of each are of row r, or of so many rows
	// from there.
	greatest func(w S, x []U, f *Finish) (S, int)
	each     func(w []S, x grid[U], r int64, f *Finish) (rows int64, done int)
}

// keyBytes is how much is made into keys at a time.
const keyBytes = 2 << 10

// scratch is memory for keys, of any size.
type scratch [keyBytes / 8]uint64

func newScratch() *sync.Pool { return &sync.Pool{New: func() any { return new(scratch) }} }

// fit is how many keys of a type fit into scratch.
func fit[S signed]() int {
	var s S
	return keyBytes / int(unsafe.Sizeof(s))
}

// of returns the keys of elements, of which so many as fit are put into scratch.
func (k keying[U, S]) of(x []U, f *Finish, block *scratch) []S {
	if k.same(f) {
		return signedOf[S](x)
	}
	keys := unsafe.Slice((*S)(unsafe.Pointer(block)), min(len(x), fit[S]()))
	k.keys(keys, x[:len(keys)], f)
	return keys
}

// size is how many bytes an element has, and a key.
func (k keying[U, S]) size() int {
	var s S
	return int(unsafe.Sizeof(s))
}

func signedOf[S signed, U unsigned](x []U) []S {
	return unsafe.Slice((*S)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

func lowest[S signed]() S {
	var s S
	return S(-1) << (8*unsafe.Sizeof(s) - 1)
}

func integerKeys[U unsigned, S signed]() keying[U, S] {
	same := func(f *Finish) bool { return U(f.Flip) == 0 && U(f.Bias) == 0 }
	return keying[U, S]{
		same: same,
		keys: func(to []S, x []U, f *Finish) {
			flip, bias := U(f.Flip), U(f.Bias)
			done := flipVectors(to, x, flip, bias)
			for i := done; i < len(x); i++ {
				to[i] = S((x[i] ^ flip) + bias)
			}
		},
		back: func(to results, keys []S, f *Finish) {
			flip, bias := U(f.Flip), U(f.Bias)
			for i, k := range keys {
				*(*U)(to.of(i)) = (U(k) - bias) ^ flip
			}
		},
		greatest: func(w S, _ []U, _ *Finish) (S, int) { return w, 0 },
		each: func(w []S, x grid[U], r int64, f *Finish) (int64, int) {
			if same(f) {
				return eachGreatestOf4(w, x, r)
			}
			return 1, 0
		},
	}
}

// floatKeys are those of floats whose infinity has the bits of infinity. Zeros of
// both signs have one key if they are alike.
func floatKeys[U unsigned, S signed](infinity U, alike bool) keying[U, S] {
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
	return keying[U, S]{
		same: func(*Finish) bool { return false },
		keys: func(to []S, x []U, f *Finish) {
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
		back: func(to results, keys []S, f *Finish) {
			flip, done := flipOf(f), 0
			if to, ok := dense[U](to, len(keys)); ok {
				done = backVectors(to, keys, flip)
			}
			for i, k := range keys[done:] {
				*(*U)(to.of(done + i)) = U(k) ^ U(k>>shift)&^sign ^ flip
			}
		},
		greatest: func(w S, x []U, f *Finish) (S, int) { return greatestFloatVectors(w, x, flipOf(f), alike) },
		each: func(w []S, x grid[U], r int64, f *Finish) (int64, int) {
			return eachFloatVectors(w, x, r, flipOf(f), alike)
		},
	}
}

// place is a greatest element and the number of its step.
type place[W any] struct {
	best   W
	number int64
}

// nowhere is the number of no step.
const nowhere = math.MaxInt64

func (p *place[W]) renumber(by, plus int64) {
	if p.number != nowhere {
		p.number = p.number*by + plus
	}
}

func storePlaces[W any](acc []place[W], out results, _ *Finish) {
	write(out, acc, func(p place[W]) int64 { return p.number })
}

// better makes p a place that is better.
func better[S signed](p *place[S], best S, number int64) {
	if best > p.best || best == p.best && number < p.number {
		p.best, p.number = best, number
	}
}

// searched is how many bytes are looked through again for their greatest.
const searched = 64 << 10

// argMaxima finds where the first of the greatest elements is. Its keys are alike
// where elements are.
func argMaxima[U unsigned, S signed](k keying[U, S]) *Reducer {
	blocks := newScratch()
	tables := &sync.Pool{New: func() any { return new(columns) }}
	return operation[U, place[S]]{
		none: place[S]{best: lowest[S](), number: nowhere},
		along: func(acc *place[S], x []U, number int64, f *Finish) {
			block, _ := blocks.Get().(*scratch)
			for first := 0; first < len(x); {
				// Where the greatest is does not matter before it is a new one, which
				// soon becomes rare.
				part := x[first:min(first+searched/k.size(), len(x))]
				best := k.greatestOf(lowest[S](), part, f, block)
				if best > acc.best || acc.number == nowhere {
					*acc = place[S]{best, number + int64(first+k.find(best, part, f, block))}
				}
				first += len(part)
			}
			blocks.Put(block)
		},
		across: func(acc []place[S], x grid[U], number int64, f *Finish) {
			block, _ := tables.Get().(*columns)
			argAcross(k, block, acc, x, number, f)
			tables.Put(block)
		},
		merge:  each(func(acc, other *place[S]) { better(acc, other.best, other.number) }),
		number: func(acc *place[S], by, plus int64) { acc.renumber(by, plus) },
		store:  storePlaces[S],
	}.reducer()
}

// columns is memory for the greatest of some columns, for the rows where those
// are, and for keys.
type columns struct{ best, at, keys scratch }

// argAcross is across of argMaxima. It counts rows in integers of the size of a
// key, as many of them as such integers count.
func argAcross[U unsigned, S signed](k keying[U, S], block *columns, acc []place[S], x grid[U], number int64, f *Finish) {
	count := min(int64(^lowest[S]()), math.MaxInt16)
	for first := 0; first < len(acc); first += fit[S]() {
		last := min(first+fit[S](), len(acc))
		best := unsafe.Slice((*S)(unsafe.Pointer(&block.best)), last-first)
		at := unsafe.Slice((*S)(unsafe.Pointer(&block.at)), last-first)
		for row := int64(0); row < x.rows; row += count {
			copy(best, k.of(x.row(row)[first:last], f, &block.keys))
			clear(at)
			for r := int64(1); r < min(count, x.rows-row); r++ {
				eachPlace(best, at, k.of(x.row(row + r)[first:last], f, &block.keys), S(r))
			}
			for i, b := range best {
				better(&acc[first+i], b, number+row+int64(at[i]))
			}
		}
	}
}

// eachPlace makes each of best the greater of it and its key, and puts row down
// where that is the key.
func eachPlace[S signed](best, at, keys []S, row S) {
	best, at = best[:len(keys)], at[:len(keys)]
	for i := eachPlaceVectors(best, at, keys, row); i < len(keys); i++ {
		if keys[i] > best[i] {
			best[i], at[i] = keys[i], row
		}
	}
}

// find is where the first of x is whose key is w, which must be there.
func (k keying[U, S]) find(w S, x []U, f *Finish, block *scratch) int {
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

// least is under all complex numbers.
var least = complex(math.Inf(-1), math.Inf(-1))

// overComplex goes by the real parts, then the imaginary ones.
func overComplex(a, b complex128) bool {
	if nanA, nanB := isNaN(a), isNaN(b); nanA || nanB {
		return nanA && !nanB
	}
	return real(a) > real(b) || real(a) == real(b) && imag(a) > imag(b)
}

func isNaN(x complex128) bool { return math.IsNaN(real(x)) || math.IsNaN(imag(x)) }

// turn turns the order of complex numbers around if f says so.
func turn(v complex128, f *Finish) complex128 {
	if f.Flip != 0 {
		return -v
	}
	return v
}

// maxComplex finds the first of the greatest, several of which may be neither less
// nor greater than each other: NaNs above all.
func maxComplex[T complex64 | complex128]() *Reducer {
	return firstComplex[T](func(acc []place[complex128], out results, f *Finish) {
		write(out, acc, func(p place[complex128]) T { return T(turn(p.best, f)) })
	})
}

// argMaxComplex finds where that is.
func argMaxComplex[T complex64 | complex128]() *Reducer {
	return firstComplex[T](storePlaces[complex128])
}

func firstComplex[T complex64 | complex128](store func(acc []place[complex128], out results, f *Finish)) *Reducer {
	type best = place[complex128]
	add := func(acc *best, v complex128, number int64) {
		if overComplex(v, acc.best) || acc.number == nowhere {
			acc.best, acc.number = v, number
		}
	}
	return operation[T, best]{
		none: best{best: least, number: nowhere},
		along: func(acc *best, x []T, number int64, f *Finish) {
			for i, v := range x {
				add(acc, turn(complex128(v), f), number+int64(i))
			}
		},
		across: func(acc []best, x grid[T], number int64, f *Finish) {
			for r := range x.rows {
				for i, v := range x.row(r) {
					add(&acc[i], turn(complex128(v), f), number+r)
				}
			}
		},
		merge: each(func(acc, other *best) {
			over := overComplex(other.best, acc.best)
			if over || other.number < acc.number && !overComplex(acc.best, other.best) {
				*acc = *other
			}
		}),
		number: func(acc *best, by, plus int64) { acc.renumber(by, plus) },
		store:  store,
	}.reducer()
}
