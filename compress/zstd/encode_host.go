package zstd

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/cespare/xxhash/v2"

	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/compress/internal/matches"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
)

// The host implementations of the encoder's kernels, for the simulated device. They write
// the same bytes.

const (
	maxBits          = 11 // of a Huffman code
	minLiterals      = 64 // fewer literals are not encoded
	oneStream        = 256
	weightsLog       = 6
	codesLog         = 8         // of the tables of sequences; larger ones gain nothing
	window           = 128 << 10 // larger frames are not a single segment
	windowDescriptor = 7 << 3
)

// sourceBlock is the struct SourceBlock of zstd_encode.cuh.
type sourceBlock struct {
	src, scratch int64
	size, item   uint32
}

// encodedBlock is the struct EncodedBlock of zstd_encode.cuh.
type encodedBlock struct{ literals, sequences, section, size, kind, out uint32 }

// encodedSequence is the struct EncodedSequence of zstd_encode.cuh: literals, a match, and
// the value of its offset, which is that + 3, or 1 to 3 for a repeat offset.
type encodedSequence struct {
	value           uint32
	literals, match uint16
}

// bitWriter appends bits from the lowest of each byte on.
type bitWriter struct {
	out  []byte
	word uint64
	used int
}

func (w *bitWriter) add(value uint32, n int) {
	w.word |= uint64(value) << w.used
	w.used += n
	for w.used >= 8 {
		w.out = append(w.out, byte(w.word))
		w.word >>= 8
		w.used -= 8
	}
}

// flush appends the bits of the last byte, and 0.
func (w *bitWriter) flush() []byte {
	if w.used > 0 {
		w.out = append(w.out, byte(w.word))
	}
	w.word, w.used = 0, 0
	return w.out
}

// close ends a stream that is read backwards.
func (w *bitWriter) close() []byte {
	w.add(1, 1)
	return w.flush()
}

func highBit(v int) int { return bits.Len(uint(v)) - 1 }

// normalize scales counts to a sum of 1 << log, and at least 1 for each that is not 0.
func normalize(counts []int, total, log int) []int {
	norm := make([]int, len(counts))
	rest := 1 << log
	for s, n := range counts {
		if n > 0 {
			norm[s] = max(1, (n<<log+total/2)/total)
			rest -= norm[s]
		}
	}
	for rest != 0 {
		// The largest one, the first of equals.
		largest := 0
		for s, n := range norm {
			if n > norm[largest] {
				largest = s
			}
		}
		step := rest
		if rest < 0 {
			step = -1
		}
		norm[largest] += step
		rest -= step
	}
	return norm
}

// writeCounts appends the description of a table.
func writeCounts(w *bitWriter, norm []int, log int) {
	w.add(uint32(log-5), 4)
	remaining, threshold, width := 1<<log+1, 1<<log, log+1
	for s := 0; remaining > 1; s++ {
		n := norm[s]
		limit := 2*threshold - 1 - remaining
		remaining -= n
		code := n + 1
		if code >= threshold {
			code += limit
		}
		if code < limit {
			w.add(uint32(code), width-1)
		} else {
			w.add(uint32(code), width)
		}
		for remaining < threshold {
			width--
			threshold >>= 1
		}
		if n == 0 {
			zeros := 0
			for norm[s+1+zeros] == 0 {
				zeros++
			}
			s += zeros
			for ; zeros >= 3; zeros -= 3 {
				w.add(3, 2)
			}
			w.add(uint32(zeros), 2)
		}
	}
}

// transform is how a symbol changes a state.
type transform struct{ bits, find int32 }

// encodingTable is a table of finite state entropy for encoding.
type encodingTable struct {
	log        int
	transforms []transform
	states     []uint16
}

// buildEncodingTable returns the table of norm. Counts of -1 are allowed.
func buildEncodingTable(norm []int, log int) encodingTable {
	size := 1 << log
	t := encodingTable{log, make([]transform, len(norm)), make([]uint16, size)}
	symbols := make([]uint8, size)
	at, high := 0, size-1
	for s, n := range norm {
		if n < 0 {
			symbols[high] = uint8(s)
			high--
		}
	}
	before := 0
	next := make([]int, len(norm))
	for s, n := range norm {
		for range n {
			symbols[at] = uint8(s)
			for at = (at + size/2 + size/8 + 3) % size; at > high; at = (at + size/2 + size/8 + 3) % size {
			}
		}
		next[s] = before
		if n < 0 {
			n = 1
		}
		switch n {
		case 0:
		case 1:
			t.transforms[s] = transform{int32(log<<16 - size), int32(before - 1)}
		default:
			most := log - highBit(n-1)
			t.transforms[s] = transform{int32(most<<16 - n<<most), int32(before - n)}
		}
		before += n
	}
	for u, s := range symbols {
		t.states[next[s]] = uint16(size + u)
		next[s]++
	}
	return t
}

// first returns the state of the last symbol.
func (t *encodingTable) first(symbol uint8) int32 {
	f := t.transforms[symbol]
	n := (f.bits + 1<<15) >> 16
	return int32(t.states[(n<<16-f.bits)>>n+f.find])
}

// next returns the state before symbol, and the bits that it adds.
func (t *encodingTable) next(state int32, symbol uint8) (int32, uint32, int) {
	f := t.transforms[symbol]
	n := (state + f.bits) >> 16
	return int32(t.states[state>>n+f.find]), uint32(state) & (1<<n - 1), int(n)
}

// tableLog returns the logarithm of the size of a table for total symbols, of which
// distinct are different.
func tableLog(total, distinct, most int) int {
	return min(most, max(highBit(total-1)-2, highBit(distinct)+1, 5))
}

// huffmanCode is a Huffman code of literals.
type huffmanCode struct {
	bits    [256]uint8
	codes   [256]uint16
	longest int
	last    int // the highest symbol
}

// buildCode returns the code of symbols with these counts, of which two are not 0.
func buildCode(counts *[256]uint32) (c huffmanCode) {
	var order []uint8
	for s, n := range counts {
		if n > 0 {
			order = append(order, uint8(s))
			c.last = s
		}
	}
	slices.SortFunc(order, func(a, b uint8) int {
		return cmp.Or(cmp.Compare(counts[a], counts[b]), cmp.Compare(a, b))
	})
	n := len(order)
	// Of two nodes with equal counts, a leaf is merged before an inner node.
	parents, sums := make([]int, 2*n-1), make([]uint32, n-1)
	leaf, inner := 0, 0
	for made := range n - 1 {
		for range 2 {
			if leaf < n && (inner >= made || counts[order[leaf]] <= sums[inner]) {
				sums[made] += counts[order[leaf]]
				parents[leaf] = made
				leaf++
			} else {
				sums[made] += sums[inner]
				parents[n+inner] = made
				inner++
			}
		}
	}
	depths := make([]int, n-1)
	for i := n - 3; i >= 0; i-- {
		depths[i] = depths[parents[n+i]] + 1
	}
	lengths, sum := make([]int, n), 0
	for i := range n {
		lengths[i] = min(maxBits, depths[parents[i]]+1)
		sum += 1 << (maxBits - lengths[i])
	}
	// If codes were too long, others become longer, and then some shorter again.
	for i := 0; sum > 1<<maxBits; i++ {
		for lengths[i] < maxBits && sum > 1<<maxBits {
			lengths[i]++
			sum -= 1 << (maxBits - lengths[i])
		}
	}
	for i := n - 1; sum < 1<<maxBits; i-- {
		for sum+1<<(maxBits-lengths[i]) <= 1<<maxBits {
			sum += 1 << (maxBits - lengths[i])
			lengths[i]--
		}
	}
	for i, s := range order {
		c.bits[s] = uint8(lengths[i])
		c.longest = max(c.longest, lengths[i])
	}
	at := 0
	for length := c.longest; length > 0; length-- {
		for s := range c.last + 1 {
			if int(c.bits[s]) == length {
				c.codes[s] = uint16(at >> (c.longest - length))
				at += 1 << (c.longest - length)
			}
		}
	}
	return c
}

// describe appends the description of the code. It returns false if it has none.
func (c *huffmanCode) describe(out []byte) ([]byte, bool) {
	weights := make([]uint8, c.last)
	for s := range weights {
		if c.bits[s] > 0 {
			weights[s] = uint8(c.longest+1) - c.bits[s]
		}
	}
	n := len(weights)
	direct := 1 + (n+1)/2
	if coded := encodeWeights(weights); coded != nil && (n > 128 || len(coded)+1 < direct) {
		return append(append(out, byte(len(coded))), coded...), true
	}
	if n > 128 {
		return out, false
	}
	out = append(out, byte(127+n))
	for i := 0; i < n; i += 2 {
		b := weights[i] << 4
		if i+1 < n {
			b |= weights[i+1]
		}
		out = append(out, b)
	}
	return out, true
}

// encodeWeights returns the weights in finite state entropy, or nil if that is too long.
func encodeWeights(weights []uint8) []byte {
	n := len(weights)
	if n < 3 {
		return nil
	}
	counts, distinct := make([]int, maxBits+2), 0
	for _, w := range weights {
		if counts[w] == 0 {
			distinct++
		}
		counts[w]++
	}
	total := n
	if distinct == 1 {
		// A table of one symbol would need no bits, by which a decoder finds the end.
		other := 0
		if counts[0] > 0 {
			other = 1
		}
		counts[other]++
		distinct, total = 2, n+1
	}
	log := tableLog(total, distinct, weightsLog)
	norm := normalize(counts, total, log)
	var w bitWriter
	writeCounts(&w, norm, log)
	w.flush()
	t := buildEncodingTable(norm, log)
	var states [2]int32
	for k := n - 1; k >= 0; k-- {
		if k >= n-2 {
			states[k&1] = t.first(weights[k])
			continue
		}
		next, v, bits := t.next(states[k&1], weights[k])
		w.add(v, bits)
		states[k&1] = next
	}
	w.add(uint32(states[1])&(1<<log-1), log)
	w.add(uint32(states[0])&(1<<log-1), log)
	if out := w.close(); len(out) < 128 {
		return out
	}
	return nil
}

// plainLiterals appends the section of literals that are not encoded, or one that is
// repeated.
func plainLiterals(out, literals []byte, kind byte) []byte {
	n := len(literals)
	switch {
	case n < 32:
		out = append(out, kind|byte(n<<3))
	case n < 4096:
		out = append(out, kind|1<<2|byte(n<<4), byte(n>>4))
	default:
		out = append(out, kind|3<<2|byte(n<<4), byte(n>>4), byte(n>>12))
	}
	if kind == rleLiterals {
		return append(out, literals[0])
	}
	return append(out, literals...)
}

// encodeLiterals appends the section of literals of a block.
func encodeLiterals(out, literals []byte) []byte {
	n := len(literals)
	var counts [256]uint32
	largest := uint32(0)
	for _, s := range literals {
		counts[s]++
		largest = max(largest, counts[s])
	}
	if n > 2 && int(largest) == n {
		return plainLiterals(out, literals, rleLiterals)
	}
	if n < minLiterals || int(largest) <= n>>7+4 {
		return plainLiterals(out, literals, 0)
	}
	c := buildCode(&counts)
	begin := len(out)
	form, header := 1, 3
	switch {
	case n < oneStream:
		form = 0
	case n >= 1<<14:
		form, header = 3, 5
	case n >= 1<<10:
		form, header = 2, 4
	}
	coded, ok := c.describe(append(out, make([]byte, header)...))
	streams, each, bits := 4, (n+3)/4, 0
	at := len(coded)
	if form == 0 {
		streams, each = 1, n
	} else {
		coded = append(coded, make([]byte, 6)...)
	}
	for s, k := range counts {
		bits += int(k) * int(c.bits[s])
	}
	if !ok || len(coded)-begin+bits/8+2*streams >= n {
		return plainLiterals(out, literals, 0)
	}
	for k := range streams {
		start := len(coded)
		w := bitWriter{out: coded}
		part := literals[k*each : min((k+1)*each, n)]
		for i := len(part) - 1; i >= 0; i-- {
			w.add(uint32(c.codes[part[i]]), int(c.bits[part[i]]))
		}
		coded = w.close()
		if size := len(coded) - start; k < 3 && form > 0 {
			coded[at+2*k], coded[at+2*k+1] = byte(size), byte(size>>8)
		}
	}
	size := len(coded) - begin - header
	width := [4]int{10, 10, 14, 18}[form]
	v := uint64(huffman) | uint64(form)<<2 | uint64(n)<<4 | uint64(size)<<(4+width)
	for i := range header {
		coded[begin+i] = byte(v >> (8 * i))
	}
	return coded
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
	for k := range 3 {
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
			out[modesAt] |= rleTable << (6 - 2*k)
			out = append(out, byte(last))
			tables[k] = encodingTable{0, make([]transform, last+1), make([]uint16, 1)}
			continue
		}
		log := tableLog(n, distinct, codesLog)
		norm := normalize(counts, n, log)
		var w bitWriter
		writeCounts(&w, norm, log)
		description := w.flush()
		own, fixed := 8*256*len(description), 0
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
			tables[k] = buildEncodingTable(defaultCounts[k], defaultLogs[k])
			continue
		}
		out[modesAt] |= described << (6 - 2*k)
		out = append(out, description...)
		tables[k] = buildEncodingTable(norm, log)
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

// repeats are the repeat offsets of a block, 0 for those that depend on earlier blocks.
type repeats [3]uint32

// value returns the value of an offset and updates the repeat offsets.
func (r *repeats) value(offset uint32, literals uint32) uint32 {
	a, b, c := r[0], r[1], r[2]
	third := c
	if literals == 0 {
		a, b, third = r[1], r[2], r[0]-1
	}
	switch {
	case offset == a && literals > 0:
		return 1
	case offset == a:
		*r = repeats{r[1], r[0], r[2]}
		return 1
	case offset == b && literals > 0:
		*r = repeats{r[1], r[0], r[2]}
		return 2
	case offset == b:
		*r = repeats{r[2], r[0], r[1]}
		return 2
	case offset == third && literals > 0:
		*r = repeats{r[2], r[0], r[1]}
		return 3
	case offset == third:
		*r = repeats{third, r[0], r[1]}
		return 3
	}
	*r = repeats{offset, r[0], r[1]}
	return offset + 3
}

func matchesHostKernel(l *cudabuf.HostLaunch)     { findMatches(l, matches.SmallTable) }
func moreMatchesHostKernel(l *cudabuf.HostLaunch) { findMatches(l, matches.LargeTable) }

func findMatches(l *cudabuf.HostLaunch, tableBits int) {
	n := int64(l.Grid.X)
	pieces := launch.Structs[uint32](l, 2, n+1)
	blocks := launch.Structs[sourceBlock](l, 1, int64(pieces[n]))
	encoded := launch.Structs[encodedBlock](l, 5, int64(pieces[n]))
	batch.ForEach(n, func(i int64) {
		part := blocks[pieces[i]:pieces[i+1]]
		last := part[len(part)-1]
		piece := l.Memory(l.Pointer(0)+uintptr(part[0].src), last.src+int64(last.size)-part[0].src)
		finder, begin := matches.NewFinder(tableBits), uint32(0)
		for k, b := range part {
			end := begin + b.size
			literals := l.Memory(l.Pointer(3)+uintptr(b.scratch), int64(b.size))[:0]
			sequences := sequencesAt(l, 4, b, b.size/4)[:0]
			var r repeats
			anchor := begin
			finder.Find(piece, begin, end, matches.Entropy(piece[begin:end]), true, func(m matches.Match) {
				before := m.Position - anchor
				literals = append(literals, piece[anchor:m.Position]...)
				sequences = append(sequences, encodedSequence{r.value(m.Offset, before), uint16(before), uint16(m.Length)})
				anchor = m.Position + m.Length
			})
			literals = append(literals, piece[anchor:end]...)
			encoded[int(pieces[i])+k] = encodedBlock{literals: uint32(len(literals)), sequences: uint32(len(sequences))}
			begin = end
		}
	})
}

// sequencesAt returns n sequences of a block in the scratch memory.
func sequencesAt(l *cudabuf.HostLaunch, i int, b sourceBlock, n uint32) []encodedSequence {
	if n == 0 {
		return nil
	}
	memory := l.Memory(l.Pointer(i)+uintptr(b.scratch/4*sequenceSize), int64(n)*sequenceSize)
	return unsafe.Slice((*encodedSequence)(unsafe.Pointer(unsafe.SliceData(memory))), n)
}

func entropyHostKernel(l *cudabuf.HostLaunch) {
	n := int64(l.Grid.X)
	blocks, encoded := launch.Structs[sourceBlock](l, 1, n), launch.Structs[encodedBlock](l, 5, n)
	batch.ForEach(n, func(i int64) {
		b, e := blocks[i], &encoded[i]
		sequences := sequencesAt(l, 4, b, e.sequences)
		e.kind, e.size = rawBlock, b.size
		if len(sequences) == 1 && e.literals <= 1 && sequences[0].value == 4 && uint32(sequences[0].literals)+uint32(sequences[0].match) == b.size {
			e.kind, e.size = rleBlock, 1
			return
		}
		if len(sequences) == 0 && e.literals < minLiterals {
			return
		}
		contents := encodeLiterals(nil, l.Memory(l.Pointer(2)+uintptr(b.scratch), int64(e.literals)))
		e.section = uint32(len(contents))
		contents = encodeSequences(contents, sequences)
		if len(contents) < int(b.size) {
			e.kind, e.size = codedBlock, uint32(len(contents))
			copy(l.Memory(l.Pointer(3)+uintptr(b.scratch), int64(e.size)), contents)
		}
	})
}

func frameHostKernel(l *cudabuf.HostLaunch) {
	n, checksum := l.Int64(6), l.Int64(7) != 0
	items, starts := launch.Structs[batch.Item](l, 2, n), launch.Structs[uint32](l, 3, n+1)
	encoded, outcomes := launch.Structs[encodedBlock](l, 4, int64(starts[n])), launch.Structs[batch.Outcome](l, 5, n)
	batch.ForEach(n, func(i int64) {
		it := items[i]
		frame := binary.LittleEndian.AppendUint32(nil, frameMagic)
		descriptor := uint8(0)
		if checksum {
			descriptor = 4
		}
		if it.SrcSize <= window {
			frame = append(frame, descriptor|1<<5)
		} else {
			frame = append(frame, descriptor, windowDescriptor)
		}
		switch {
		case it.SrcSize < 256:
			frame = append(frame, byte(it.SrcSize))
		case it.SrcSize < 256+1<<16:
			frame[4] |= 1 << 6
			frame = binary.LittleEndian.AppendUint16(frame, uint16(it.SrcSize-256))
		default:
			frame[4] |= 2 << 6
			frame = binary.LittleEndian.AppendUint32(frame, uint32(it.SrcSize))
		}
		if it.SrcSize == 0 {
			frame = append(frame, 1, 0, 0) // the last block, raw and empty
		}
		at := int64(len(frame))
		for k := starts[i]; k < starts[i+1]; k++ {
			encoded[k].out = uint32(at)
			at += 3 + int64(encoded[k].size)
		}
		end := at
		if checksum {
			end += 4
		}
		if end > it.DstSize || end > compress.MaxSize {
			outcomes[i] = batch.Outcome{Status: batch.TooLarge}
			return
		}
		dst := l.Memory(l.Pointer(0)+uintptr(it.Dst), end)
		copy(dst, frame)
		if checksum {
			binary.LittleEndian.PutUint32(dst[at:], uint32(xxhash.Sum64(l.Memory(l.Pointer(1)+uintptr(it.Src), it.SrcSize))))
		}
		outcomes[i] = batch.Outcome{Size: end}
	})
}

func packHostKernel(l *cudabuf.HostLaunch) {
	n := int64(l.Grid.X)
	blocks, encoded := launch.Structs[sourceBlock](l, 4, n), launch.Structs[encodedBlock](l, 6, n)
	count := int64(blocks[n-1].item) + 1
	items, starts, outcomes := launch.Structs[batch.Item](l, 2, count), launch.Structs[uint32](l, 3, count+1), launch.Structs[batch.Outcome](l, 7, count)
	batch.ForEach(n, func(i int64) {
		b, e := blocks[i], encoded[i]
		if outcomes[b.item].Status != batch.OK {
			return
		}
		header, from := e.kind<<1|e.size<<3, l.Pointer(1)+uintptr(b.src)
		switch e.kind {
		case rleBlock:
			header = e.kind<<1 | b.size<<3
		case codedBlock:
			from = l.Pointer(5) + uintptr(b.scratch)
		}
		if int64(starts[b.item+1]) == i+1 {
			header |= 1
		}
		dst := l.Memory(l.Pointer(0)+uintptr(items[b.item].Dst+int64(e.out)), 3+int64(e.size))
		dst[0], dst[1], dst[2] = byte(header), byte(header>>8), byte(header>>16)
		copy(dst[3:], l.Memory(from, int64(e.size)))
	})
}
