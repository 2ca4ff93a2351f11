// Package matches finds repeated bytes as kernels/compress/matches.cuh does: it is the host
// implementation, and gives the same matches.
package matches

import (
	"encoding/binary"
	"math/bits"
)

// PieceSize is the size in bytes of the largest piece. Positions in it have 16 bits.
const PieceSize = 1 << 16

// The constants of matches.cuh.
const (
	lanes       = 32 // positions of a step, one for each thread of a warp
	inserted    = 2
	tagBits     = 16
	hashed      = 5
	nearby      = 16
	assumed     = 40
	patience    = 4
	entropyUnit = 8
	sampleStep  = 31
)

// Match is a number of bytes that equal those Offset bytes before.
type Match struct{ Position, Length, Offset uint32 }

// The sizes of a table: bits of a hash. The large one finds more, slower.
const (
	SmallTable = 11
	LargeTable = 13
)

// Finder finds the matches of a piece.
type Finder struct {
	table     []uint32 // position + 1 << tagBits | tag by hash, or 0
	tableBits int
}

// NewFinder returns a finder with a table of 1 << tableBits positions.
func NewFinder(tableBits int) *Finder { return &Finder{make([]uint32, 1<<tableBits), tableBits} }

// Log256 returns about 256 * log2(v).
func Log256(v int) int {
	high := bits.Len(uint(v)) - 1
	return high<<8 + v<<8>>high - 256
}

// Entropy returns the entropy of bytes, from a sample.
func Entropy(src []byte) int {
	var counts [256]int
	for i := 0; i < len(src); i += sampleStep {
		counts[src[i]]++
	}
	n := (len(src) + sampleStep - 1) / sampleStep
	sum := 0
	for _, k := range counts {
		if k > 0 {
			sum += k * (Log256(n) - Log256(k))
		}
	}
	return sum / n / (256 / entropyUnit)
}

// Incompressible is the entropy of bytes whose literals are not encoded.
const Incompressible = 8 * entropyUnit

func hash(word uint64) uint32 {
	return uint32(word)*0x9E3779B1 + uint32(word>>32&0xFF)*0x85EBCA77
}

func value(length uint32, entropy int) int {
	if length == nearby {
		return assumed * max(entropy, 2*entropyUnit)
	}
	return int(length) * entropy
}

func cost(offset uint32, repeats bool) int {
	if repeats {
		return entropyUnit * (10 + bits.Len32(offset))
	}
	return entropyUnit * 24
}

// common returns how many bytes at a and b are equal, up to most.
func common(src []byte, a, b, most uint32) uint32 {
	n := uint32(0)
	for n+8 <= most {
		if x := binary.LittleEndian.Uint64(src[a+n:]) ^ binary.LittleEndian.Uint64(src[b+n:]); x != 0 {
			return n + uint32(bits.TrailingZeros64(x)/8)
		}
		n += 8
	}
	for n < most && src[a+n] == src[b+n] {
		n++
	}
	return n
}

// slot returns the index of a hash in the table, and its tag.
func (f *Finder) slot(hash uint32) (slot, tag uint32) {
	return hash >> (32 - f.tableBits), hash >> (32 - f.tableBits - tagBits) & (1<<tagBits - 1)
}

// Find calls emit for each match in [begin, end) of a piece, in order. Matches may read
// earlier bytes of the piece, and do not overlap. Calls for one piece go from its start to
// its end. With repeats, a match with the offset of the one before costs less, and others
// cost the bits of their offset.
func (f *Finder) Find(src []byte, begin, end uint32, entropy int, repeats bool, emit func(Match)) {
	var hashes, candidates, lengths [lanes]uint32
	var gains [lanes + 1]int
	repeat, misses, anchor := uint32(0), uint32(0), begin
	for at := begin; at+nearby <= end; {
		n := min(lanes, end-nearby-at+1)
		clear(gains[:])
		for i := range n {
			pos := at + i
			h := hash(binary.LittleEndian.Uint64(src[pos:]))
			slot, tag := f.slot(h)
			candidate := pos
			if e := f.table[slot]; e > 0 && e&(1<<tagBits-1) == tag {
				candidate = e>>tagBits - 1
			}
			hashes[i] = h
			// A near position of this step with the same hash goes first.
			for distance := uint32(1); distance <= 16 && distance <= i; distance *= 2 {
				if hashes[i-distance] == h {
					candidate = pos - distance
					break
				}
			}
			var length uint32
			var gain int
			if candidate < pos {
				if length = common(src, candidate, pos, nearby); length >= hashed {
					gain = max(0, value(length, entropy)-cost(pos-candidate, repeats))
				}
			}
			if repeats && repeat > 0 && repeat <= pos {
				l := common(src, pos-repeat, pos, nearby)
				if g := value(l, entropy) - 4*entropyUnit; l >= 4 && g > gain {
					candidate, length, gain = pos-repeat, l, g
				}
			}
			candidates[i], lengths[i], gains[i] = candidate, length, gain
		}
		for i, h := range hashes[:n] {
			if pos := at + uint32(i); pos%inserted == 0 {
				slot, tag := f.slot(h)
				f.table[slot] = (pos+1)<<tagBits | tag
			}
		}
		found := false
		for i := uint32(0); i < n; i++ {
			if gains[i] == 0 {
				continue
			}
			// A match is put off while one that begins a byte later gains more.
			for gains[i+1] > gains[i] {
				i++
			}
			m := Match{at + i, lengths[i], at + i - candidates[i]}
			if m.Length == nearby {
				m.Length += common(src, candidates[i]+nearby, m.Position+nearby, end-m.Position-nearby)
			}
			// Up to 4 bytes before may be equal, too.
			for range min(4, m.Position-anchor) {
				if candidates[i] < 4 || src[m.Position-1] != src[m.Position-1-m.Offset] {
					break
				}
				m.Position--
				m.Length++
			}
			emit(m)
			repeat, found = m.Offset, true
			anchor = m.Position + m.Length
			i = anchor - at - 1
		}
		at += n
		if found {
			misses = 0
			at = max(at, anchor)
		} else {
			misses++
			at += min(lanes*min(misses/patience, 3), end-at)
		}
	}
}
