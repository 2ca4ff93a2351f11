package lz4

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"sync"

	"github.com/quiver-gpu/quiver/compress"
)

// MaxSize is the size of the largest input of [EncodeBlock] in bytes.
const MaxSize = 0x7E000000

// Bound returns an upper bound on the size of the block of n bytes.
func Bound(n int64) int64 { return n + n/255 + 16 }

// EncodeBlock fills the start of dst with the block of src on the host. It returns the
// size of the block, or 0 if dst is too small. src and dst must not overlap. The larger
// acceleration is, at least 1, the fewer positions are tried where matches are rare.
func EncodeBlock(dst, src []byte, acceleration int) (int, error) {
	if len(src) > MaxSize {
		return 0, fmt.Errorf("lz4.EncodeBlock: %d bytes, want at most %d", len(src), MaxSize)
	}
	acceleration = min(max(acceleration, 1), 1<<16)
	if lib := library(); lib != nil && len(src) > 0 {
		return lib.encode(dst, src, acceleration), nil
	}
	return encodeGo(dst, src, acceleration), nil
}

// DecodeBlock fills dst on the host with the decoding of src, a block whose decoded size
// is known. src and dst must not overlap. It returns compress.ErrCorrupt unless the size
// is exactly that of dst. Not every malformed block is an error: the format has no
// checksum, and liblz4, which decodes on processors without AVX, accepts matches at offset 0.
func DecodeBlock(dst, src []byte) error {
	n, err := decode(dst, src)
	if err == nil && n != len(dst) {
		err = fmt.Errorf("%d bytes decoded, want %d", n, len(dst))
	}
	if err != nil {
		return fmt.Errorf("lz4.DecodeBlock: %w: %w", compress.ErrCorrupt, err)
	}
	return nil
}

// decode decodes src into dst, and returns the size of the output. liblz4 decodes where the
// processor has no decodeSequences, unless matches are long, which Go copies faster.
func decode(dst, src []byte) (int, error) {
	const longMatches = 64
	if lib := library(); !fastSequences && lib != nil && len(dst) > 0 && len(src) > 0 && len(dst) <= math.MaxInt32 &&
		len(src) <= math.MaxInt32 && len(dst)/len(src) < longMatches {
		if n, ok := lib.decode(dst, src); ok {
			return n, nil
		}
	}
	return decodeGo(dst, src) // also after the library has failed: the error says why
}

// The limits of an LZ4 block: a match has at least 4 bytes, begins at least 12 bytes
// before the end and ends at least 5 bytes before it.
const (
	minMatch      = 4
	lastLiterals  = 5
	matchDistance = 12
	maxOffset     = 1<<16 - 1
)

// hashTable has the last position of each hash of 5 bytes.
type hashTable [1 << hashBits]uint32

const hashBits = 12

var tables = sync.Pool{New: func() any { return new(hashTable) }}

func hash(x uint64) uint64 { return (x << 24) * 889523592379 >> (64 - hashBits) }

// encodeGo is EncodeBlock in Go.
func encodeGo(dst, src []byte, acceleration int) int {
	table := tables.Get().(*hashTable)
	defer tables.Put(table)
	clear(table[:])
	le := binary.LittleEndian
	out, anchor := 0, 0
	last := len(src) - matchDistance
	first := uint(acceleration) << 6
	for at := 1; at <= last; {
		match, attempts := 0, first
		for at <= last {
			word := le.Uint64(src[at:])
			h := hash(word)
			match = int(table[h])
			table[h] = uint32(at)
			if at-match <= maxOffset && le.Uint32(src[match:]) == uint32(word) {
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
		if x := le.Uint64(src[at+minMatch:]) ^ le.Uint64(src[match+minMatch:]); x != 0 { // most matches are short
			length = min(minMatch+bits.TrailingZeros64(x)/8, len(src)-lastLiterals-at)
		} else {
			length = minMatch + commonLength(src[at+minMatch:len(src)-lastLiterals], src[match+minMatch:])
		}
		if literals := at - anchor; literals < 15 && length < 15+minMatch && len(dst)-out >= 32 {
			dst[out] = byte(literals<<4 | (length - minMatch))
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
			table[hash(le.Uint64(src[at-2:]))] = uint32(at - 2)
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
			if n += 2; length-minMatch >= 15 {
				n += (length-minMatch-15)/255 + 1
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
	dst[token] |= byte(min(length-minMatch, 15))
	return putLength(dst, out+2, length-minMatch)
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

// decodeGo decodes an LZ4 block into dst, and returns the size of the output.
func decodeGo(dst, src []byte) (int, error) {
	le := binary.LittleEndian
	in, out := 0, 0
	// While this much remains, the first bytes of literals and matches are copied without
	// regard to their number: 16 of the input, and 32 of the output.
	lastIn, lastOut := len(src)-32, len(dst)-64
	for in < len(src) {
		out, in = decodeSequences(dst, out, src, in)
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
				out += length + minMatch
				continue
			}
		} else {
			if literals == 15 {
				var ok bool
				if literals, in, ok = addLength(literals, src, in); !ok {
					return 0, errMalformed
				}
			}
			if literals > len(src)-in || literals > len(dst)-out {
				return 0, errMalformed
			}
			out += copy(dst[out:], src[in:in+literals])
			if in += literals; in == len(src) {
				return out, nil
			}
		}
		if len(src)-in < 2 {
			return 0, errMalformed
		}
		offset := int(le.Uint16(src[in:]))
		in += 2
		if length == 15 {
			var ok bool
			if length, in, ok = addLength(length, src, in); !ok {
				return 0, errMalformed
			}
		}
		length += minMatch
		if offset == 0 || offset > out || length > len(dst)-out {
			return 0, errMalformed
		}
		repeat(dst[out:out+length], dst[out-offset:out])
		out += length
	}
	return 0, errMalformed
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

var errMalformed = errors.New("malformed block")
