package zstd

import (
	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/compress/internal/matches"
)

// Sequences sections (RFC 8878, section 3.1.1.3.2), read and written.

const (
	predefined = 0 // the kinds of tables
	rleTable   = 1
	described  = 2
	repeated   = 3

	codesLog = 8 // of encoded tables; larger ones gain nothing

	// unknownOffset marks an offset that depends on the blocks before: bits 29 and 30 are
	// the repeat offset, from which the lowest bits are subtracted.
	unknownOffset = 1 << 31
)

// The codes of a sequence's three numbers, in the order of their tables.
var (
	mostSymbols   = [3]int{35, 31, 52}
	maxLogs       = [3]int{9, 8, 9}
	defaultLogs   = [3]int{6, 5, 6}
	defaultCounts = [3][]int{
		{4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1},
		{1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1},
		{1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1},
	}
	literalsBits = []int{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	matchBits    = []int{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
)

// least returns the least value of a code, if the least one of code 0 is first.
func least(code uint8, extra []int, first uint32) uint32 {
	for _, n := range extra[:code] {
		first += 1 << n
	}
	return first
}

// table is a table of states and the logarithm of their number.
type table struct {
	states []state
	log    int
}

// readTables reads the tables that a block describes, and returns the size of all
// descriptions, or 0. Tables that it repeats have no states.
func readTables(src []byte, b *block) (tables [3]table, size int) {
	from := b.contents(src)[b.sequencesSrc:]
	at := 1
	for k := range 3 {
		switch b.modes >> (6 - 2*k) & 3 {
		case predefined:
			tables[k] = table{buildStates(defaultCounts[k], defaultLogs[k]), defaultLogs[k]}
		case rleTable:
			if at >= len(from) || int(from[at]) > mostSymbols[k] {
				return tables, 0
			}
			tables[k] = table{[]state{{symbol: from[at]}}, 0}
			at++
		case described:
			counts, log, n := readCounts(from[at:], mostSymbols[k], maxLogs[k])
			if n == 0 {
				return tables, 0
			}
			if tables[k] = (table{buildStates(counts, log), log}); tables[k].states == nil {
				return tables, 0
			}
			at += n
		}
	}
	return tables, at
}

// decodeSequences reports whether the sequences of a block are valid.
func decodeSequences(src []byte, blocks []block, i int, to []batch.Sequence) bool {
	b := &blocks[i]
	repeats := [3]uint32{unknownOffset, unknownOffset | 1<<29, unknownOffset | 2<<29}
	used, size, valid := uint32(0), uint32(0), true
	if b.sequences > 1 {
		used, size, valid = decodeMatches(src, blocks, i, to[:len(to)-1], &repeats)
	}
	last := batch.Sequence{Out: size, Source: used}
	if valid {
		last.Literals = b.literals - used
		size += last.Literals
	}
	to[len(to)-1] = last
	b.size, b.repeats = size, repeats
	return valid && size <= maxBlock
}

func decodeMatches(src []byte, blocks []block, i int, to []batch.Sequence, repeats *[3]uint32) (used, size uint32, valid bool) {
	b := &blocks[i]
	tables, described := readTables(src, b)
	if described == 0 {
		return 0, 0, false
	}
	for k := range 3 {
		if b.modes>>(6-2*k)&3 == repeated {
			earlier, ok := readTables(src, &blocks[i-int(b.tables[k])])
			if ok == 0 {
				return 0, 0, false
			}
			tables[k] = earlier[k]
		}
	}
	in, ok := openBits(b.contents(src)[int(b.sequencesSrc)+described:])
	if !ok {
		return 0, 0, false
	}
	var at [3]uint32
	for k := range 3 {
		at[k] = in.read(tables[k].log)
	}
	for k := range to {
		var now [3]state
		for t := range 3 {
			now[t] = tables[t].states[at[t]]
		}
		value := uint32(1)<<now[1].symbol + in.read(int(now[1].symbol))
		match := least(now[2].symbol, matchBits, 3) + in.read(matchBits[now[2].symbol])
		s := batch.Sequence{Out: size, Literals: least(now[0].symbol, literalsBits, 0) + in.read(literalsBits[now[0].symbol]), Source: used}
		if k+1 < len(to) {
			for _, t := range []int{0, 2, 1} {
				at[t] = now[t].base + in.read(now[t].bits)
			}
		}
		if s.Offset, ok = nextOffset(value, s.Literals == 0, repeats); !ok {
			return used, size, false
		}
		used += s.Literals
		size += s.Literals + match
		if used > b.literals || size > maxBlock {
			return 0, 0, false
		}
		to[k] = s
	}
	return used, size, in.left == 0
}

// nextOffset returns the offset of a value and updates the repeat offsets.
func nextOffset(value uint32, noLiterals bool, r *[3]uint32) (offset uint32, ok bool) {
	if value > 3 {
		offset = value - 3
		*r = [3]uint32{offset, r[0], r[1]}
		return offset, offset&unknownOffset == 0
	}
	which := value - 1
	if noLiterals {
		which++
	}
	switch which {
	case 0:
		return r[0], true
	case 1:
		*r = [3]uint32{r[1], r[0], r[2]}
	case 2:
		*r = [3]uint32{r[2], r[0], r[1]}
	default:
		offset = r[0] - 1
		if r[0]&unknownOffset != 0 {
			offset = r[0] + 1 // the number to subtract is in the lowest bits
		}
		*r = [3]uint32{offset, r[0], r[1]}
	}
	return r[0], r[0] != 0
}

// knownOffset returns an offset if the repeat offsets at the start of its block are known,
// 0 if it is invalid.
func knownOffset(offset uint32, repeats [3]uint32) uint32 {
	if offset&unknownOffset == 0 {
		return offset
	}
	from, minus := repeats[min(offset>>29&3, 2)], offset&(1<<29-1)
	if from > minus {
		return from - minus
	}
	return 0
}

// encodedSequence is the struct EncodedSequence of zstd_encode.cuh: literals, a match, and
// the value of its offset, which is that + 3, or 1 to 3 for a repeat offset.
type encodedSequence struct {
	value           uint32
	literals, match uint16
}

func literalsCode(n int) uint8 {
	switch {
	case n < 16:
		return uint8(n)
	case n < 24:
		return uint8(8 + n/2)
	case n < 32:
		return uint8(14 + n/4)
	case n < 48:
		return uint8(18 + n/8)
	case n < 64:
		return 24
	}
	return uint8(highBit(n) + 19)
}

// matchCode returns the code of a match of n + 3 bytes.
func matchCode(n int) uint8 {
	switch {
	case n < 32:
		return uint8(n)
	case n < 40:
		return uint8(16 + n/2)
	case n < 48:
		return uint8(26 + n/4)
	case n < 64:
		return uint8(32 + n/8)
	case n < 96:
		return uint8(36 + n/16)
	case n < 128:
		return 42
	}
	return uint8(highBit(n) + 36)
}

// codes returns the codes of a sequence, in the order of their tables.
func (s encodedSequence) codes() [3]uint8 {
	return [3]uint8{literalsCode(int(s.literals)), uint8(highBit(int(s.value))), matchCode(int(s.match) - 3)}
}

// encodeSequences appends the section of sequences of a block.
func encodeSequences(out []byte, sequences []encodedSequence) []byte {
	n := len(sequences)
	switch {
	case n < 128:
		out = append(out, byte(n))
	case n < 0x7F00:
		out = append(out, byte(n>>8+128), byte(n))
	}
	if n == 0 {
		return out
	}
	modesAt := len(out)
	out = append(out, 0)
	var tables [3]encodingTable
	for k := range tables {
		var mode byte
		tables[k], mode, out = encodeTable(out, k, sequences)
		out[modesAt] |= mode << (6 - 2*k)
	}
	w := bitWriter{out: out}
	var states [3]int32
	for i := n - 1; i >= 0; i-- {
		s := sequences[i]
		codes := s.codes()
		for _, k := range []int{1, 2, 0} {
			if i == n-1 {
				states[k] = tables[k].first(codes[k])
				continue
			}
			next, v, bits := tables[k].next(states[k], codes[k])
			w.add(v, bits)
			states[k] = next
		}
		extra := func(v, n int) { w.add(uint32(v)&(1<<n-1), n) }
		extra(int(s.literals), literalsBits[codes[0]])
		extra(int(s.match)-3, matchBits[codes[2]])
		extra(int(s.value), int(codes[1]))
	}
	for _, k := range []int{2, 1, 0} {
		w.add(uint32(states[k])&(1<<tables[k].log-1), tables[k].log)
	}
	return w.close()
}

// encodeTable appends the table of the codes of number k of sequences: its only symbol, a
// description, or nothing if the predefined table makes the codes no longer.
func encodeTable(out []byte, k int, sequences []encodedSequence) (t encodingTable, mode byte, _ []byte) {
	n := len(sequences)
	counts, distinct, largest := make([]int, mostSymbols[k]+1), 0, 0
	for _, s := range sequences {
		counts[s.codes()[k]]++
	}
	last := 0
	for s, c := range counts {
		if c > 0 {
			distinct++
			last = s
		}
		largest = max(largest, c)
	}
	if largest == n {
		return encodingTable{0, make([]transform, last+1), make([]uint16, 1)}, rleTable, append(out, byte(last))
	}
	log := tableLog(n, distinct, codesLog)
	norm := normalize(counts, n, log)
	var w bitWriter
	writeCounts(&w, norm, log)
	description := w.flush()
	own, fixed := 8*256*len(description), 0 // sizes in 1/256 bits
	for s, c := range counts {
		if c == 0 {
			continue
		}
		own += c * (log<<8 - matches.Log256(norm[s]))
		if s < len(defaultCounts[k]) {
			fixed += c * (defaultLogs[k]<<8 - matches.Log256(max(defaultCounts[k][s], 1)))
		} else {
			fixed = 1 << 30
		}
	}
	if fixed <= own {
		return buildEncodingTable(defaultCounts[k], defaultLogs[k]), predefined, out
	}
	return buildEncodingTable(norm, log), described, append(out, description...)
}

// repeats are the last two repeat offsets of a block, 0 for those that depend on earlier
// blocks. The encoder does not use the third one.
type repeats [2]uint32

// value returns the value of an offset and updates the repeat offsets.
func (r *repeats) value(offset uint32, literals uint32) uint32 {
	last, before := r[0], r[1]
	if offset == last && literals > 0 {
		return 1
	}
	*r = repeats{offset, last}
	switch {
	case offset != before:
		return offset + 3
	case literals > 0:
		return 2
	default:
		return 1
	}
}
