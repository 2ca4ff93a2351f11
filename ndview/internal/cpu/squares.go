package cpu

import (
	"encoding/binary"
	"unsafe"
)

// block is how many bytes of a line are turned at once: what the cache has in one
// line, so that each line of the source and of the destination is touched once,
// also where their addresses compete for the same places in the cache.
const block = 64

// turn copies a square of block/width by block/width units of 1 or 2 bytes, whose
// rows are step bytes apart, in squares of words that fit into registers. Rows of
// the source are columns of the destination.
func turn(dst unsafe.Pointer, dstStep int64, src unsafe.Pointer, srcStep int64, width int64) {
	var between [block * block]byte
	to := unsafe.Pointer(&between)
	side, units := block/width, 8/width
	for j := int64(0); j < side; j += units {
		for i := int64(0); i < side; i += units {
			from, at := unsafe.Add(src, j*srcStep+i*width), unsafe.Add(to, i*block+j*width)
			if width == 1 {
				turn8(at, block, from, srcStep)
			} else {
				turn4(at, block, from, srcStep)
			}
		}
	}
	for i := range side {
		row := unsafe.Add(to, i*block)
		*(*[block]byte)(unsafe.Add(dst, i*dstStep)) = *(*[block]byte)(row)
	}
}

// turn8 turns 8 by 8 bytes: halves of the square change places, then halves of
// the halves.
func turn8(dst unsafe.Pointer, dstStep int64, src unsafe.Pointer, srcStep int64) {
	var r [8]uint64
	for i := range r {
		r[i] = load(src, int64(i)*srcStep)
	}
	for i := range 4 {
		swap(&r[i], &r[i+4], 32, 0x00000000ffffffff)
	}
	for _, i := range [4]int{0, 1, 4, 5} {
		swap(&r[i], &r[i+2], 16, 0x0000ffff0000ffff)
	}
	for _, i := range [4]int{0, 2, 4, 6} {
		swap(&r[i], &r[i+1], 8, 0x00ff00ff00ff00ff)
	}
	for i := range r {
		store(dst, int64(i)*dstStep, r[i])
	}
}

// turn4 turns 4 by 4 units of 2 bytes.
func turn4(dst unsafe.Pointer, dstStep int64, src unsafe.Pointer, srcStep int64) {
	a, b, c, d := load(src, 0), load(src, srcStep), load(src, 2*srcStep), load(src, 3*srcStep)
	swap(&a, &c, 32, 0x00000000ffffffff)
	swap(&b, &d, 32, 0x00000000ffffffff)
	swap(&a, &b, 16, 0x0000ffff0000ffff)
	swap(&c, &d, 16, 0x0000ffff0000ffff)
	store(dst, 0, a)
	store(dst, dstStep, b)
	store(dst, 2*dstStep, c)
	store(dst, 3*dstStep, d)
}

// swap exchanges the masked bits of b with those that are shift above them in a.
func swap(a, b *uint64, shift uint, mask uint64) {
	t := (*a>>shift ^ *b) & mask
	*a ^= t << shift
	*b ^= t
}

func load(p unsafe.Pointer, at int64) uint64 {
	return binary.LittleEndian.Uint64((*[8]byte)(unsafe.Add(p, at))[:])
}

func store(p unsafe.Pointer, at int64, word uint64) {
	binary.LittleEndian.PutUint64((*[8]byte)(unsafe.Add(p, at))[:], word)
}
