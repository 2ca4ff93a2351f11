package cpu

import (
	"encoding/binary"
	"unsafe"
)

// block is how many bytes the cache has in a line.
const block = 64

// square is how to turn so many columns of so many rows of units: columns become
// rows. many does it for columns and rows of squares, at least one.
type square struct {
	columns, rows int64
	many          func(dst unsafe.Pointer, dstStep int64, src unsafe.Pointer, srcStep, columns, rows int64)
}

// squares are those that fit into registers, by the width of units: in words, or
// what the processor has besides.
var (
	squares     = wordSquares
	wordSquares = [...]square{1: {8, 8, turn8}, 2: {4, 4, turn4}, 16: {}}
)

// turn copies columns of rows of units of width bytes, at least a square. What
// whole squares leave is in squares that are done in part already.
func (q *square) turn(dst unsafe.Pointer, dstStep int64, src unsafe.Pointer, srcStep, width, columns, rows int64) {
	across, along := columns/q.columns, rows/q.rows
	i, j := columns-q.columns, rows-q.rows
	q.many(dst, dstStep, src, srcStep, across, along)
	right, below := columns%q.columns != 0, rows%q.rows != 0
	if right {
		q.many(unsafe.Add(dst, i*dstStep), dstStep, unsafe.Add(src, i*width), srcStep, 1, along)
	}
	if below {
		q.many(unsafe.Add(dst, j*width), dstStep, unsafe.Add(src, j*srcStep), srcStep, across, 1)
	}
	if right && below {
		q.many(unsafe.Add(dst, i*dstStep+j*width), dstStep, unsafe.Add(src, i*width+j*srcStep), srcStep, 1, 1)
	}
}

// turn8 turns 8 by 8 bytes: halves of a square change places, then halves of the
// halves.
func turn8(dst unsafe.Pointer, dstStep int64, src unsafe.Pointer, srcStep, columns, rows int64) {
	for k := range columns * rows {
		i, j := k%columns*8, k/columns*8
		from, to := unsafe.Add(src, j*srcStep+i), unsafe.Add(dst, i*dstStep+j)
		var r [8]uint64
		for i := range r {
			r[i] = load(from, int64(i)*srcStep)
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
			store(to, int64(i)*dstStep, r[i])
		}
	}
}

// turn4 turns 4 by 4 units of 2 bytes.
func turn4(dst unsafe.Pointer, dstStep int64, src unsafe.Pointer, srcStep, columns, rows int64) {
	for k := range columns * rows {
		i, j := k%columns*4, k/columns*4
		from, to := unsafe.Add(src, j*srcStep+i*2), unsafe.Add(dst, i*dstStep+j*2)
		a, b, c, d := load(from, 0), load(from, srcStep), load(from, 2*srcStep), load(from, 3*srcStep)
		swap(&a, &c, 32, 0x00000000ffffffff)
		swap(&b, &d, 32, 0x00000000ffffffff)
		swap(&a, &b, 16, 0x0000ffff0000ffff)
		swap(&c, &d, 16, 0x0000ffff0000ffff)
		store(to, 0, a)
		store(to, dstStep, b)
		store(to, 2*dstStep, c)
		store(to, 3*dstStep, d)
	}
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
