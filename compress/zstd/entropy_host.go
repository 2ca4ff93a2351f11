package zstd

import (
	"math/bits"
)

// Bit streams and finite state entropy (RFC 8878, section 4.1), read and written.

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

// tableLog returns the logarithm of the size of a table for total symbols, of which
// distinct are different.
func tableLog(total, distinct, most int) int {
	return min(most, max(highBit(total-1)-2, highBit(distinct)+1, 5))
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
