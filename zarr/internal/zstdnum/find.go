package zstdnum

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// find cuts bytes [start, end) of the source into literals and sequences. Each
// step looks at one number, of the size of T; numbers of 2 bytes are looked at
// four at a time, since a match of fewer saves little.
func find[T uint32 | uint64](e *encoder, start, end, step int) {
	width := int(unsafe.Sizeof(T(0)))
	from := start           // of the literals that no sequence has yet
	at := max(start, width) // nothing comes before the first number
	misses := 0
	for at+width <= end {
		x := load[T](e.src, at)
		differ := x ^ load[T](e.src, at-step)
		if differ == 0 { // the number before, again
			at = e.copy(from, at, width, step, end)
			from, at, misses = at, align(at, step), 0
			continue
		}
		// Numbers of which the last 3 bytes at most differ cost no more as
		// literals than an offset would.
		high := leadingZeros(differ) / 8
		near := step == width && high >= minMatch
		if !near || high < width-3 {
			slot := hash(x)
			earlier := int(e.table[slot])
			e.table[slot] = uint32(at)
			if earlier > 0 && at-earlier <= windowSize {
				if low := equal(x, load[T](e.src, earlier)); low >= min(width, hashed) {
					at = e.copy(from, at, low, at-earlier, end)
					from, at, misses = at, align(at, step), 0
					continue
				}
			}
		}
		if near {
			at += width
			if n := at - high - from; n <= 8 && e.reps[0] == uint32(step) && from+8 <= len(e.src) {
				e.addNear(from, n, high)
			} else {
				e.add(from, at-high, high, step)
			}
			from, misses = at, 0
			continue
		}
		misses++
		at += step * (1 + misses>>6) // the longer nothing is found, the fewer places are looked at
	}
	e.literals = append(e.literals, e.src[from:end]...)
}

// copy adds a sequence that copies as many bytes as repeat, of which n are
// known to, and returns where they end.
func (e *encoder) copy(from, at, n, offset, end int) int {
	for at+n+8 <= end {
		same := equal(load[uint64](e.src, at+n), load[uint64](e.src, at+n-offset))
		n += same
		if same < 8 {
			break
		}
	}
	e.add(from, at, n, offset)
	return at + n
}

// add adds a sequence: literals from one position to another, then n bytes to
// copy from an offset before that.
func (e *encoder) add(from, at, n, offset int) {
	e.literals = append(e.literals, e.src[from:at]...)
	value := uint32(1) // the last offset again
	if at == from || uint32(offset) != e.reps[0] {
		value = e.offsetValue(uint32(offset), at == from)
	}
	e.entropy.add(uint32(at-from), uint32(n), value)
}

// addNear is add for 1 to 8 literals and a match of less than 8 bytes at the
// last offset: what numbers that are near each other make. Of the source, 8
// bytes can be read.
func (e *encoder) addNear(from, n, match int) {
	have := len(e.literals)
	*(*[8]byte)(e.literals[have : have+8]) = *(*[8]byte)(e.src[from:])
	e.literals = e.literals[:have+n]
	e.entropy.addNear(n, match)
}

// offsetValue names an offset other than the last one and brings the last
// offsets up to date. After no literals the names mean other ones.
func (e *encoder) offsetValue(offset uint32, noLiterals bool) uint32 {
	r := &e.reps
	switch offset {
	case r[1]:
		r[0], r[1] = r[1], r[0]
		if noLiterals {
			return 1
		}
		return 2
	case r[2]:
		r[0], r[1], r[2] = r[2], r[0], r[1]
		if noLiterals {
			return 2
		}
		return 3
	default:
		r[0], r[1], r[2] = offset, r[0], r[1]
		return offset + 3
	}
}

// align moves a position in the middle of a number to the next one.
func align(at, step int) int { return (at + step - 1) &^ (step - 1) }

// load reads the number at a position. For the compiler the size is a constant.
func load[T uint32 | uint64](src []byte, at int) T {
	if unsafe.Sizeof(T(0)) == 8 {
		return T(binary.LittleEndian.Uint64(src[at:]))
	}
	return T(binary.LittleEndian.Uint32(src[at:]))
}

func leadingZeros[T uint32 | uint64](x T) int {
	if unsafe.Sizeof(x) == 8 {
		return bits.LeadingZeros64(uint64(x))
	}
	return bits.LeadingZeros32(uint32(x))
}

// equal is the number of low bytes that are the same.
func equal[T uint32 | uint64](x, y T) int {
	if unsafe.Sizeof(x) == 8 {
		return bits.TrailingZeros64(uint64(x^y)) / 8
	}
	return min(bits.TrailingZeros32(uint32(x^y)), 32) / 8
}

// hashed is the number of low bytes that numbers are looked up by. The high
// bytes of numbers of 8 bytes may differ: decimal fractions have low bytes that
// come again and again.
const hashed = 5

// hash spreads numbers over the table, by their low bytes (Fibonacci hashing).
func hash[T uint32 | uint64](x T) uint64 {
	return uint64(x) << (64 - 8*hashed) * 0x9E3779B97F4A7C15 >> (64 - tableBits)
}
