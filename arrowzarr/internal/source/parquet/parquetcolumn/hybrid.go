package parquetcolumn

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// hybrid decodes numbers of a width in bits in Parquet's mixture of run lengths and
// bit-packed groups.
type hybrid struct {
	in    []byte
	width int // 0 to 32

	left   int    // numbers of the current run
	value  uint32 // of a run of equal numbers
	packed []byte // of a run of packed numbers; otherwise nil
	at     int    // the next number of packed
}

// maxWidth is the largest width of a number.
const maxWidth = 32

func newHybrid(in []byte, width int) hybrid { return hybrid{in: in, width: width} }

// next begins the next run.
func (h *hybrid) next() error {
	head, n := binary.Uvarint(h.in)
	if n <= 0 {
		return fmt.Errorf("run lengths that are cut off: %w", ErrMalformed)
	}
	in := h.in[n:] // after an error, next gives the same one again
	count := head >> 1
	if head&1 == 0 {
		size := (h.width + 7) / 8
		if len(in) < size || count > 1<<31 {
			return fmt.Errorf("a run of %d equal numbers that is cut off: %w", count, ErrMalformed)
		}
		value := uint32(0)
		for i, b := range in[:size] {
			value |= uint32(b) << (8 * i)
		}
		if value>>h.width != 0 {
			return fmt.Errorf("a run of %d in %d bits: %w", value, h.width, ErrMalformed)
		}
		h.value, h.packed, h.left, h.in = value, nil, int(count), in[size:]
		return nil
	}
	h.in = in
	if h.width == 0 {
		h.value, h.packed, h.left = 0, nil, int(min(count, 1<<28))*8
		return nil
	}
	size := count * uint64(h.width)
	if count > 1<<28 || size > uint64(len(h.in)) { // some writers omit the padding at the end
		size = uint64(len(h.in))
	}
	h.packed, h.at = h.in[:size], 0
	h.left = int(size * 8 / uint64(h.width))
	h.in = h.in[size:]
	if h.left == 0 {
		return fmt.Errorf("a run of packed numbers that is cut off: %w", ErrMalformed)
	}
	return nil
}

// constant reports whether the next n numbers are one run of equal numbers, and returns
// it.
func (h *hybrid) constant(n int) (uint32, bool) {
	if h.left == 0 && h.next() != nil {
		return 0, false
	}
	return h.value, h.packed == nil && h.left >= n
}

// bytes decodes numbers of at most 8 bits.
func (h *hybrid) bytes(out []byte) error {
	for len(out) > 0 {
		if h.left == 0 {
			if err := h.next(); err != nil {
				return err
			}
			continue // a run may be empty
		}
		n := min(h.left, len(out))
		switch {
		case h.packed == nil:
			fillBytes(out[:n], byte(h.value))
		case h.width == 1 && h.at%8 == 0:
			unpackBits(out[:n], h.packed[h.at/8:])
		default:
			unpackBytes(out[:n], h.packed, h.at*h.width, h.width)
		}
		h.at += n
		h.left -= n
		out = out[n:]
	}
	return nil
}

// numbers decodes numbers of any width.
func (h *hybrid) numbers(out []uint32) error {
	for len(out) > 0 {
		if h.left == 0 {
			if err := h.next(); err != nil {
				return err
			}
			continue
		}
		n := min(h.left, len(out))
		if h.packed == nil {
			fill(out[:n], h.value)
		} else {
			unpack(out[:n], h.packed, h.at*h.width, h.width)
		}
		h.at += n
		h.left -= n
		out = out[n:]
	}
	return nil
}

func fill[T any](out []T, v T) {
	for i := range out {
		out[i] = v
	}
}

// fillBytes is fill, 8 bytes at once.
func fillBytes(out []byte, v byte) {
	for ; len(out) >= 8; out = out[8:] {
		binary.LittleEndian.PutUint64(out, uint64(v)*lowBits)
	}
	fill(out, v)
}

// bitsOf returns the bits of the input from a bit on, at least 57 of them. Those after the
// input are 0.
func bitsOf(in []byte, bit int) uint64 {
	in = in[bit>>3:]
	if len(in) < 8 {
		var word [8]byte
		copy(word[:], in)
		in = word[:]
	}
	return binary.LittleEndian.Uint64(in) >> (bit & 7)
}

// unpack decodes packed numbers from a bit on. in has them all.
func unpack(out []uint32, in []byte, bit, width int) {
	mask := uint64(1)<<width - 1
	shift := width & 31 // the compiler knows that it is less than 64
	for ; width <= 14 && len(out) >= 4; out = out[4:] {
		bits := bitsOf(in, bit)
		out[0] = uint32(bits & mask)
		bits >>= shift
		out[1] = uint32(bits & mask)
		bits >>= shift
		out[2] = uint32(bits & mask)
		bits >>= shift
		out[3] = uint32(bits & mask)
		bit += 4 * width
	}
	for ; width <= 28 && len(out) >= 2; out = out[2:] {
		bits := bitsOf(in, bit)
		out[0] = uint32(bits & mask)
		out[1] = uint32(bits >> shift & mask)
		bit += 2 * width
	}
	for i := range out {
		out[i] = uint32(bitsOf(in, bit) & mask)
		bit += width
	}
}

// unpackBytes is unpack for numbers of at most 8 bits, which fit 7 bits or begin at a byte.
func unpackBytes(out, in []byte, bit, width int) {
	mask := uint64(1)<<width - 1
	for ; len(out) >= 8; out = out[8:] {
		bits, bytes := bitsOf(in, bit), uint64(0)
		for i := 0; i < 64; i += 8 {
			bytes |= bits & mask << i
			bits >>= width
		}
		binary.LittleEndian.PutUint64(out, bytes)
		bit += 8 * width
	}
	for i := range out {
		out[i] = byte(bitsOf(in, bit) & mask)
		bit += width
	}
}

// spreadBits has the bits of a byte as the lowest bits of 8 bytes.
var spreadBits = func() (table [256]uint64) {
	for i := range table {
		for b := range 8 {
			table[i] |= uint64(i>>b&1) << (8 * b)
		}
	}
	return table
}()

// unpackBits makes a byte of each bit.
func unpackBits(out, in []byte) {
	for len(out) >= 8 {
		binary.LittleEndian.PutUint64(out, spreadBits[in[0]])
		out, in = out[8:], in[1:]
	}
	for i := range out {
		out[i] = in[0] >> i & 1
	}
}

// packBits writes bytes, each 0 or 1, as the bits of a bitmap from bit at on. The bits
// after those that are written are undefined, up to the end of their byte.
func packBits(bitmap []byte, at int, in []byte) {
	for at%8 != 0 && len(in) > 0 {
		keep := bitmap[at/8] & (1<<(at%8) - 1)
		bitmap[at/8] = keep | in[0]<<(at%8)
		at++
		in = in[1:]
	}
	out := bitmap[(at+7)/8:]
	for len(in) >= 8 {
		// The product collects the lowest bit of each byte in the highest byte.
		out[0] = byte(binary.LittleEndian.Uint64(in) * 0x0102040810204080 >> 56)
		out, in = out[1:], in[8:]
	}
	if len(in) > 0 {
		out[0] = 0
		for i, bit := range in {
			out[0] |= bit << i
		}
	}
}

// countOnes returns the sum of bytes that are 0 or 1.
func countOnes(in []byte) int {
	n := 0
	for len(in) >= 8 {
		n += bits.OnesCount64(binary.LittleEndian.Uint64(in))
		in = in[8:]
	}
	for _, b := range in {
		n += int(b)
	}
	return n
}
