package gzip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/quiver-gpu/quiver/compress"
)

var le = binary.LittleEndian

// ErrCorrupt reports bytes that are not the format. Test with errors.Is. It wraps
// compress.ErrCorrupt.
var ErrCorrupt = fmt.Errorf("corrupt input: %w", compress.ErrCorrupt)

var errTruncated = fmt.Errorf("%w: %w", ErrCorrupt, io.ErrUnexpectedEOF)

// errFull reports that the output has no room for the next block.
var errFull = errors.New("output is full")

// errFewSteps reports a block that libdeflate decodes faster.
var errFewSteps = errors.New("few steps")

// errChecksum reports an output that its checksum or size does not fit.
var errChecksum = fmt.Errorf("%w: %w", ErrCorrupt, compress.ErrChecksum)

func corrupt(what string) error { return fmt.Errorf("%w: %s", ErrCorrupt, what) }

// inflater decompresses deflate streams (RFC 1951). It is large, so it is reused.
type inflater struct {
	src []byte
	in  int    // position of the next byte for buf
	buf uint64 // the next bits of the input, the first bit lowest
	n   uint   // valid bits in buf; the bits above are zero or those that follow

	dst   []byte
	out   int   // bytes written to dst
	start int   // position of the stream's first byte, the beginning of the history
	limit int64 // of the length of dst

	lit     [litSize]entry
	dist    [distSize]entry
	lengths [numLiterals + numDistances]uint8
	fixed   bool // lit and dist are the tables of the fixed code

	steps    [stepSize]step
	useSteps bool // of the block
	// onlyMostly makes the first block an error, unless most of it is steps.
	onlyMostly bool
}

var inflaters = sync.Pool{New: func() any { return new(inflater) }}

// begin prepares for the stream at the start of src. Its output follows the earlier one.
func (f *inflater) begin(src []byte) {
	f.start = f.out
	f.src, f.in, f.buf, f.n = src, 0, 0, 0
}

// consumed returns the position after the stream, which ends within a byte.
func (f *inflater) consumed() int { return f.in - int(f.n/8) }

// run decompresses up to the end of the stream. If it returns errFull, it can be called
// again with more room in f.dst, whose first f.out bytes stay.
func (f *inflater) run() error {
	for {
		in, buf, n, out := f.in, f.buf, f.n, f.out
		last, err := f.block()
		if errors.Is(err, errFull) {
			f.in, f.buf, f.n, f.out = in, buf, n, out
		}
		if err != nil || last {
			return err
		}
	}
}

// refill appends input to buf, so that it has at least 56 bits or all that remain.
func (f *inflater) refill() {
	if f.in+8 <= len(f.src) {
		f.buf |= le.Uint64(f.src[f.in:]) << (f.n & 63)
		f.in += int(63-f.n) >> 3
		f.n |= 56
		return
	}
	for f.n <= 56 && f.in < len(f.src) {
		f.buf |= uint64(f.src[f.in]) << f.n
		f.in++
		f.n += 8
	}
}

// take consumes up to 32 bits.
func (f *inflater) take(n uint) (int, error) {
	if f.n < n {
		if f.refill(); f.n < n {
			return 0, errTruncated
		}
	}
	x := f.buf & (1<<n - 1)
	f.buf >>= n
	f.n -= n
	return int(x), nil
}

// block decompresses one block and reports whether it is the last.
func (f *inflater) block() (last bool, err error) {
	header, err := f.take(3)
	if err != nil {
		return false, err
	}
	last = header&1 != 0
	f.useSteps = false
	if f.onlyMostly && header>>1 != 2 {
		return false, errFewSteps
	}
	switch header >> 1 {
	case 0:
		return last, f.stored()
	case 1:
		f.useFixedCode()
	case 2:
		if err := f.readCode(); err != nil {
			return false, err
		}
	default:
		return false, corrupt("block of type 3")
	}
	for {
		done, err := f.fast()
		if err == nil && !done {
			done, err = f.careful()
		}
		if done || err != nil {
			return last, err
		}
	}
}

// stored copies a block that is not compressed.
func (f *inflater) stored() error {
	f.buf >>= f.n & 7
	f.n -= f.n & 7
	size, err := f.take(16)
	if err != nil {
		return err
	}
	inverse, err := f.take(16)
	if err != nil {
		return err
	}
	if size != inverse^0xffff {
		return corrupt("length of a stored block")
	}
	f.in = f.consumed()
	f.buf, f.n = 0, 0
	switch {
	case len(f.src)-f.in < size:
		return errTruncated
	case len(f.dst)-f.out < size:
		return errFull
	}
	f.out += copy(f.dst[f.out:], f.src[f.in:f.in+size])
	f.in += size
	return nil
}

// useFixedCode makes the tables of section 3.2.6.
func (f *inflater) useFixedCode() {
	if f.fixed {
		return
	}
	lengths := f.lengths[:]
	for i := range numLiterals {
		switch {
		case i < 144:
			lengths[i] = 8
		case i < 256:
			lengths[i] = 9
		case i < 280:
			lengths[i] = 7
		default:
			lengths[i] = 8
		}
	}
	for i := range numDistances {
		lengths[numLiterals+i] = 5
	}
	buildTable(f.lit[:], litBits, lengths[:numLiterals], litSymbols[:])
	buildTable(f.dist[:], distBits, lengths[numLiterals:], distSymbols[:])
	f.fixed = true
}

// metaOrder is the order in which the lengths of the code of lengths are stored.
var metaOrder = [19]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// readCode reads the code of a block (section 3.2.7) and makes its tables.
func (f *inflater) readCode() error {
	f.fixed = false
	counts, err := f.take(14)
	if err != nil {
		return err
	}
	literals, distances, metas := counts&31+257, counts>>5&31+1, counts>>10+4
	if literals > 286 || distances > 30 {
		return corrupt("number of symbols")
	}
	var metaLengths [19]uint8
	for _, i := range metaOrder[:metas] {
		n, err := f.take(3)
		if err != nil {
			return err
		}
		metaLengths[i] = uint8(n)
	}
	var meta [metaSize]entry
	if !buildTable(meta[:], metaBits, metaLengths[:], metaSymbols[:]) {
		return corrupt("code of the code lengths")
	}
	lengths := f.lengths[:literals+distances]
	for i := 0; i < len(lengths); {
		if f.n < 16 {
			f.refill()
		}
		e := meta[f.buf&(metaSize-1)]
		n := uint(e & consumeMask)
		if f.n < n {
			return errTruncated
		}
		if e&isSpecial != 0 {
			return corrupt("code length")
		}
		f.buf >>= n
		f.n -= n
		symbol := uint8(e >> valueShift)
		if symbol < 16 {
			lengths[i] = symbol
			i++
			continue
		}
		repeated, least, extra := uint8(0), 3, uint(3)
		switch symbol {
		case 16:
			if i == 0 {
				return corrupt("repeated code length without one before it")
			}
			repeated, extra = lengths[i-1], 2
		case 18:
			least, extra = 11, 7
		}
		times, err := f.take(extra)
		if err != nil {
			return err
		}
		if times += least; times > len(lengths)-i {
			return corrupt("too many code lengths")
		}
		for range times {
			lengths[i] = repeated
			i++
		}
	}
	matches := matchSteps(lengths[:literals], lengths[literals:])
	if f.onlyMostly && matches < mostly {
		return errFewSteps
	}
	f.onlyMostly = false
	if !buildTable(f.lit[:], litBits, lengths[:literals], litSymbols[:]) {
		return corrupt("code of the literals")
	}
	if !buildTable(f.dist[:], distBits, lengths[literals:], distSymbols[:]) {
		return corrupt("code of the distances")
	}
	if f.useSteps = matches >= fewMatches; f.useSteps {
		f.buildSteps(lengths[:literals], lengths[literals:])
		return nil
	}
	short := 0 // entries of literals with codes of at most half the index
	for _, n := range lengths[:endOfBlock] {
		if n > 0 && n <= litBits/2 {
			short += 1 << (litBits - n)
		}
	}
	if short >= 1<<(litBits-2) { // otherwise pairs are too rare to pay for their search
		pairLiterals(&f.lit)
	}
	return nil
}

// The bytes that one step of fast may read and write, with some to spare: 16 for two
// refills; 6 for literals, 258 for a match and 16 beyond its end.
const (
	fastInput  = 16
	fastOutput = 288
)

// fast decodes symbols while enough input and room remain that no step needs checks. It
// reports whether it has decoded the end of the block.
func (f *inflater) fast() (done bool, err error) {
	src, in, buf, n := f.src, f.in, f.buf, f.n
	dst, out := f.dst, f.out
	lit, dist := &f.lit, &f.dist
	lastIn, lastOut := len(src)-fastInput, len(dst)-fastOutput
	for in <= lastIn && out <= lastOut {
		if f.useSteps {
			if in, buf, n, out = f.decodeSteps(in, buf, n, out); in > lastIn || out > lastOut {
				break
			}
		}
		buf |= le.Uint64(src[in:]) << (n & 63)
		in += int(63-n) >> 3
		n |= 56
		e := lit[buf&(1<<litBits-1)]
		if e&isLiteral != 0 {
			buf >>= e & consumeMask
			n -= uint(e & consumeMask)
			le.PutUint16(dst[out:], uint16(e>>valueShift))
			out += int(e >> lengthShift & 3)
			e = lit[buf&(1<<litBits-1)]
			if e&isLiteral != 0 {
				buf >>= e & consumeMask
				n -= uint(e & consumeMask)
				le.PutUint16(dst[out:], uint16(e>>valueShift))
				out += int(e >> lengthShift & 3)
				e = lit[buf&(1<<litBits-1)]
				if e&isLiteral != 0 {
					buf >>= e & consumeMask
					n -= uint(e & consumeMask)
					le.PutUint16(dst[out:], uint16(e>>valueShift))
					out += int(e >> lengthShift & 3)
					continue
				}
			}
		}
		if e&isSpecial != 0 {
			if e&isSubtable != 0 {
				buf >>= litBits
				n -= litBits
				e = lit[(e>>valueShift+uint32(buf)&(1<<(e>>lengthShift&lengthMask)-1))&(litSize-1)]
				if e&isLiteral != 0 {
					buf >>= e & consumeMask
					n -= uint(e & consumeMask)
					dst[out] = byte(e >> valueShift)
					out++
					continue
				}
			}
			if e&isSpecial != 0 {
				buf >>= e & consumeMask
				n -= uint(e & consumeMask)
				if done = e&isEnd != 0; !done {
					err = corrupt("symbol")
				}
				break
			}
		}
		// At least 56 - 3*11 bits remain; a length takes up to 9 more.
		bits := buf
		buf >>= e & consumeMask
		n -= uint(e & consumeMask)
		length := int(e>>valueShift) + int(bits&(1<<(e&consumeMask)-1)>>(e>>lengthShift&lengthMask))

		if n < 15+13 { // rarely: only after two literals or more
			buf |= le.Uint64(src[in:]) << (n & 63)
			in += int(63-n) >> 3
			n |= 56
		}
		e = dist[buf&(1<<distBits-1)]
		if e&isSubtable != 0 {
			buf >>= distBits
			n -= distBits
			e = dist[(e>>valueShift+uint32(buf)&(1<<(e>>lengthShift&lengthMask)-1))&(distSize-1)]
		}
		bits = buf
		buf >>= e & consumeMask
		n -= uint(e & consumeMask)
		back := int(e>>valueShift) + int(bits&(1<<(e&consumeMask)-1)>>(e>>lengthShift&lengthMask))
		if e&isSpecial != 0 || back > out-f.start {
			err = corrupt("distance")
			break
		}
		from, end := out-back, out+length
		switch {
		case back >= 8:
			// Most matches are short: 16 bytes without a branch that depends on the length.
			le.PutUint64(dst[out:], le.Uint64(dst[from:]))
			le.PutUint64(dst[out+8:], le.Uint64(dst[from+8:]))
			for out, from = out+16, from+16; out < end; out, from = out+8, from+8 {
				le.PutUint64(dst[out:], le.Uint64(dst[from:]))
			}
		default:
			pattern, step := repeated(le.Uint64(dst[from:]), back)
			for ; out < end; out += step {
				le.PutUint64(dst[out:], pattern)
			}
		}
		out = end
	}
	f.in, f.buf, f.n, f.out = in, buf, n, out
	return done, err
}

// repeated returns 8 bytes that repeat the first n bytes of x, and how many of them are
// whole repetitions. n is 1 to 7.
func repeated(x uint64, n int) (pattern uint64, step int) {
	x &= 1<<(8*n) - 1
	for width := n; width < 8; width *= 2 {
		x |= x << (8 * width)
	}
	return x, 8 - 8%n
}

// careful decodes symbols near the end of the input or of the output, until fast can
// continue. It reports whether it has decoded the end of the block.
func (f *inflater) careful() (done bool, err error) {
	for f.in > len(f.src)-fastInput || f.out > len(f.dst)-fastOutput {
		e, length, err := f.symbol(f.lit[:], litBits)
		switch {
		case err != nil:
			return false, err
		case e&isEnd != 0:
			return true, nil
		case e&isLiteral != 0:
			count := int(e >> lengthShift & 3)
			if len(f.dst)-f.out < count {
				return false, errFull
			}
			f.dst[f.out] = byte(e >> valueShift)
			if count == 2 {
				f.dst[f.out+1] = byte(e >> (valueShift + 8))
			}
			f.out += count
			continue
		}
		_, back, err := f.symbol(f.dist[:], distBits)
		if err != nil {
			return false, err
		}
		if back > f.out-f.start {
			return false, corrupt("distance")
		}
		if len(f.dst)-f.out < length {
			return false, errFull
		}
		for range length {
			f.dst[f.out] = f.dst[f.out-back]
			f.out++
		}
	}
	return false, nil
}

// symbol consumes a symbol and its extra bits. It returns the entry, and the length or
// distance of one that is neither literal nor special.
func (f *inflater) symbol(table []entry, index uint) (entry, int, error) {
	f.refill()
	e := table[f.buf&(1<<index-1)]
	if e&isSubtable != 0 {
		if f.n < index {
			return 0, 0, errTruncated
		}
		f.buf >>= index
		f.n -= index
		e = table[e>>valueShift+uint32(f.buf)&(1<<(e>>lengthShift&lengthMask)-1)]
	}
	n := uint(e & consumeMask)
	switch {
	case f.n < n:
		return 0, 0, errTruncated
	case e&isSpecial != 0 && e&isEnd == 0:
		return 0, 0, corrupt("symbol")
	}
	value := int(e>>valueShift) + int(f.buf&(1<<n-1)>>(e>>lengthShift&lengthMask))
	f.buf >>= n
	f.n -= n
	return e, value, nil
}
