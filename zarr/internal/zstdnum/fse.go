package zstdnum

import "math/bits"

const (
	tableSymbols = 64 // a power of 2 above the 53 match length codes
	maxTableLog  = 9
	minTableLog  = 5
)

// fse is the tables with which finite state entropy encodes one kind of symbol
// (RFC 8878, 4.1).
type fse struct {
	counts  [tableSymbols]uint32
	norm    [tableSymbols]uint16 // shares of the table; together its size
	log     uint                 // of the table's size; 0 where there is just one symbol
	symbols int                  // one more than the largest that occurs

	states  [1 << maxTableLog]uint16
	symbol  [1 << maxTableLog]uint8
	changes [tableSymbols]change
}

// change is how a symbol moves the state.
type change struct {
	bits uint32 // from which the number of bits to write comes
	find int32  // from the shifted state to its place in states
}

// prepare makes the tables for symbols that occur counts times. The table has
// at most 2^most places.
func (f *fse) prepare(total uint32, most uint) {
	f.symbols, f.log = 0, 0
	for s, n := range f.counts {
		if n > 0 {
			f.symbols = s + 1
		}
	}
	if f.counts[f.symbols-1] == total {
		f.states[0], f.changes[f.symbols-1] = 0, change{}
		return
	}
	// A table much larger than the number of symbols to write costs more
	// than it saves.
	f.log = min(most, max(minTableLog+1, uint(bits.Len32(total))-2))
	f.normalize(total)
	f.build()
}

// normalize shares the table out in proportion, at least one place a symbol.
func (f *fse) normalize(total uint32) {
	size, given, largest := uint64(1)<<f.log, uint64(0), 0
	for s := range f.symbols {
		n := uint64(f.counts[s])
		share := (n*size + uint64(total)/2) / uint64(total)
		if n > 0 && share == 0 {
			share = 1
		}
		f.norm[s] = uint16(share)
		given += share
		if f.norm[s] > f.norm[largest] {
			largest = s
		}
	}
	if given <= size {
		f.norm[largest] += uint16(size - given)
		return
	}
	for ; given > size; given-- { // rounding gave too much: the largest give it back
		for s := range f.symbols {
			if f.norm[s] > f.norm[largest] {
				largest = s
			}
		}
		f.norm[largest]--
	}
}

// build spreads the symbols over the table as the decoder does, and inverts
// what the decoder will do.
func (f *fse) build() {
	size := uint32(1) << f.log
	var place [tableSymbols]uint16 // where a symbol's states are
	step, at := size>>1+size>>3+3, uint32(0)
	begin := uint16(0)
	for s := range f.symbols {
		place[s] = begin
		begin += f.norm[s]
		for range f.norm[s] {
			f.symbol[at] = uint8(s)
			at = (at + step) & (size - 1)
		}
	}
	for i := range size {
		s := f.symbol[i]
		f.states[place[s]] = uint16(size + i)
		place[s]++
	}
	before := int32(0)
	for s := range f.symbols {
		n := uint32(f.norm[s])
		switch n {
		case 0:
			continue
		case 1:
			f.changes[s] = change{bits: uint32(f.log)<<16 - size, find: before - 1}
		default:
			most := uint32(f.log) - uint32(bits.Len32(n-1)-1)
			f.changes[s] = change{bits: most<<16 - n<<most, find: before - int32(n)}
		}
		before += int32(n)
	}
}

// begin returns a state from which the decoder reads the symbol. A state is the
// table's size and a position in it.
func (f *fse) begin(s uint8) uint32 {
	c := f.changes[s]
	n := (c.bits + 1<<15) >> 16
	return uint32(f.states[int32((n<<16-c.bits)>>n)+c.find])
}

// write adds the bits that take the decoder from the state before the symbol to
// the given one, and returns the former.
func (f *fse) write(b bitBuffer, state uint32, s uint8) (bitBuffer, uint32) {
	c := f.changes[s&(tableSymbols-1)]
	n := (state + c.bits) >> 16 & 31
	return b.add(state, uint(n)), uint32(f.states[(state>>n+uint32(c.find))&(1<<maxTableLog-1)])
}

func (f *fse) mode() byte {
	if f.log == 0 {
		return rleMode
	}
	return compressedMode
}

// appendTable appends what the decoder makes the table of.
func (f *fse) appendTable(dst []byte) []byte {
	if f.log == 0 {
		return append(dst, byte(f.symbols-1))
	}
	return f.describe(dst)
}

// describe appends the table's description (RFC 8878, 4.1.1).
func (f *fse) describe(dst []byte) []byte {
	b := bitBuffer{}.add(uint32(f.log-minTableLog), 4)
	left, threshold, width := uint32(1)<<f.log+1, uint32(1)<<f.log, f.log+1
	for s := 0; left > 1; {
		n := uint32(f.norm[s])
		s++
		// Numbers below a bound take one bit less.
		short := 2*threshold - 1 - left
		left -= n
		value, size := n+1, width
		if value >= threshold {
			value += short
		}
		if value < short {
			size--
		}
		b = b.add(value, size)
		for left < threshold {
			width--
			threshold >>= 1
		}
		if n == 0 {
			// How many zeros follow, two bits at a time: 3 means three and
			// more to come.
			zeros := uint32(0)
			for ; f.norm[s] == 0; s++ {
				if zeros++; zeros == 3 {
					b, zeros = b.add(3, 2), 0
				}
			}
			b = b.add(zeros, 2)
		}
		for ; b.n >= 8; b = (bitBuffer{b.bits >> 8, b.n - 8}) {
			dst = append(dst, byte(b.bits))
		}
	}
	return b.appendTo(dst)
}
