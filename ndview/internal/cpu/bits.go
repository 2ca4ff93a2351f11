package cpu

import "encoding/binary"

// spread[b] is the eight bits of b as eight bytes of 0 or 1, lowest first.
var spread = func() (table [256]uint64) {
	for b := range table {
		for bit := range 8 {
			table[b] |= uint64(b>>bit&1) << (8 * bit)
		}
	}
	return table
}()

const allOnes = 0x0101010101010101

// UnpackBits writes bits [bitOffset, bitOffset+len(dst)) of a bitmap, whose
// lowest bit of a byte is first, as bytes of 0 and 1, the other way round when
// inverted. No byte is read but those of these bits.
func UnpackBits(dst, bits []byte, bitOffset int64, invert bool) {
	Parallel((int64(len(dst))+7)/8, grain/8, func(lo, hi int64) {
		unpackBits(dst[8*lo:min(8*hi, int64(len(dst)))], bits, bitOffset+8*lo, invert)
	})
}

func unpackBits(dst, bits []byte, bitOffset int64, invert bool) {
	var flip uint64
	if invert {
		flip = allOnes
	}
	bits = bits[bitOffset/8:]
	shift := uint(bitOffset % 8)
	i := 0
	for ; len(dst)-i >= 8; i += 8 {
		b := bits[i/8] >> shift
		if shift != 0 {
			b |= bits[i/8+1] << (8 - shift)
		}
		binary.LittleEndian.PutUint64(dst[i:], spread[b]^flip)
	}
	for ; i < len(dst); i++ {
		at := uint(i) + shift
		dst[i] = bits[at/8]>>(at%8)&1 ^ byte(flip)
	}
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
	Parallel(whole, grain, func(lo, hi int64) { packBytes(bits[lo:hi], src[8*lo:8*hi], invert) })
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

// packBytes makes each byte of eight.
func packBytes(dst, src []byte, invert bool) {
	var flip byte
	if invert {
		flip = 0xff
	}
	for i := range dst {
		v := binary.LittleEndian.Uint64(src[8*i:])
		if v&^allOnes != 0 { // not only 0 and 1: the lowest bit of a byte is to be all of its bits
			v |= v >> 4
			v |= v >> 2
			v |= v >> 1
			v &= allOnes
		}
		dst[i] = byte(v*0x0102040810204080>>56) ^ flip // the product gathers the bits in its highest byte
	}
}
