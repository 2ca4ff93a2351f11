package cpu

import "github.com/quiver-gpu/quiver/ndview/internal/bitmap"

// UnpackBits writes bits [bitOffset, bitOffset+len(dst)) of a bitmap, whose
// lowest bit of a byte is first, as bytes of 0 and 1, the other way round when
// inverted. No byte is read but those of these bits.
func UnpackBits(dst, bits []byte, bitOffset int64, invert bool) {
	n := int64(len(dst))
	Parallel((n+7)/8, grain/8, func(lo, hi int64) {
		first, end := bitOffset+8*lo, min(8*hi, n)
		used := bits[first/8 : (bitOffset+end+7)/8]
		bitmap.Unpack(dst[8*lo:end], used, uint(first%8), invert)
	})
}

// PackBits writes bit bitOffset+i for each byte i of src: 1 where it is not 0,
// the other way round when inverted. The other bits stay.
func PackBits(bits, src []byte, bitOffset int64, invert bool) {
	bits = bits[bitOffset/8:]
	head := min((8-bitOffset%8)%8, int64(len(src)))
	packOne(bits, src[:head], uint(bitOffset%8), invert)
	if head > 0 {
		bits, src = bits[1:], src[head:]
	}
	whole := int64(len(src)) / 8
	Parallel(whole, grain, func(lo, hi int64) { bitmap.Pack(bits[lo:hi], src[8*lo:8*hi], invert) })
	packOne(bits[whole:], src[8*whole:], 0, invert)
}

// packOne sets some bits of the first byte.
func packOne(bits, src []byte, shift uint, invert bool) {
	for i, v := range src {
		bit := byte(1) << (shift + uint(i))
		bits[0] &^= bit
		if (v != 0) != invert {
			bits[0] |= bit
		}
	}
}
