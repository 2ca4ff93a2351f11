package zstdnum

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/klauspost/compress/huff0"
)

const (
	minMatch     = 3 // the shortest match of the format
	maxSequences = blockSize/minMatch + 1
)

// entropy is the sequences of one block, and what their coding needs. A
// sequence is some literals and then a copy of bytes from before.
type entropy struct {
	huffman                  huff0.Scratch
	literals, match, offsets fse
	codes                    []codes
	lengths                  []lengths  // of the sequences that are long
	near                     [64]uint32 // how many near sequences have 8*literals+match
	bits                     []byte
}

// codes are the codes of a sequence's three numbers: literals, match and
// offset, from the lowest byte up. The highest bit says that it is long.
type codes uint32

const long = codes(1) << 31

// lengths are the numbers of a long sequence, one of whose codes stands for a
// range: the literals, the match less minMatch, and the offset value, of which
// 1 to 3 name earlier offsets (RFC 8878, 3.1.1.5).
type lengths struct{ literals, match, offset uint32 }

func (e *entropy) reset() {
	e.codes = slices.Grow(e.codes[:0], maxSequences)
	e.lengths = e.lengths[:0]
	clear(e.near[:])
	for _, table := range []*fse{&e.literals, &e.match, &e.offsets} {
		clear(table.counts[:])
	}
}

// addNear adds a sequence of 1 to 8 literals and a match of 3 to 7 bytes at the
// last offset. It counts all three codes at once, since this is where most time
// goes.
func (e *entropy) addNear(literals, match int) {
	e.near[(8*literals+match-8)&63]++
	n := len(e.codes)
	e.codes = e.codes[:n+1]
	e.codes[n] = codes(literals | (match-minMatch)<<8)
}

// add adds any sequence.
func (e *entropy) add(literals, match, offset uint32) {
	match -= minMatch
	l, m, o := literalCode(literals), matchCode(match), uint8(bits.Len32(offset)-1)
	e.literals.counts[l]++
	e.match.counts[m]++
	e.offsets.counts[o]++
	c := codes(l) | codes(m)<<8 | codes(o)<<16
	if l > 15 || m > 31 || o > 0 {
		c |= long
		e.lengths = append(e.lengths, lengths{literals, match, offset})
	}
	e.codes = append(e.codes, c)
}

// The modes of a table in the sequences section (RFC 8878, 3.1.1.3.2.1.1).
const (
	rleMode        = 1
	compressedMode = 2
)

// appendSequences appends the sequences section of a block.
func (e *entropy) appendSequences(dst []byte) []byte {
	dst = appendCount(dst, len(e.codes))
	if len(e.codes) == 0 {
		return dst
	}
	for i, n := range e.near {
		e.literals.counts[i/8+1] += n
		e.match.counts[max(i%8-minMatch, 0)] += n
		e.offsets.counts[0] += n
	}
	total := uint32(len(e.codes))
	e.literals.prepare(total, 9)
	e.offsets.prepare(total, 8)
	e.match.prepare(total, 9)
	dst = append(dst, e.literals.mode()<<6|e.offsets.mode()<<4|e.match.mode()<<2)
	dst = e.literals.appendTable(dst)
	dst = e.offsets.appendTable(dst)
	dst = e.match.appendTable(dst)
	return e.appendBits(dst)
}

func appendCount(dst []byte, n int) []byte {
	switch {
	case n < 128:
		return append(dst, byte(n))
	case n < 0x7F00:
		return append(dst, byte(n>>8)+128, byte(n))
	default:
		return append(dst, 255, byte(n-0x7F00), byte((n-0x7F00)>>8))
	}
}

// appendBits appends the sequences' bits. The decoder reads them backwards, so
// the last sequence comes first, and for each what the decoder reads last. A
// symbol that is the only one in its table takes no bits.
func (e *entropy) appendBits(dst []byte) []byte {
	// A sequence takes at most 3 states of 9, 8 and 9 bits, and numbers of 16,
	// 16 and 22 bits; 8 bytes are written at once.
	e.bits = slices.Grow(e.bits[:0], 11*len(e.codes)+16)
	out, at := e.bits[:cap(e.bits)], 0
	c := e.codes[len(e.codes)-1]
	literals, match, offset := e.literals.begin(uint8(c)), e.match.begin(uint8(c>>8)), e.offsets.begin(uint8(c>>16))
	var b bitBuffer
	long := len(e.lengths)
	for i := len(e.codes) - 1; ; {
		if c >= 1<<31 {
			long--
			b = e.lengths[long].add(b, c)
			binary.LittleEndian.PutUint64(out[at:], b.bits)
			at += b.whole()
			b = b.rest()
		}
		if i--; i < 0 {
			break
		}
		c = e.codes[i]
		b, offset = e.offsets.write(b, offset, uint8(c>>16))
		b, match = e.match.write(b, match, uint8(c>>8))
		b, literals = e.literals.write(b, literals, uint8(c))
		binary.LittleEndian.PutUint64(out[at:], b.bits)
		at += b.whole()
		b = b.rest()
	}
	b = b.add(match, e.match.log).add(offset, e.offsets.log).add(literals, e.literals.log)
	b = b.add(1, 1) // marks where the bits end
	return b.appendTo(append(dst, out[:at]...))
}

// add adds the bits that say where in the ranges of its codes a sequence is.
func (l lengths) add(b bitBuffer, c codes) bitBuffer {
	b = b.add(l.literals, uint(literalBits[uint8(c)]))
	b = b.add(l.match, uint(matchBits[uint8(c>>8)]))
	return b.add(l.offset, uint(uint8(c>>16)))
}

// Codes stand for ranges of lengths; the bits say where in the range. The
// lowest length of a range is a multiple of its size (RFC 8878, 3.1.1.3.2.1.1).
var (
	literalBits  = [36]uint8{16: 1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	matchBits    = [53]uint8{32: 1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	literalCodes = lengthCodes(literalBits[:], 64)
	matchCodes   = lengthCodes(matchBits[:], 128)
)

// lengthCodes is the code of each length below n.
func lengthCodes(width []uint8, n int) []uint8 {
	var table []uint8
	for code := range width {
		for range 1 << width[code] {
			if len(table) < n {
				table = append(table, uint8(code))
			}
		}
	}
	return table
}

func literalCode(n uint32) uint8 {
	if n < 64 {
		return literalCodes[n]
	}
	return uint8(bits.Len32(n)) + 18 // 25 for 64
}

func matchCode(n uint32) uint8 {
	if n < 128 {
		return matchCodes[n]
	}
	return uint8(bits.Len32(n)) + 35 // 43 for 128
}
