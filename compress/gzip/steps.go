package gzip

import "math/bits"

// A step is what one look at the next stepBits bits decodes: a literal, a short match, or
// a literal and the match after it. Where most symbols are short matches, as in numbers
// after deflate's fast levels, steps take half the time of symbols: neither the kind of a
// symbol nor the place of the distance's code depends on a symbol before it. A step has:
//
//	bits 0-7    the number of bits to consume: those of all codes, and of the distance
//	bits 8-15   the position of the distance's extra bits
//	bits 16-23  their number
//	bits 24-30  the number of bytes to output, of the literal and the match
//	bit  31     set if the next symbol is not a step
//	bits 32-39  the literal, or 0
//	bits 40-47  8 if there is a literal, or 0: the number of its bits
//	bits 48-63  the least distance from the literal to the bytes that the match repeats
//
// A literal alone is a match of no bytes, at a distance that is not an overlap.
type step = uint64

const (
	stepBits, stepSize = 11, 1 << 11

	longestStepMatch = 7 // so that a literal and a match are written as 8 bytes
	noStep           = 1 << 31
	stepLiteral      = 8 << 40
	stepConsumeMask  = 255
	stepExtraAt      = 8
	stepExtraBits    = 16
	stepOutput       = 24
	stepLiteralAt    = 32
	stepDistance     = 48
)

// The least part of all inputs that decode to a match in one step, in units of 1/stepSize,
// for which steps are faster than the symbols of fast, and than libdeflate.
const (
	fewMatches = stepSize / 3
	mostly     = stepSize * 5 / 8
)

// matchSteps returns how many of the steps of a code have a match.
func matchSteps(literals, distances []uint8) int {
	var literal, match, distance [maxCodeLength + 1]int // the number of codes, by length
	for _, n := range literals[:endOfBlock] {
		literal[n]++
	}
	for _, n := range literals[endOfBlock+1 : min(len(literals), endOfBlock+1+longestStepMatch-2)] {
		match[n]++
	}
	for _, n := range distances {
		distance[n]++
	}
	var within [stepBits + 1]int // of all inputs of some bits, those that are a match
	for k := range within {
		for n := 1; n < k; n++ {
			for m := 1; n+m <= k; m++ {
				within[k] += match[n] * distance[m] << (k - n - m)
			}
		}
	}
	all := within[stepBits]
	for n := 1; n < stepBits; n++ {
		all += literal[n] * within[stepBits-n]
	}
	return all
}

// code is a Huffman code, the first bit lowest. Its length is 0 if the symbol has none.
type code struct {
	bits   uint16
	length uint8
}

// canonicalCodes sets the codes of the symbols (section 3.2.2).
func canonicalCodes(codes []code, lengths []uint8) {
	var count, next [maxCodeLength + 1]uint16
	for _, n := range lengths {
		count[n]++
	}
	count[0] = 0
	for n := 1; n <= maxCodeLength; n++ {
		next[n] = (next[n-1] + count[n-1]) << 1
	}
	for symbol, n := range lengths {
		codes[symbol] = code{bits.Reverse16(next[n]) >> (16 - n), n}
		next[n]++
	}
}

// buildSteps fills f.steps for the code of a block. buildTable has accepted the lengths.
func (f *inflater) buildSteps(literals, distances []uint8) {
	var lit [numLiterals]code
	var dist [numDistances]code
	canonicalCodes(lit[:], literals)
	canonicalCodes(dist[:], distances)
	for i := range f.steps {
		f.steps[i] = noStep
	}
	for i, l := range lit[endOfBlock+1:][:longestStepMatch-2] {
		for symbol, d := range dist[:len(distances)] {
			n := l.length + d.length
			if l.length == 0 || d.length == 0 || n > stepBits {
				continue
			}
			e := distSymbols[symbol]
			extra := step(e & consumeMask)
			s := step(n) + extra | step(n)<<stepExtraAt | extra<<stepExtraBits | step(3+i)<<stepOutput | step(e>>valueShift)<<stepDistance
			for at := int(l.bits | d.bits<<l.length); at < stepSize; at += 1 << n {
				f.steps[at] = s
			}
		}
	}
	for value, l := range lit[:endOfBlock] {
		n := step(l.length)
		if n == 0 || n > stepBits {
			continue
		}
		s := n | n<<stepExtraAt | 1<<stepOutput | step(value)<<stepLiteralAt | stepLiteral
		for at := int(l.bits); at < stepSize; at += 1 << n {
			f.steps[at] = s + 8<<stepDistance
			// The match after it, unless that is the literal's own place, or another literal.
			if match := f.steps[at>>n]; at > 0 && match&(noStep|stepLiteral) == 0 && match>>stepExtraAt&63+n <= stepBits {
				f.steps[at] = s + match - 1<<stepDistance
			}
		}
	}
}

// decodeStepsGo decodes steps from the position in of the input, while the room that fast
// needs remains. It stops at what is not a step, or is not valid.
func (f *inflater) decodeStepsGo(in int, buf uint64, n uint, out int) (newIn int, newBuf uint64, newN uint, newOut int) {
	src, dst := f.src, f.dst
	for in <= len(src)-fastInput && out <= len(dst)-fastOutput {
		buf |= le.Uint64(src[in:]) << (n & 63)
		in += int(63-n) >> 3
		n |= 56
		s := f.steps[buf&(stepSize-1)]
		back := int(s>>stepDistance) + int(buf>>(s>>stepExtraAt&63)&(1<<(s>>stepExtraBits&15)-1))
		from := out - back
		if s&noStep != 0 || from < f.start {
			break
		}
		buf >>= s & 63
		n -= uint(s & stepConsumeMask)
		end := out + int(s>>stepOutput&127)
		if out+back >= end {
			le.PutUint64(dst[out:], le.Uint64(dst[from:])<<(s>>(stepLiteralAt+8)&8)|s>>stepLiteralAt&255)
			out = end
			continue
		}
		dst[out] = byte(s >> stepLiteralAt)
		for out += int(s >> (stepLiteralAt + 11) & 1); out < end; out, from = out+1, from+1 {
			dst[out] = dst[from]
		}
	}
	return in, buf, n, out
}
