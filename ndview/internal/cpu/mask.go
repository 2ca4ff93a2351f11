package cpu

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// FillWhere writes the 8 bytes of a pattern over and over, little-endian, to each
// row of width bytes at which the mask is not 0. dst has len(mask) rows.
func FillWhere(dst, mask []byte, width int64, pattern uint64) {
	fill := fillRows(width)
	switch width {
	case 1:
		fill = fillUnits[uint8]
	case 2:
		fill = fillUnits[uint16]
	case 4:
		fill = fillUnits[uint32]
	case 8:
		fill = fillUnits[uint64]
	}
	Parallel(int64(len(mask)), grain, func(lo, hi int64) {
		fill(dst[lo*width:hi*width], mask[lo:hi], pattern)
	})
}

func fillUnits[T uint8 | uint16 | uint32 | uint64](dst, mask []byte, pattern uint64) {
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], pattern)
	v := *(*T)(unsafe.Pointer(&word))
	out := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(dst))), len(mask))
	i := 0
	for ; len(mask)-i >= 8; i += 8 {
		to, set := out[i:i+8], trueBytes(binary.LittleEndian.Uint64(mask[i:]))
		if set == lows {
			for b := range to {
				to[b] = v
			}
			continue
		}
		for ; set != 0; set &= set - 1 {
			to[bits.TrailingZeros64(set)/8] = v
		}
	}
	for ; i < len(mask); i++ {
		if mask[i] != 0 {
			out[i] = v
		}
	}
}

func fillRows(width int64) func(dst, mask []byte, pattern uint64) {
	return func(dst, mask []byte, pattern uint64) {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], pattern)
		for i, m := range mask {
			if m == 0 {
				continue
			}
			for row := dst[int64(i)*width : int64(i+1)*width]; len(row) > 0; {
				row = row[copy(row, word[:]):]
			}
		}
	}
}
