package zstd

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
)

// The host implementations of the kernels, for the simulated device. They take the same
// steps and the same memory.

const (
	maxBlock      = 128 << 10
	rawBlock      = 0
	rleBlock      = 1
	codedBlock    = 2
	rleLiterals   = 1
	huffman       = 2
	predefined    = 0
	rleTable      = 1
	described     = 2
	repeated      = 3
	unknownOffset = 1 << 31
	indexStep     = 2 << 10
	indexSize     = maxBlock / indexStep
)

// block is the struct Block of zstd.cuh.
type block struct {
	src                             int64
	srcSize                         uint32
	literals, sequences             uint32
	firstLiteral, firstSequence     int64
	literalsSrc, literalsSrcSize    uint32
	sequencesSrc                    uint32
	huffman                         int32
	tables                          [3]int32
	kind, literalsKind, streams     uint8
	modes                           uint8
	frameBegins, frameEnds, checked bool
	_                               uint8
	checksum                        uint32
	contentSize                     int64
	status                          batch.Status
	size                            uint32
	repeats                         [3]uint32
	out, frame                      uint32
	item                            int64
}

// hasCodedLiterals reports whether the literals have Huffman codes. Other literals are not in
// the scratch memory.
func (b *block) hasCodedLiterals() bool { return b.kind == codedBlock && b.literalsKind >= huffman }

// hasSameLiterals reports whether all literals are the first one.
func (b *block) hasSameLiterals() bool {
	return b.kind == rleBlock || b.kind == codedBlock && b.literalsKind == rleLiterals
}

// source returns the inputs of a launch as one slice, and its items.
func source(l *cudabuf.HostLaunch, src, items int, n int64) ([]byte, []batch.Item) {
	all := launch.Structs[batch.Item](l, items, n)
	var end int64
	for _, it := range all {
		end = max(end, it.Src+it.SrcSize)
	}
	return l.Memory(l.Pointer(src), end), all
}

func countHostKernel(l *cudabuf.HostLaunch) {
	n := l.Int64(3)
	src, items := source(l, 0, 1, n)
	found := launch.Structs[counts](l, 2, n)
	for i, it := range items {
		s := scan{src: src[it.Src : it.Src+it.SrcSize], item: it}
		status := s.run()
		if status != batch.OK {
			s.counts = counts{}
		} else if s.counts.Blocks > 0 {
			s.counts.Windows = batch.Windows(min(s.largest, it.DstSize))
		}
		s.counts.Status = int64(status)
		found[i] = s.counts
	}
}

func scanHostKernel(l *cudabuf.HostLaunch) {
	n := l.Int64(4)
	src, items := source(l, 0, 1, n)
	starts := launch.Structs[counts](l, 2, n+1)
	blocks := launch.Structs[block](l, 3, starts[n].Blocks)
	for i, it := range items {
		if starts[i].Status != int64(batch.OK) {
			continue
		}
		s := scan{src: src[it.Src : it.Src+it.SrcSize], item: it, index: int64(i), blocks: blocks[starts[i].Blocks:starts[i+1].Blocks]}
		s.run()
		for k := range s.blocks {
			s.blocks[k].firstLiteral += starts[i].Literals
			s.blocks[k].firstSequence += starts[i].Sequences
		}
	}
}

// scan finds the frames and blocks of an item.
type scan struct {
	src      []byte
	item     batch.Item
	index    int64
	at       int
	blocks   []block // nil to count only
	counts   counts
	smallest int64 // bytes of output that the blocks have at least
	largest  int64 // and at most
	huffman  int64
	tables   [3]int64
}

func (s *scan) left() int { return len(s.src) - s.at }

func (s *scan) little(at, n int) (v uint64) {
	for k := range n {
		v |= uint64(s.src[at+k]) << (8 * k)
	}
	return v
}

func (s *scan) run() batch.Status {
	for s.left() > 0 {
		if s.left() < 4 {
			return batch.Truncated
		}
		magic := s.little(s.at, 4)
		if magic&^15 == 0x184D2A50 {
			if s.left() < 8 {
				return batch.Truncated
			}
			size := int(s.little(s.at+4, 4))
			if size > s.left()-8 {
				return batch.Truncated
			}
			s.at += 8 + size
			continue
		}
		if magic != 0xFD2FB528 {
			return batch.Corrupt
		}
		if status := s.frame(); status != batch.OK {
			return status
		}
	}
	return batch.OK
}

func (s *scan) frame() batch.Status {
	if s.left() < 5 {
		return batch.Truncated
	}
	descriptor := s.src[s.at+4]
	s.at += 5
	single, checked := descriptor>>5&1 == 1, descriptor>>2&1 == 1
	if descriptor&8 != 0 {
		return batch.Corrupt
	}
	dictionary, flag, windowBytes := 1<<(descriptor&3)>>1, descriptor>>6, 1
	sizeBytes := 1 << flag
	if flag == 0 && !single {
		sizeBytes = 0
	}
	if single {
		windowBytes = 0
	}
	if s.left() < windowBytes+dictionary+sizeBytes {
		return batch.Truncated
	}
	window := int64(maxBlock)
	if !single {
		w := s.src[s.at]
		window = 1 << (10 + w>>3)
		window += window / 8 * int64(w&7)
		s.at++
	}
	if s.little(s.at, dictionary) != 0 {
		return batch.Unsupported
	}
	s.at += dictionary
	content := int64(-1)
	if sizeBytes > 0 {
		content = int64(s.little(s.at, sizeBytes))
		if sizeBytes == 2 {
			content += 256
		}
		if content < 0 || content > s.item.DstSize {
			return batch.TooLarge
		}
	}
	s.at += sizeBytes
	if single {
		window = content
	}
	most := uint32(min(window, maxBlock))
	s.huffman, s.tables = -1, [3]int64{-1, -1, -1}
	for first, last := true, false; !last; first = false {
		if s.left() < 3 {
			return batch.Truncated
		}
		header := uint32(s.little(s.at, 3))
		s.at += 3
		last = header&1 == 1
		size := header >> 3
		b := block{src: s.item.Src + int64(s.at), kind: uint8(header >> 1 & 3), srcSize: size, literals: size, sequences: 1,
			frameBegins: first, frameEnds: last, checked: checked, contentSize: content, item: s.index}
		if b.kind > codedBlock || size > most {
			return batch.Corrupt
		}
		if b.kind == rleBlock {
			b.srcSize = 1
		}
		if int(b.srcSize) > s.left() {
			return batch.Truncated
		}
		if b.kind == codedBlock {
			if status := s.coded(&b, most); status != batch.OK {
				return status
			}
		}
		s.at += int(b.srcSize)
		if last && checked {
			if s.left() < 4 {
				return batch.Truncated
			}
			b.checksum = uint32(s.little(s.at, 4))
			s.at += 4
		}
		s.smallest += int64(b.literals) + 3*int64(b.sequences-1)
		if b.kind == codedBlock {
			s.largest += maxBlock
		} else {
			s.largest += int64(b.literals)
		}
		if s.smallest > s.item.DstSize {
			return batch.TooLarge
		}
		b.firstLiteral, b.firstSequence = s.counts.Literals, s.counts.Sequences
		if s.blocks != nil {
			s.blocks[s.counts.Blocks] = b
		}
		s.counts.Blocks++
		if b.hasCodedLiterals() {
			s.counts.Literals += int64(b.literals)
		}
		s.counts.Sequences += int64(b.sequences)
	}
	return batch.OK
}

func (s *scan) coded(b *block, most uint32) batch.Status {
	end, p := s.at+int(b.srcSize), s.at
	if end-p < 2 {
		return batch.Corrupt
	}
	first, form := s.src[p], s.src[p]>>2&3
	b.literalsKind = first & 3
	if b.literalsKind <= rleLiterals {
		n := 1
		if form&1 == 1 {
			n += int(form+1) / 2
		}
		if end-p < n {
			return batch.Corrupt
		}
		b.literals = uint32(first >> 3)
		if n > 1 {
			b.literals = uint32(s.little(p, n) >> 4)
		}
		b.literalsSrcSize = b.literals
		if b.literalsKind == rleLiterals {
			b.literalsSrcSize = 1
		}
		p += n
	} else {
		n := [4]int{3, 3, 4, 5}[form]
		width := [4]int{10, 10, 14, 18}[form]
		if end-p < n {
			return batch.Corrupt
		}
		v := s.little(p, n) >> 4
		b.literals = uint32(v & (1<<width - 1))
		b.literalsSrcSize = uint32(v >> width & (1<<width - 1))
		b.streams = 4
		if form == 0 {
			b.streams = 1
		}
		p += n
		if b.literalsKind == huffman {
			s.huffman = s.counts.Blocks
		}
		if s.huffman < 0 {
			return batch.Corrupt
		}
		b.huffman = int32(s.counts.Blocks - s.huffman)
	}
	if b.literals > most || int(b.literalsSrcSize) > end-p {
		return batch.Corrupt
	}
	b.literalsSrc = uint32(p - s.at)
	p += int(b.literalsSrcSize)

	if end-p < 1 {
		return batch.Corrupt
	}
	n := uint32(s.src[p])
	p++
	switch {
	case n == 255:
		if end-p < 2 {
			return batch.Corrupt
		}
		n = uint32(s.little(p, 2)) + 0x7F00
		p += 2
	case n >= 128:
		if end-p < 1 {
			return batch.Corrupt
		}
		n = (n-128)*256 + uint32(s.src[p])
		p++
	}
	b.sequences = n + 1
	if n == 0 {
		if p != end {
			return batch.Corrupt
		}
		return batch.OK
	}
	if int64(b.literals)+3*int64(n) > int64(most) || end-p < 1 {
		return batch.Corrupt
	}
	b.sequencesSrc = uint32(p - s.at)
	b.modes = s.src[p]
	if b.modes&3 != 0 {
		return batch.Corrupt
	}
	for i := range 3 {
		if b.modes>>(6-2*i)&3 != repeated {
			s.tables[i] = s.counts.Blocks
		}
		if s.tables[i] < 0 {
			return batch.Corrupt
		}
		b.tables[i] = int32(s.counts.Blocks - s.tables[i])
	}
	return batch.OK
}

// backwardBits reads bits from the end of a stream to its start. Bits before the start
// are 0.
type backwardBits struct {
	src  []byte
	left int // bits, negative if more were read
}

func openBits(src []byte) (*backwardBits, bool) {
	if len(src) == 0 || src[len(src)-1] == 0 {
		return &backwardBits{}, false
	}
	return &backwardBits{src, 8*(len(src)-1) + bits.Len8(src[len(src)-1]) - 1}, true
}

func (b *backwardBits) peek(n int) (v uint32) {
	for i := range n {
		at := b.left - 1 - i
		if v <<= 1; at >= 0 {
			v |= uint32(b.src[at/8] >> (at & 7) & 1)
		}
	}
	return v
}

func (b *backwardBits) read(n int) uint32 {
	v := b.peek(n)
	b.left -= n
	return v
}

// state is an entry of a table of finite state entropy.
type state struct {
	base   uint32
	bits   int
	symbol uint8
}

// readCounts reads the description of a table. It returns its size in bytes, or 0 if it is
// invalid.
func readCounts(src []byte, most, maxLog int) (counts []int, log, size int) {
	at := 0
	peek := func(n int) (v int) {
		for i := range n {
			if k := at + i; k/8 < len(src) {
				v |= int(src[k/8]>>(k&7)&1) << i
			}
		}
		return v
	}
	if len(src) == 0 {
		return nil, 0, 0
	}
	log = peek(4) + 5
	at = 4
	if log > maxLog {
		return nil, 0, 0
	}
	remaining, threshold, width := 1<<log+1, 1<<log, log+1
	for remaining > 1 {
		if len(counts) > most || at > 8*len(src) {
			return nil, 0, 0
		}
		limit := 2*threshold - 1 - remaining
		count := peek(width - 1)
		if count < limit {
			at += width - 1
		} else {
			count = peek(width)
			if count >= threshold {
				count -= limit
			}
			at += width
		}
		count--
		remaining -= max(count, -count)
		if remaining < 1 {
			return nil, 0, 0
		}
		counts = append(counts, count)
		if count == 0 {
			for zeros := 3; zeros == 3; {
				zeros = peek(2)
				at += 2
				if at > 8*len(src) || len(counts)+zeros > most+1 {
					return nil, 0, 0
				}
				counts = append(counts, make([]int, zeros)...)
			}
		}
		for remaining < threshold {
			width--
			threshold >>= 1
		}
	}
	if size = (at + 7) / 8; size > len(src) {
		return nil, 0, 0
	}
	return counts, log, size
}

// buildStates returns the table of 1<<log states, or nil if the counts are invalid.
func buildStates(counts []int, log int) []state {
	size := 1 << log
	table := make([]state, size)
	next := make([]int, len(counts))
	high := size - 1
	for s, n := range counts {
		next[s] = n
		if n < 0 {
			table[high].symbol = uint8(s)
			high--
			next[s] = 1
		}
	}
	at := 0
	for s, n := range counts {
		for range n {
			table[at].symbol = uint8(s)
			for at = (at + size/2 + size/8 + 3) % size; at > high; at = (at + size/2 + size/8 + 3) % size {
			}
		}
	}
	if at != 0 {
		return nil
	}
	for i := range table {
		e := &table[i]
		n := next[e.symbol]
		next[e.symbol]++
		e.bits = log - (bits.Len(uint(n)) - 1)
		e.base = uint32(n<<e.bits - size)
	}
	return table
}

// readWeights returns the weights of a Huffman code and the size of their description, or
// nil.
func readWeights(src []byte) (weights []uint8, size int) {
	if len(src) == 0 {
		return nil, 0
	}
	if header := int(src[0]); header >= 128 {
		n := header - 127
		if size = 1 + (n+1)/2; size > len(src) {
			return nil, 0
		}
		for i := range n {
			weights = append(weights, src[1+i/2]>>(4-4*(i&1))&15)
		}
		return weights, size
	}
	size = 1 + int(src[0])
	if size > len(src) {
		return nil, 0
	}
	counts, log, used := readCounts(src[1:size], 12, 6)
	if used == 0 {
		return nil, 0
	}
	table := buildStates(counts, log)
	b, ok := openBits(src[1+used : size])
	if table == nil || !ok {
		return nil, 0
	}
	at := [2]uint32{b.read(log), b.read(log)}
	if b.left < 0 {
		return nil, 0
	}
	for len(weights) < 254 {
		now := &at[len(weights)&1]
		s := table[*now]
		weights = append(weights, s.symbol)
		*now = s.base + b.read(s.bits)
		if b.left < 0 {
			return append(weights, table[at[len(weights)&1]].symbol), size
		}
	}
	return nil, 0
}

// code is an entry of a table of Huffman codes.
type code struct{ symbol, bits uint8 }

// readCode returns the table of a Huffman code and the size of its description, or nil.
func readCode(src []byte) (table []code, longest, size int) {
	weights, size := readWeights(src)
	if len(weights) == 0 || len(weights) > 255 {
		return nil, 0, 0
	}
	sum := 0
	for _, w := range weights {
		if w > 11 {
			return nil, 0, 0
		}
		sum += 1 << w >> 1
	}
	longest = bits.Len(uint(sum))
	rest := 1<<longest - sum
	if sum == 0 || longest > 11 || rest&(rest-1) != 0 {
		return nil, 0, 0
	}
	weights = append(weights, uint8(bits.Len(uint(rest))))
	for w := 1; w <= longest; w++ {
		for s, of := range weights {
			if int(of) != w {
				continue
			}
			for range 1 << (w - 1) {
				table = append(table, code{uint8(s), uint8(longest + 1 - w)})
			}
		}
	}
	return table, longest, size
}

// blocksHostKernel decodes the literals and the sequences of blocks.
func blocksHostKernel(l *cudabuf.HostLaunch) {
	n := l.Int64(5)
	if n == 0 {
		return
	}
	blocks := launch.Structs[block](l, 1, n)
	var end int64
	for _, b := range blocks {
		if b.hasCodedLiterals() {
			end = b.firstLiteral + int64(b.literals)
		}
	}
	src, literals := contents(l, 0, blocks), l.Memory(l.Pointer(2), end)
	sequences := launch.Structs[batch.Sequence](l, 3, blocks[n-1].firstSequence+int64(blocks[n-1].sequences))
	index := launch.Structs[[indexSize]uint16](l, 4, n)
	for i := range blocks {
		b := &blocks[i]
		if b.hasCodedLiterals() && !decodeLiterals(src, blocks, i, literals) {
			b.status = batch.Corrupt
		}
		found := sequences[b.firstSequence : b.firstSequence+int64(b.sequences)]
		if !decodeSequences(src, blocks, i, found) {
			b.status = batch.Corrupt
			continue
		}
		for k, at := 0, uint32(0); at < b.size; at += indexStep {
			for k+1 < len(found) && found[k+1].Out <= at {
				k++
			}
			index[i][at/indexStep] = uint16(k)
		}
	}
}

// contents returns the inputs of a launch up to the end of the last block.
func contents(l *cudabuf.HostLaunch, i int, blocks []block) []byte {
	var end int64
	for _, b := range blocks {
		end = max(end, b.src+int64(b.srcSize))
	}
	return l.Memory(l.Pointer(i), end)
}

func (b *block) contents(src []byte) []byte { return src[b.src : b.src+int64(b.srcSize)] }

func (b *block) codedLiterals(src []byte) []byte {
	return b.contents(src)[b.literalsSrc : b.literalsSrc+b.literalsSrcSize]
}

func decodeLiterals(src []byte, blocks []block, i int, literals []byte) bool {
	b := &blocks[i]
	to, from := literals[b.firstLiteral:b.firstLiteral+int64(b.literals)], b.codedLiterals(src)
	table, longest, description := readCode(blocks[i-int(b.huffman)].codedLiterals(src))
	if table == nil {
		return false
	}
	if b.huffman == 0 {
		from = from[description:]
	}
	stream := func(src, to []byte) bool {
		in, ok := openBits(src)
		for k := range to {
			c := table[in.peek(longest)]
			to[k] = c.symbol
			in.left -= int(c.bits)
		}
		return ok && in.left == 0
	}
	if b.streams == 1 {
		return stream(from, to)
	}
	if len(from) < 6 || len(to) < 6 {
		return false
	}
	each, sizes := (len(to)+3)/4, from[:6]
	from = from[6:]
	for k := range 3 {
		size := int(binary.LittleEndian.Uint16(sizes[2*k:]))
		if size > len(from) || each > len(to) || !stream(from[:size], to[:each]) {
			return false
		}
		from, to = from[size:], to[each:]
	}
	return stream(from, to)
}

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

func placeHostKernel(l *cudabuf.HostLaunch) {
	n := l.Int64(7)
	items, starts := launch.Structs[batch.Item](l, 1, n), launch.Structs[counts](l, 2, n+1)
	blocks, outcomes := launch.Structs[block](l, 3, starts[n].Blocks), launch.Structs[batch.Outcome](l, 6, n)
	windows, states := launch.Structs[batch.Window](l, 4, starts[n].Windows), launch.Structs[batch.Progress](l, 5, n)
	for i := range items {
		status := batch.Status(starts[i].Status)
		var out, frame, begin int64
		var repeats [3]uint32
		skew := int64(l.Pointer(0)+uintptr(items[i].Dst)) & 15
		own := windows[starts[i].Windows:starts[i+1].Windows]
		states[i] = batch.Progress{}
		for k := starts[i].Blocks; k < starts[i+1].Blocks && status == batch.OK; k++ {
			b := &blocks[k]
			status = b.status
			if b.frameBegins {
				repeats, frame = [3]uint32{1, 4, 8}, out
			}
			b.out, b.frame = uint32(out), uint32(frame)
			after := b.repeats
			b.repeats = repeats
			for r := range after {
				after[r] = knownOffset(after[r], b.repeats)
			}
			repeats = after
			out += int64(b.size)
			if out > items[i].DstSize {
				status = batch.TooLarge
			}
			if b.frameEnds && b.contentSize >= 0 && out-frame != b.contentSize {
				status = batch.Corrupt
			}
			for status == batch.OK && begin < out {
				own[states[i].Windows] = batch.Window{First: uint32(k - starts[i].Blocks)}
				states[i].Windows++
				begin = int64(states[i].Windows)*batch.WindowBytes - skew
			}
		}
		states[i].Size = uint32(out)
		outcomes[i] = batch.Outcome{Status: status}
		if status == batch.OK {
			outcomes[i].Size = out
		} else {
			states[i].Windows = 0
		}
	}
}

// writeHostKernel writes all windows of an item when it first appears among those that are
// written.
func writeHostKernel(l *cudabuf.HostLaunch) {
	writes := launch.Structs[int32](l, 2, int64(l.Grid.X))
	n := int64(slices.Max(writes)) + 1
	items, starts := launch.Structs[batch.Item](l, 3, n), launch.Structs[counts](l, 4, n+1)
	blocks := launch.Structs[block](l, 5, starts[n].Blocks)
	src := contents(l, 1, blocks)
	sequences, literals := launch.Structs[batch.Sequence](l, 7, starts[n].Sequences), l.Memory(l.Pointer(8), starts[n].Literals)
	states, outcomes := launch.Structs[batch.Progress](l, 10, n), launch.Structs[batch.Outcome](l, 11, n)
	for _, i := range writes {
		if states[i].Next == states[i].Windows {
			continue
		}
		states[i].Next = states[i].Windows
		dst := l.Memory(l.Pointer(0)+uintptr(items[i].Dst), int64(states[i].Size))
		for k := range blocks[starts[i].Blocks:starts[i+1].Blocks] {
			b := &blocks[starts[i].Blocks+int64(k)]
			if !b.write(dst, src, literals, sequences) {
				outcomes[i] = batch.Outcome{Status: batch.BadOffset}
				break
			}
		}
	}
}

// write executes the sequences of a block. It reports whether all offsets are valid.
func (b *block) write(dst, src, literals []byte, sequences []batch.Sequence) bool {
	switch own := dst[b.out : b.out+b.size]; {
	case b.hasCodedLiterals():
		literals = literals[b.firstLiteral:]
	case b.hasSameLiterals():
		literals = bytes.Repeat(b.contents(src)[b.literalsSrc:b.literalsSrc+1], len(own))
	default:
		literals = b.contents(src)[b.literalsSrc:]
	}
	for k := range b.sequences {
		s := sequences[b.firstSequence+int64(k)]
		out := b.out + s.Out
		match := out + s.Literals
		copy(dst[out:match], literals[s.Source:])
		if k+1 == b.sequences {
			break
		}
		offset := knownOffset(s.Offset, b.repeats)
		if offset == 0 || offset > match-b.frame {
			return false
		}
		for p := match; p < b.out+sequences[b.firstSequence+int64(k)+1].Out; p++ {
			dst[p] = dst[p-offset]
		}
	}
	return true
}

func checksumHostKernel(l *cudabuf.HostLaunch) {
	n := l.Int64(5)
	items, starts := launch.Structs[batch.Item](l, 1, n), launch.Structs[counts](l, 2, n+1)
	blocks, outcomes := launch.Structs[block](l, 3, starts[n].Blocks), launch.Structs[batch.Outcome](l, 4, n)
	for i := range outcomes {
		if outcomes[i].Status != batch.OK {
			continue
		}
		dst := l.Memory(l.Pointer(0)+uintptr(items[i].Dst), outcomes[i].Size)
		for _, b := range blocks[starts[i].Blocks:starts[i+1].Blocks] {
			if b.frameEnds && b.checked && uint32(xxhash.Sum64(dst[b.frame:b.out+b.size])) != b.checksum {
				outcomes[i] = batch.Outcome{Status: batch.BadChecksum}
			}
		}
	}
}
