package gzip

import "math/bits"

// A Huffman table is indexed by the next bits of the input, the first bit lowest. Codes
// longer than the index continue in a subtable of the same array. An entry has:
//
//	bits 0-5    the number of bits to consume: those of the code, and extra bits
//	bit  6      set for literals
//	bit  7      set for what is neither literal, length nor distance: see below
//	bits 8-11   the length of the code; the number of literals, 1 or 2
//	bits 16-31  the literals, or the least length or distance, to which extra bits add
//
// An entry with bit 7 is invalid unless it has bit 12 or bit 13. Bit 12 marks the end of
// a block. Bit 13 marks a subtable: its position is in bits 16 to 31, and bits 8 to 11
// are the number of bits of its index.
type entry = uint32

const (
	consumeMask = 63
	isLiteral   = 1 << 6
	isSpecial   = 1 << 7
	isEnd       = 1 << 12
	isSubtable  = 1 << 13
	lengthShift = 8
	lengthMask  = 15
	valueShift  = 16
)

// The sizes of the tables. 2342 and 402 entries are the most that complete codes of 288
// and 32 symbols of up to 15 bits take; powers of two make index checks unnecessary.
const (
	litBits, litSize   = 11, 4096
	distBits, distSize = 8, 512
	metaBits, metaSize = 7, 128

	maxCodeLength = 15
	numLiterals   = 288
	numDistances  = 32
	endOfBlock    = 256
)

// The symbols of RFC 1951, section 3.2.5, without the lengths of their codes.
var (
	litSymbols  = makeLitSymbols()
	distSymbols = makeDistSymbols()
	metaSymbols = makeMetaSymbols()
)

func makeLitSymbols() (symbols [numLiterals]entry) {
	for i := range endOfBlock {
		symbols[i] = isLiteral | 1<<lengthShift | entry(i)<<valueShift
	}
	symbols[endOfBlock] = isSpecial | isEnd
	base := 3
	for i := range 28 {
		extra := max(i/4-1, 0)
		symbols[endOfBlock+1+i] = entry(extra) | entry(base)<<valueShift
		base += 1 << extra
	}
	symbols[285] = 258 << valueShift
	symbols[286], symbols[287] = isSpecial, isSpecial
	return symbols
}

func makeDistSymbols() (symbols [numDistances]entry) {
	base := 1
	for i := range 30 {
		extra := max(i/2-1, 0)
		symbols[i] = entry(extra) | entry(base)<<valueShift
		base += 1 << extra
	}
	symbols[30], symbols[31] = isSpecial, isSpecial
	return symbols
}

// makeMetaSymbols returns the symbols of code lengths (section 3.2.7).
func makeMetaSymbols() (symbols [19]entry) {
	for i := range symbols {
		symbols[i] = entry(i) << valueShift
	}
	return symbols
}

// buildTable fills a table with the canonical code of the given lengths, and reports
// whether the lengths are valid. The code must be complete, with two exceptions that
// encoders make: no symbols, and one symbol whose code is one bit.
func buildTable(table []entry, index int, lengths []uint8, symbols []entry) bool {
	var count [maxCodeLength + 1]int
	for _, n := range lengths {
		count[n]++
	}
	longest := maxCodeLength
	for longest > 0 && count[longest] == 0 {
		longest--
	}
	if longest == 0 {
		fillTable(table[:1<<index], isSpecial)
		return true
	}
	var next [maxCodeLength + 2]int // of the symbols in order of length
	left := 1
	for n := 1; n <= longest; n++ {
		if left = left<<1 - count[n]; left < 0 {
			return false
		}
		next[n+1] = next[n] + count[n]
	}
	if left > 0 {
		if longest > 1 || count[1] != 1 {
			return false
		}
		fillTable(table[:1<<index], isSpecial)
	}
	var order [numLiterals]uint16
	for symbol, n := range lengths {
		if n > 0 {
			order[next[n]] = uint16(symbol)
			next[n]++
		}
	}
	code, at := 0, 0
	end := 1 << index // of the used part of the table
	for n := 1; n <= min(longest, index); n++ {
		for range count[n] {
			e := symbols[order[at]] + entry(n) // bits to consume
			if e&(isLiteral|isSpecial) == 0 {
				e |= entry(n) << lengthShift
			}
			reversed := int(bits.Reverse16(uint16(code)) >> (16 - n))
			for i := reversed; i < 1<<index; i += 1 << n {
				table[i] = e
			}
			code, at = code+1, at+1
		}
		code <<= 1
	}
	prefix, within := -1, 0 // of the subtable, and the bits of its index
	for n := index + 1; n <= longest; n++ {
		for k := range count[n] {
			reversed := int(bits.Reverse16(uint16(code)) >> (16 - n))
			if p := reversed & (1<<index - 1); p != prefix {
				prefix, within = p, n-index
				if within > 0 && prefix >= 0 {
					room := 1<<within - (count[n] - k)
					for room > 0 && within+index < longest {
						within++
						room = room<<1 - count[within+index]
					}
				}
				if end+1<<within > len(table) {
					return false
				}
				table[prefix] = isSpecial | isSubtable | entry(index) | entry(within)<<lengthShift | entry(end)<<valueShift
				end += 1 << within
			}
			e := symbols[order[at]] + entry(n-index)
			if e&(isLiteral|isSpecial) == 0 {
				e |= entry(n-index) << lengthShift
			}
			start := int(table[prefix] >> valueShift)
			for i := reversed >> index; i < 1<<within; i += 1 << (n - index) {
				table[start+i] = e
			}
			code, at = code+1, at+1
		}
		code <<= 1
	}
	return true
}

func fillTable(table []entry, e entry) {
	for i := range table {
		table[i] = e
	}
}

// pairLiterals makes entries of two literals where both codes fit into the index.
func pairLiterals(table *[litSize]entry) {
	// An entry refers to one before it, so the last comes first.
	for i := 1<<litBits - 1; i >= 0; i-- {
		e := table[i]
		n := e & consumeMask
		if e&isLiteral == 0 || n >= litBits {
			continue
		}
		second := table[i>>n]
		if m := second & consumeMask; second&isLiteral != 0 && n+m <= litBits {
			table[i] = isLiteral | 2<<lengthShift | (n + m) | e>>valueShift&255<<valueShift | second>>valueShift<<(valueShift+8)
		}
	}
}
