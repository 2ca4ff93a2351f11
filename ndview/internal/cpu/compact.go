package cpu

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// Tile is how many elements of a mask are counted, and listed, at a time.
const Tile = 4096

// Tiles is how many tiles a mask of n elements has.
func Tiles(n int64) int64 { return (n + Tile - 1) / Tile }

const lows = 0x0101010101010101

// trueBytes has 1 in each byte of a word that is not 0.
func trueBytes(word uint64) uint64 {
	word |= word >> 4 & (lows * 0x0f)
	word |= word >> 2 & (lows * 0x03)
	return (word | word>>1&lows) & lows
}

// tile is tile t of a mask.
func tile(mask []byte, t int64) []byte {
	return mask[t*Tile : min((t+1)*Tile, int64(len(mask)))]
}

// CountTiles writes how many elements of each tile are true.
func CountTiles(mask []byte, counts []uint32) {
	Parallel(int64(len(counts)), grain/Tile, func(lo, hi int64) {
		for t := lo; t < hi; t++ {
			part := tile(mask, t)
			n, done := countBlocks(part)
			part = part[done:]
			for ; len(part) >= 32; part = part[32:] {
				n += countTrue((*[32]byte)(part))
			}
			for ; len(part) >= 8; part = part[8:] {
				n += bits.OnesCount64(trueBytes(binary.NativeEndian.Uint64(part)))
			}
			for _, b := range part {
				if b != 0 {
					n++
				}
			}
			counts[t] = uint32(n)
		}
	})
}

// countTrue adds up words as bytes, of which each is 1 or 0.
func countTrue(part *[32]byte) int {
	a, b := binary.NativeEndian.Uint64(part[:]), binary.NativeEndian.Uint64(part[8:])
	c, d := binary.NativeEndian.Uint64(part[16:]), binary.NativeEndian.Uint64(part[24:])
	if (a|b|c|d)&^lows != 0 {
		a, b, c, d = trueBytes(a), trueBytes(b), trueBytes(c), trueBytes(d)
	}
	return int((a + b + c + d) * lows >> 56)
}

// atMost1 tells whether all bytes are 0 or 1.
func atMost1(x []byte) bool {
	done, ok := atMost1Blocks(x)
	if !ok {
		return false
	}
	for x = x[done:]; len(x) >= 8; x = x[8:] {
		if binary.NativeEndian.Uint64(x)&^lows != 0 {
			return false
		}
	}
	for _, b := range x {
		if b > 1 {
			return false
		}
	}
	return true
}

// ScanTiles writes the sum of the counts before each tile, and of all behind the
// last.
func ScanTiles(counts []uint32, starts []int64) {
	sum := int64(0)
	for t, c := range counts {
		starts[t] = sum
		sum += int64(c)
	}
	starts[len(counts)] = sum
}

// eachTile calls do with each tile of which some element is true: its first
// element, what of the mask it is, and which of all true elements are its own.
func eachTile(mask []byte, starts []int64, do func(base int64, part []byte, first, last int64)) {
	Parallel(Tiles(int64(len(mask))), grain/Tile, func(lo, hi int64) {
		for t := lo; t < hi; t++ {
			if starts[t] < starts[t+1] {
				do(t*Tile, tile(mask, t), starts[t], starts[t+1])
			}
		}
	})
}

// pack writes those elements of src at which a mask is true, as many as dst has,
// one after the other. Most masks are hard to foretell, so it writes each element
// and goes on only if that was true.
func pack[T unit](part []byte, src, dst []T) {
	src = src[:len(part)]
	k, i := 0, 0
	for ; len(part)-i >= 8 && len(dst)-k >= 8; i += 8 {
		word := binary.LittleEndian.Uint64(part[i:])
		if word == 0 {
			continue
		}
		set, from := trueBytes(word), src[i:i+8]
		switch {
		case set == lows:
			*(*[8]T)(dst[k : k+8]) = [8]T(from)
			k += 8
			continue
		case set&(set-1) == 0:
			dst[k] = from[bits.TrailingZeros64(set)/8&7]
			k++
			continue
		}
		for b := range from {
			dst[k&(1<<62-1)] = from[b]
			k += int(set >> (8 * b) & 1)
		}
	}
	for ; k < len(dst) && len(part)-i >= 8; i += 8 {
		from := src[i : i+8]
		for set := trueBytes(binary.LittleEndian.Uint64(part[i:])); set != 0; set &= set - 1 {
			dst[k] = from[bits.TrailingZeros64(set)/8&7]
			k++
		}
	}
	for ; k < len(dst); i++ {
		dst[k] = src[i]
		if part[i] != 0 {
			k++
		}
	}
}

// ramp is 0, 1, 2, ... up to a tile.
var ramp = func() (r [Tile]uint16) {
	for i := range r {
		r[i] = uint16(i)
	}
	return r
}()

// Compact writes those elements of in, of width bytes, 1, 2, 4, 8 or 16, at which
// the mask is true, one after the other to out.
func Compact(mask []byte, starts []int64, in, out unsafe.Pointer, width int64) {
	compacts[width](mask, starts, in, out)
}

var compacts = map[int64]func([]byte, []int64, unsafe.Pointer, unsafe.Pointer){
	1: compact[uint8], 2: compact[uint16], 4: compact[uint32], 8: compact[uint64], 16: compact[[2]uint64],
}

func compact[T unit](mask []byte, starts []int64, in, out unsafe.Pointer) {
	from, all := unsafe.Slice((*T)(in), len(mask)), unsafe.Slice((*T)(out), starts[len(starts)-1])
	eachTile(mask, starts, func(base int64, part []byte, first, last int64) {
		src, dst := from[base:], all[first:last]
		if len(dst) > Tile/few {
			pack(part, src, dst)
			return
		}
		var places [Tile / few]uint64
		list(part, 0, places[:len(dst)])
		for k := range dst {
			dst[k] = src[places[k]]
		}
	})
}

// few is of how many elements one is chosen where listing those is faster than
// looking at all.
const few = 16

// Expand writes elements of width bytes, 1, 2, 4, 8 or 16, one after the other
// from in, or one again and again if step is 0, to those of out at which the mask
// is true.
func Expand(mask []byte, starts []int64, in unsafe.Pointer, step int64, out unsafe.Pointer, width int64) {
	expands[width](mask, starts, in, step, out)
}

var expands = map[int64]func([]byte, []int64, unsafe.Pointer, int64, unsafe.Pointer){
	1: expand[uint8], 2: expand[uint16], 4: expand[uint32], 8: expand[uint64], 16: expand[[2]uint64],
}

func expand[T unit](mask []byte, starts []int64, in unsafe.Pointer, step int64, out unsafe.Pointer) {
	from, all := unsafe.Slice((*T)(in), (starts[len(starts)-1]-1)*step+1), unsafe.Slice((*T)(out), len(mask))
	eachTile(mask, starts, func(base int64, part []byte, first, last int64) {
		var list [Tile]uint16
		chosen, to := list[:last-first], all[base:]
		pack(part, ramp[:], chosen)
		if step == 0 {
			for _, i := range chosen {
				to[i] = from[0]
			}
			return
		}
		for k, v := range from[first:last] {
			to[chosen[k]] = v
		}
	})
}

// Unravel writes what places, in C order in a shape, are along each axis, one
// axis after the other.
func Unravel(places []int64, shape, out []int64) {
	n := int64(len(places))
	Parallel(n, grain/8, func(lo, hi int64) {
		for j := lo; j < hi; j++ {
			rest := places[j]
			for k := len(shape) - 1; k >= 0; k-- {
				out[int64(k)*n+j] = rest % shape[k]
				rest /= shape[k]
			}
		}
	})
}
