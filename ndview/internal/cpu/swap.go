package cpu

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// SwapBytes turns around the bytes of numbers of size bytes, 2, 4 or 8, of which
// n bytes are. dst may be src.
func SwapBytes(dst, src unsafe.Pointer, n, size int64) {
	Parallel(n/size, grain/size, func(lo, hi int64) {
		to, from, n := unsafe.Add(dst, lo*size), unsafe.Add(src, lo*size), (hi-lo)*size
		done := swapMany(to, from, n, size)
		swapWords(unsafe.Slice((*byte)(to), n)[done:], unsafe.Slice((*byte)(from), n)[done:], size)
	})
}

// swapWords is SwapBytes in words.
func swapWords(out, in []byte, size int64) {
	i := 0
	for ; i+8 <= len(in); i += 8 {
		binary.LittleEndian.PutUint64(out[i:], swapWord(binary.LittleEndian.Uint64(in[i:]), size))
	}
	if i < len(in) { // less than 8 bytes
		var word [8]byte
		copy(word[:], in[i:])
		binary.LittleEndian.PutUint64(word[:], swapWord(binary.LittleEndian.Uint64(word[:]), size))
		copy(out[i:], word[:])
	}
}

func swapWord(v uint64, size int64) uint64 {
	switch size {
	case 2:
		const low = 0x00ff00ff00ff00ff
		return v>>8&low | v&low<<8
	case 4:
		return bits.RotateLeft64(bits.ReverseBytes64(v), 32)
	default:
		return bits.ReverseBytes64(v)
	}
}
