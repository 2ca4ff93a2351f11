package blosc

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"sync"
)

// The limits of an LZ4 block: a match has at least 4 bytes, begins at least 12 bytes
// before the end and ends at least 5 bytes before it.
const (
	lz4MinMatch      = 4
	lz4LastLiterals  = 5
	lz4MatchDistance = 12
	lz4MaxOffset     = 1<<16 - 1
)

// lz4Table has the last position of each hash of 5 bytes.
type lz4Table [1 << lz4HashBits]uint32

const lz4HashBits = 12

var lz4Tables = sync.Pool{New: func() any { return new(lz4Table) }}

func lz4Hash(x uint64) uint64 { return (x << 24) * 889523592379 >> (64 - lz4HashBits) }

// compressLZ4 fills the start of dst with the LZ4 block of src and returns its size, or 0
// if dst is too small. Below level 9, it tries fewer positions where matches are rare, as
// c-blosc does.
func compressLZ4(dst, src []byte, level int) int {
	table := lz4Tables.Get().(*lz4Table)
	defer lz4Tables.Put(table)
	clear(table[:])
	le := binary.LittleEndian
	out, anchor := 0, 0
	last := len(src) - lz4MatchDistance
	first := uint(max(10-level, 1)) << 6
	for at := 1; at <= last; {
		match, attempts := 0, first
		for at <= last {
			word := le.Uint64(src[at:])
			h := lz4Hash(word)
			match = int(table[h])
			table[h] = uint32(at)
			if at-match <= lz4MaxOffset && le.Uint32(src[match:]) == uint32(word) {
				break
			}
			match = -1
			at += int(attempts >> 6)
			attempts++
		}
		if at > last || match < 0 {
			break
		}
		for at > anchor && match > 0 && src[at-1] == src[match-1] {
			at, match = at-1, match-1
		}
		var length int
		if x := le.Uint64(src[at+lz4MinMatch:]) ^ le.Uint64(src[match+lz4MinMatch:]); x != 0 { // most matches are short
			length = min(lz4MinMatch+bits.TrailingZeros64(x)/8, len(src)-lz4LastLiterals-at)
		} else {
			length = lz4MinMatch + commonLength(src[at+lz4MinMatch:len(src)-lz4LastLiterals], src[match+lz4MinMatch:])
		}
		if literals := at - anchor; literals < 15 && length < 15+lz4MinMatch && len(dst)-out >= 32 {
			dst[out] = byte(literals<<4 | (length - lz4MinMatch))
			to := dst[out+1:]
			if anchor+16 <= len(src) {
				le.PutUint64(to, le.Uint64(src[anchor:]))
				le.PutUint64(to[8:], le.Uint64(src[anchor+8:]))
			} else {
				copy(to, src[anchor:at])
			}
			out += 1 + literals
			le.PutUint16(dst[out:], uint16(at-match))
			out += 2
		} else if out = putSequence(dst, out, src[anchor:at], at-match, length); out < 0 {
			return 0
		}
		at += length
		anchor = at
		if at <= last {
			table[lz4Hash(le.Uint64(src[at-2:]))] = uint32(at - 2)
		}
	}
	if out = putSequence(dst, out, src[anchor:], 0, 0); out < 0 {
		return 0
	}
	return out
}

// commonLength returns the length of the longest common prefix. b is not shorter than a.
func commonLength(a, b []byte) int {
	b = b[:len(a)]
	n := 0
	for ; n+8 <= len(a); n += 8 {
		if x := binary.LittleEndian.Uint64(a[n:]) ^ binary.LittleEndian.Uint64(b[n:]); x != 0 {
			return n + bits.TrailingZeros64(x)/8
		}
	}
	for n < len(a) && a[n] == b[n] {
		n++
	}
	return n
}

// putSequence writes literals and a match to dst[out:] and returns the position after
// them, or -1 if they do not fit. The last sequence has no match: its offset is 0.
func putSequence(dst []byte, out int, literals []byte, offset, length int) int {
	if len(dst)-out < len(literals)+len(literals)/255+length/255+5 {
		// Compute exactly only near the end.
		n := 1 + len(literals)
		if len(literals) >= 15 {
			n += (len(literals)-15)/255 + 1
		}
		if offset > 0 {
			if n += 2; length-lz4MinMatch >= 15 {
				n += (length-lz4MinMatch-15)/255 + 1
			}
		}
		if len(dst)-out < n {
			return -1
		}
	}
	token := out
	out++
	dst[token] = byte(min(len(literals), 15) << 4)
	out = putLength(dst, out, len(literals))
	out += copy(dst[out:], literals)
	if offset == 0 {
		return out
	}
	dst[out], dst[out+1] = byte(offset), byte(offset>>8)
	dst[token] |= byte(min(length-lz4MinMatch, 15))
	return putLength(dst, out+2, length-lz4MinMatch)
}

// putLength writes the part of a length that exceeds its 4 bits of the token.
func putLength(dst []byte, out, length int) int {
	if length < 15 {
		return out
	}
	for length -= 15; length >= 255; length -= 255 {
		dst[out] = 255
		out++
	}
	dst[out] = byte(length)
	return out + 1
}

// decompressLZ4 fills dst with the decoding of an LZ4 block, whose size is known.
func decompressLZ4(dst, src []byte) error {
	le := binary.LittleEndian
	in, out := 0, 0
	// While this much remains, the first bytes of literals and matches are copied without
	// regard to their number: 16 of the input, and 32 of the output.
	lastIn, lastOut := len(src)-32, len(dst)-64
	for in < len(src) {
		token := int(src[in])
		in++
		literals, length := token>>4, token&15
		if literals < 15 && in <= lastIn && out <= lastOut {
			le.PutUint64(dst[out:], le.Uint64(src[in:]))
			le.PutUint64(dst[out+8:], le.Uint64(src[in+8:]))
			in, out = in+literals, out+literals
			offset := int(le.Uint16(src[in:]))
			if length < 15 && offset >= 8 && offset <= out {
				in += 2
				from := dst[out-offset:]
				to := dst[out:]
				le.PutUint64(to, le.Uint64(from))
				le.PutUint64(to[8:], le.Uint64(from[8:]))
				le.PutUint64(to[16:], le.Uint64(from[16:]))
				out += length + lz4MinMatch
				continue
			}
		} else {
			if literals == 15 {
				var ok bool
				if literals, in, ok = addLength(literals, src, in); !ok {
					return errLZ4
				}
			}
			if literals > len(src)-in || literals > len(dst)-out {
				return errLZ4
			}
			out += copy(dst[out:], src[in:in+literals])
			if in += literals; in == len(src) {
				return checkLength(out, dst, nil)
			}
		}
		if len(src)-in < 2 {
			return errLZ4
		}
		offset := int(le.Uint16(src[in:]))
		in += 2
		if length == 15 {
			var ok bool
			if length, in, ok = addLength(length, src, in); !ok {
				return errLZ4
			}
		}
		length += lz4MinMatch
		if offset == 0 || offset > out || length > len(dst)-out {
			return errLZ4
		}
		repeat(dst[out:out+length], dst[out-offset:out])
		out += length
	}
	return errLZ4
}

// addLength adds the bytes of a length to the 4 bits of the token. It returns false at
// the end of the input.
func addLength(length int, src []byte, in int) (int, int, bool) {
	for in < len(src) {
		b := src[in]
		in++
		length += int(b)
		if b != 255 {
			return length, in, true
		}
	}
	return 0, in, false
}

// repeat fills dst with a pattern, again and again. dst follows the pattern in memory.
func repeat(dst, pattern []byte) {
	if len(pattern) >= len(dst) {
		copy(dst, pattern)
		return
	}
	for n := copy(dst, pattern); n < len(dst); {
		n += copy(dst[n:], dst[:n])
	}
}

var errLZ4 = errors.New("malformed LZ4 block")
