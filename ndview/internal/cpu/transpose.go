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

// sheet is a part of a plane whose rows are together before they are written: as
// their addresses may compete for the same places in the cache, or to be streamed.
// It holds those columns of so many rows that a line of the source has.
type sheet struct {
	bytes   [side * block]byte
	streams bool // large results are
}

// streamedRow is from how many bytes on a row is streamed: of a shorter one, too
// much is in lines of which it has a part.
const streamedRow = 512

func (s *sheet) turn(q *square, dst unsafe.Pointer, dstStep int64, src unsafe.Pointer, srcStep, width int64) {
	at := unsafe.Pointer(&s.bytes)
	q.many(at, side*width, src, srcStep, block/width/q.columns, side/q.rows)
	copyRows(dst, dstStep, at, side*width/block, block/width)
}

// takes tells whether rows are worth being streamed: long ones, those that are as
// one, and those of whole lines.
func (s *sheet) takes(dst unsafe.Pointer, step, bytes int64) bool {
	return bytes >= streamedRow || step == bytes || (int64(uintptr(dst))|step|bytes)%block == 0
}

// stream writes rows that have no gaps in the sheet.
func (s *sheet) stream(dst unsafe.Pointer, step, rows, bytes int64) {
	at := unsafe.Pointer(&s.bytes)
	if step == bytes {
		Stream(dst, at, rows*bytes)
		return
	}
	for k := range rows {
		Stream(unsafe.Add(dst, k*step), unsafe.Add(at, k*bytes), bytes)
	}
}

// end lets others see what was streamed.
func (s *sheet) end() {
	if s.streams {
		StreamEnd()
	}
}

// streamLine is copyLine to where there are no gaps.
func streamLine[T unit](dst, src unsafe.Pointer, l line, by *sheet) {
	if l.src == l.dst {
		Stream(dst, src, l.n*l.dst)
		return
	}
	at, most := unsafe.Pointer(&by.bytes), StreamBlock/l.dst
	for i := int64(0); i < l.n; i += most {
		n := min(most, l.n-i)
		copyLine[T](at, unsafe.Add(src, i*l.src), line{n, l.dst, l.src})
		Stream(unsafe.Add(dst, i*l.dst), at, n*l.dst)
	}
}

// transpose goes through a plane in squares, since what is near a unit in the
// source was read with it.
func transpose[T unit](dst, src unsafe.Pointer, p plane, on *sheet) {
	width := int64(unsafe.Sizeof(*new(T)))
	across := block / width // units of a line of the source
	along := across         // and of the destination, but loops are not to be too short
	if width >= 8 {
		along = 32
	}
	square := &squares[width]
	turns := square.many != nil && p.inner.dst == width && p.outer.src == width
	if turns {
		along = side
	}
	for j := int64(0); j < p.inner.n; j += along {
		for i := int64(0); i < p.outer.n; i += across {
			to, from := unsafe.Add(dst, i*p.outer.dst+j*p.inner.dst), unsafe.Add(src, i*p.outer.src+j*p.inner.src)
			lines, n := min(across, p.outer.n-i), min(along, p.inner.n-j)
			if row := n * width; on.streams && on.takes(to, p.outer.dst, row) {
				if at := unsafe.Pointer(&on.bytes); turns && lines >= square.columns && n >= square.rows {
					square.turn(at, row, from, p.inner.src, width, lines, n)
				} else {
					copyLines[T](at, from, line{lines, row, p.outer.src}, line{n, width, p.inner.src})
				}
				on.stream(to, p.outer.dst, lines, row)
				continue
			}
			if turns && lines == across && n == side {
				on.turn(square, to, p.outer.dst, from, p.inner.src, width)
				continue
			}
			if turns && lines >= square.columns && n >= square.rows {
				square.turn(to, p.outer.dst, from, p.inner.src, width, lines, n)
				continue
			}
			copyLines[T](to, from, line{lines, p.outer.dst, p.outer.src}, line{n, p.inner.dst, p.inner.src})
		}
	}
}
