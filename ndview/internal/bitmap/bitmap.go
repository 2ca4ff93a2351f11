// Package bitmap makes bytes of bits and bits of bytes, on one thread. The
// lowest bit of a byte is the first.
package bitmap

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

// group is how many elements the vector functions take at a time.
const group = 32

// Unpack writes the bits from bit shift of the first byte on, 0 <= shift < 8, as
// bytes of 0 and 1, the other way round when inverted. No byte is read but those
// of the bits that dst has room for.
func Unpack(dst, bits []byte, shift uint, invert bool) {
	var flip uint64
	if invert {
		flip = allOnes
	}
	i := 0
	// A group is read as 8 bytes.
	if n := min(len(dst), 8*len(bits)-64) / group; vectors && n > 0 {
		unpackVector(&dst[0], &bits[0], n, shift, byte(flip))
		i = n * group
	}
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

// Pack makes each byte of dst of eight of src: a bit is 1 where the byte is not
// 0, the other way round when inverted.
func Pack(dst, src []byte, invert bool) {
	var flip uint32
	if invert {
		flip = 1<<32 - 1
	}
	i := 0
	if n := len(dst) / (group / 8); vectors && n > 0 {
		packVector(&dst[0], &src[0], n, flip)
		i = n * (group / 8)
	}
	for ; i < len(dst); i++ {
		v := binary.LittleEndian.Uint64(src[8*i:])
		if v&^allOnes != 0 { // not only 0 and 1: the lowest bit of a byte is to be all of its bits
			v |= v >> 4
			v |= v >> 2
			v |= v >> 1
			v &= allOnes
		}
		dst[i] = byte(v*0x0102040810204080>>56) ^ byte(flip) // the product gathers the bits in its highest byte
	}
}
