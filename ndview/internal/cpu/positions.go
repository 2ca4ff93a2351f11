package cpu

import (
	"encoding/binary"
	"math/bits"
)

// TruePositions writes where the true elements are.
func TruePositions(mask []byte, starts []int64, out []uint64) {
	eachTile(mask, starts, func(base int64, part []byte, first, last int64) {
		list(part, base, out[first:last])
	})
}

// list writes the positions of the true elements, as many as out has, where the
// first element is at position base.
func list(mask []byte, base int64, out []uint64) {
	n, done := listBlocks(mask, base, out)
	listWords(mask[done:], base+int64(done), out[n:])
}

// listWords is list in words. As pack does, it writes each of eight positions, and
// the next over it if that was not true.
func listWords(mask []byte, base int64, out []uint64) {
	n, i := 0, 0
	for ; len(mask)-i >= 8 && len(out)-n >= 8; i += 8 {
		set := trueBytes(binary.LittleEndian.Uint64(mask[i:]))
		if set == 0 {
			continue
		}
		for b := range 8 {
			out[n] = uint64(base) + uint64(i+b)
			n += int(set >> (8 * b) & 1)
		}
	}
	for ; n < len(out) && len(mask)-i >= 8; i += 8 {
		for set := trueBytes(binary.LittleEndian.Uint64(mask[i:])); set != 0; set &= set - 1 {
			out[n] = uint64(base) + uint64(i+bits.TrailingZeros64(set)/8)
			n++
		}
	}
	for ; n < len(out); i++ {
		if mask[i] != 0 {
			out[n] = uint64(base) + uint64(i)
			n++
		}
	}
}
