package reduce

import (
	"sync"
	"unsafe"
)

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
