package zstdnum

// bitBuffer holds bits that are not written yet, the least significant first.
// It is passed by value, so that it stays in registers.
type bitBuffer struct {
	bits uint64
	n    uint // how many
}

// add appends the low n bits of value. There is room for 64 bits in all.
func (b bitBuffer) add(value uint32, n uint) bitBuffer {
	return bitBuffer{b.bits | (uint64(value)&(1<<(n&63)-1))<<(b.n&63), b.n + n}
}

// whole is the number of whole bytes, and rest what is left without them.
func (b bitBuffer) whole() int { return int(b.n / 8) }

func (b bitBuffer) rest() bitBuffer { return bitBuffer{b.bits >> (b.n &^ 7 & 63), b.n & 7} }

// appendTo appends all bits, filled up to whole bytes with zeros.
func (b bitBuffer) appendTo(dst []byte) []byte {
	for i := uint(0); i < b.n; i += 8 {
		dst = append(dst, byte(b.bits>>i))
	}
	return dst
}
