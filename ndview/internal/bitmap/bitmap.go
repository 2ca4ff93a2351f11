// Package bitmap converts between bitmaps and bytes, in one goroutine. Bits are in
// Arrow's order: the lowest bit of a byte is the first.
package bitmap

import "encoding/binary"

// bitsToBytes[b] is the eight bits of b as eight bytes of 0 or 1, lowest first.
var bitsToBytes = func() (table [256]uint64) {
	for b := range table {
		for bit := range 8 {
			table[b] |= uint64(b>>bit&1) << (8 * bit)
		}
	}
	return table
}()

const allOnes = 0x0101010101010101

// groupItems is the number of elements per group of the assembly.
const groupItems = 32

// Unpack converts bits to bytes of 0 and 1, inverted if invert. The first one is bit
// shift of the first byte, 0 <= shift < 8. It reads only bytes that hold bits for dst.
func Unpack(dst, bits []byte, shift uint, invert bool) {
	var flip uint64
	if invert {
		flip = allOnes
	}
	i := 0
	// The assembly reads 8 bytes per group.
	if n := min(len(dst), 8*len(bits)-64) / groupItems; hasAVX2 && n > 0 {
		unpackVector(&dst[0], &bits[0], n, shift, byte(flip))
		i = n * groupItems
	}
	for ; len(dst)-i >= 8; i += 8 {
		b := bits[i/8] >> shift
		if shift != 0 {
			b |= bits[i/8+1] << (8 - shift)
		}
		binary.LittleEndian.PutUint64(dst[i:], bitsToBytes[b]^flip)
	}
	for ; i < len(dst); i++ {
		at := uint(i) + shift
		dst[i] = bits[at/8]>>(at%8)&1 ^ byte(flip)
	}
}

// Pack converts each eight bytes of src to a byte of dst. A bit is 1 if the byte is not
// 0, inverted if invert.
func Pack(dst, src []byte, invert bool) {
	var flip uint32
	if invert {
		flip = 1<<32 - 1
	}
	i := 0
	if n := len(dst) / (groupItems / 8); hasAVX2 && n > 0 {
		packVector(&dst[0], &src[0], n, flip)
		i = n * (groupItems / 8)
	}
	for ; i < len(dst); i++ {
		v := binary.LittleEndian.Uint64(src[8*i:])
		if v&^allOnes != 0 { // not only 0 and 1: set the lowest bit of each nonzero byte
			v |= v >> 4
			v |= v >> 2
			v |= v >> 1
			v &= allOnes
		}
		dst[i] = byte(v*0x0102040810204080>>56) ^ byte(flip) // the product gathers the bits in its highest byte
	}
}
