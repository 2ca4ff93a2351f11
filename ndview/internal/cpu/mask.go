package cpu

import (
	"encoding/binary"
	"math/bits"
	"unsafe"

	"github.com/quiver-gpu/quiver/ndview/internal/bitmap"
)

// Tile is the number of elements of a mask that are counted together.
const Tile = 4096

// Tiles returns the number of tiles of a mask of n elements.
func Tiles(n int64) int64 { return (n + Tile - 1) / Tile }

const lowBits = 0x0101010101010101

// trueBytes returns 1 in each byte of the word that is not 0.
func trueBytes(word uint64) uint64 {
	word |= word >> 4 & (lowBits * 0x0f)
	word |= word >> 2 & (lowBits * 0x03)
	return (word | word>>1&lowBits) & lowBits
}

// tile returns tile t of a mask.
func tile(mask []byte, t int64) []byte {
	return mask[t*Tile : min((t+1)*Tile, int64(len(mask)))]
}

// CountTiles writes the number of true elements of each tile.
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

// countTrue adds words as bytes, each of which is 1 or 0.
func countTrue(part *[32]byte) int {
	a, b := binary.NativeEndian.Uint64(part[:]), binary.NativeEndian.Uint64(part[8:])
	c, d := binary.NativeEndian.Uint64(part[16:]), binary.NativeEndian.Uint64(part[24:])
	if (a|b|c|d)&^lowBits != 0 {
		a, b, c, d = trueBytes(a), trueBytes(b), trueBytes(c), trueBytes(d)
	}
	return int((a + b + c + d) * lowBits >> 56)
}

// atMost1 reports whether all bytes are 0 or 1.
func atMost1(x []byte) bool {
	done, ok := atMost1Blocks(x)
	if !ok {
		return false
	}
	for x = x[done:]; len(x) >= 8; x = x[8:] {
		if binary.NativeEndian.Uint64(x)&^lowBits != 0 {
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

// ScanTiles writes the prefix sums of counts; the last one is the total.
func ScanTiles(counts []uint32, starts []int64) {
	sum := int64(0)
	for t, c := range counts {
		starts[t] = sum
		sum += int64(c)
	}
	starts[len(counts)] = sum
}

// eachTile calls do for each tile with true elements: with its first element, its part
// of the mask, and the range of its elements among all true ones.
func eachTile(mask []byte, starts []int64, do func(base int64, part []byte, first, last int64)) {
	Parallel(Tiles(int64(len(mask))), grain/Tile, func(lo, hi int64) {
		for t := lo; t < hi; t++ {
			if starts[t] < starts[t+1] {
				do(t*Tile, tile(mask, t), starts[t], starts[t+1])
			}
		}
	})
}

// compactTile copies the elements of src at which the mask is true, as many as dst has.
// Most masks are unpredictable, so it copies each element and advances only if it was
// true.
func compactTile[T unit](part []byte, src, dst []T) {
	src = src[:len(part)]
	k, i := 0, 0
	for ; len(part)-i >= 8 && len(dst)-k >= 8; i += 8 {
		word := binary.LittleEndian.Uint64(part[i:])
		if word == 0 {
			continue
		}
		set, from := trueBytes(word), src[i:i+8]
		switch {
		case set == lowBits:
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

// ramp is 0, 1, 2, ... for the elements of a tile.
var ramp = func() (r [Tile]uint16) {
	for i := range r {
		r[i] = uint16(i)
	}
	return r
}()

// Compact copies the elements of in at which the mask is true to out. Elements have
// width bytes: 1, 2, 4, 8 or 16.
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
		if len(dst) > Tile/sparse {
			compactTile(part, src, dst)
			return
		}
		var positions [Tile / sparse]uint64
		listTrue(part, 0, positions[:len(dst)])
		for k := range dst {
			dst[k] = src[positions[k]]
		}
	})
}

// sparse: if at most one in sparse elements is true, listing the true ones is faster
// than looking at all.
const sparse = 16

// Expand copies consecutive elements of in to those of out at which the mask is true.
// If step is 0, it copies the first element of in each time. Elements have width bytes:
// 1, 2, 4, 8 or 16.
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
		compactTile(part, ramp[:], chosen)
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

// TruePositions writes the positions of the true elements.
func TruePositions(mask []byte, starts []int64, out []uint64) {
	eachTile(mask, starts, func(base int64, part []byte, first, last int64) {
		listTrue(part, base, out[first:last])
	})
}

// listTrue writes the positions of len(out) true elements; base is the position of the
// first element.
func listTrue(mask []byte, base int64, out []uint64) {
	n, done := listTrueBlocks(mask, base, out)
	listTrueWords(mask[done:], base+int64(done), out[n:])
}

// listTrueWords is the portable loop of listTrue. Like compactTile it writes each of
// eight positions, and advances only if it was true.
func listTrueWords(mask []byte, base int64, out []uint64) {
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

// FillWhere writes the 8 little-endian bytes of a pattern, repeated, to each row of
// width bytes at which the mask is not 0. dst has len(mask) rows.
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
		if set == lowBits {
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

// UnpackBits converts bits [bitOffset, bitOffset+len(dst)) of a bitmap to bytes of 0
// and 1, inverted if invert. Bits are in Arrow's order, lowest first. It reads only
// bytes that hold these bits.
func UnpackBits(dst, bits []byte, bitOffset int64, invert bool) {
	n := int64(len(dst))
	Parallel((n+7)/8, grain/8, func(lo, hi int64) {
		first, end := bitOffset+8*lo, min(8*hi, n)
		used := bits[first/8 : (bitOffset+end+7)/8]
		bitmap.Unpack(dst[8*lo:end], used, uint(first%8), invert)
	})
}

// PackBits sets bit bitOffset+i to src[i] != 0, inverted if invert. Other bits keep
// their values.
func PackBits(bits, src []byte, bitOffset int64, invert bool) {
	bits = bits[bitOffset/8:]
	head := min((8-bitOffset%8)%8, int64(len(src)))
	packPartial(bits, src[:head], uint(bitOffset%8), invert)
	if head > 0 {
		bits, src = bits[1:], src[head:]
	}
	whole := int64(len(src)) / 8
	Parallel(whole, grain, func(lo, hi int64) { bitmap.Pack(bits[lo:hi], src[8*lo:8*hi], invert) })
	packPartial(bits[whole:], src[8*whole:], 0, invert)
}

// packPartial sets some bits of the first byte.
func packPartial(bits, src []byte, shift uint, invert bool) {
	for i, v := range src {
		bit := byte(1) << (shift + uint(i))
		bits[0] &^= bit
		if (v != 0) != invert {
			bits[0] |= bit
		}
	}
}
