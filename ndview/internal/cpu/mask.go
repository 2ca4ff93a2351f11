package cpu

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// FillWhere writes the 8 bytes of a pattern over and over, little-endian, to each
// row of width bytes at which the mask is not 0. dst has len(mask) rows.
func FillWhere(dst, mask []byte, width int64, pattern uint64) {
	fill := fillRow
	switch width {
	case 1:
		fill = fillUnit[uint8]
	case 2:
		fill = fillUnit[uint16]
	case 4:
		fill = fillUnit[uint32]
	case 8:
		fill = fillUnit[uint64]
	}
	Parallel(int64(len(mask)), grain, func(lo, hi int64) {
		i := lo
		for ; i+8 <= hi; i += 8 {
			set := binary.LittleEndian.Uint64(mask[i:])
			for set != 0 { // as long as a byte is
				at := int64(bits.TrailingZeros64(set) / 8)
				fill(dst[(i+at)*width:(i+at+1)*width], pattern)
				set &^= 0xff << (8 * at)
			}
		}
		for ; i < hi; i++ {
			if mask[i] != 0 {
				fill(dst[i*width:(i+1)*width], pattern)
			}
		}
	})
}

func fillUnit[T uint8 | uint16 | uint32 | uint64](row []byte, pattern uint64) {
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], pattern)
	*(*T)(unsafe.Pointer(unsafe.SliceData(row))) = *(*T)(unsafe.Pointer(&word))
}

func fillRow(row []byte, pattern uint64) {
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], pattern)
	for len(row) > 0 {
		row = row[copy(row, word[:]):]
	}
}
