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
	h.in = h.in[n:]
	count := head >> 1
	if head&1 == 0 {
		size := (h.width + 7) / 8
		if len(h.in) < size || count > 1<<31 {
			return fmt.Errorf("a run of %d equal numbers that is cut off: %w", count, ErrMalformed)
		}
		h.value, h.packed, h.left = 0, nil, int(count)
		for i := range size {
			h.value |= uint32(h.in[i]) << (8 * i)
		}
		h.in = h.in[size:]
		return nil
	}
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
			fill(out[:n], byte(h.value))
		case h.width == 1 && h.at%8 == 0:
			unpackBits(out[:n], h.packed[h.at/8:])
		default:
			for i := 0; i < n; i++ {
				out[i] = byte(h.packedAt(h.at + i))
			}
		}
		h.at += n
		h.left -= n
		out = out[n:]
	}
	return nil
}

// packedAt returns number i of the packed ones, of at most 8 bits.
func (h *hybrid) packedAt(i int) uint32 {
	bit := i * h.width
	word := uint32(h.packed[bit/8])
	if bit/8+1 < len(h.packed) {
		word |= uint32(h.packed[bit/8+1]) << 8
	}
	return word >> (bit % 8) & (1<<h.width - 1)
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

// unpack decodes packed numbers from a bit on. in has them all.
func unpack(out []uint32, in []byte, bit, width int) {
	mask := uint64(1)<<width - 1
	i := 0
	// The last 8 bytes of the input are not read as one word.
	for last := len(in) - 8; i < len(out) && bit>>3 <= last; i++ {
		out[i] = uint32(binary.LittleEndian.Uint64(in[bit>>3:]) >> (bit & 7) & mask)
		bit += width
	}
	for ; i < len(out); i++ {
		var word [8]byte
		copy(word[:], in[bit>>3:])
		out[i] = uint32(binary.LittleEndian.Uint64(word[:]) >> (bit & 7) & mask)
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

// countZeros returns the number of zeros in bytes that are less than 16, and stops after
// the 8 bytes with which it exceeds limit. It returns how many bytes it has counted.
func countZeros(in []byte, limit int) (zeros, counted int) {
	const low = 0x0101010101010101
	for ; len(in)-counted >= 8 && zeros <= limit; counted += 8 {
		x := binary.LittleEndian.Uint64(in[counted:])
		x |= x >> 2
		x |= x >> 1
		zeros += 8 - bits.OnesCount64(x&low)
	}
	return zeros, counted
}
