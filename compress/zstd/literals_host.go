package zstd

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
)

// Literals sections and their Huffman codes (RFC 8878, sections 3.1.1.3.1 and 4.2), read
// and written.

const (
	rleLiterals = 1 // the kinds of literals that are not raw
	huffman     = 2

	maxBits     = 11 // of a Huffman code
	weightsLog  = 6  // of the table of weights
	minLiterals = 64 // fewer literals are not encoded
	oneStream   = 256
)

// literalsWidths are the bits of each of the two sizes in a header of Huffman literals, by its form.
var literalsWidths = [4]int{10, 10, 14, 18}

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
		if w > maxBits {
			return nil, 0, 0
		}
		sum += 1 << w >> 1
	}
	longest = bits.Len(uint(sum))
	rest := 1<<longest - sum
	if sum == 0 || longest > maxBits || rest&(rest-1) != 0 {
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
	counts, log, used := readCounts(src[1:size], maxBits+1, weightsLog)
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
	width := literalsWidths[form]
	v := uint64(huffman) | uint64(form)<<2 | uint64(n)<<4 | uint64(size)<<(4+width)
	for i := range header {
		coded[begin+i] = byte(v >> (8 * i))
	}
	return coded
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
