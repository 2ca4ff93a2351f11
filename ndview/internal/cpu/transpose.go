package cpu

import (
	"encoding/binary"
	"unsafe"
)

// transpose copies a plane tile by tile, so that cache lines of the source are used
// completely.
func transpose[T unit](dst, src unsafe.Pointer, p plane, buffer *rowBuffer) {
	width := int64(unsafe.Sizeof(*new(T)))
	across := cacheLine / width // units per cache line of the source
	along := across             // and of the destination, with a minimum so that loops are not too short
	if width >= 8 {
		along = 32
	}
	block := &registerTransposes[width]
	inRegisters := block.blocks != nil && p.inner.dst == width && p.outer.src == width
	if inRegisters {
		along = tileSide
	}
	for j := int64(0); j < p.inner.n; j += along {
		for i := int64(0); i < p.outer.n; i += across {
			to, from := unsafe.Add(dst, i*p.outer.dst+j*p.inner.dst), unsafe.Add(src, i*p.outer.src+j*p.inner.src)
			lines, n := min(across, p.outer.n-i), min(along, p.inner.n-j)
			if row := n * width; buffer.streams && buffer.worthStreaming(to, p.outer.dst, row) {
				if at := unsafe.Pointer(&buffer.bytes); inRegisters && lines >= block.columns && n >= block.rows {
					block.transpose(at, row, from, p.inner.src, width, lines, n)
				} else {
					copyLines[T](at, from, line{lines, row, p.outer.src}, line{n, width, p.inner.src})
				}
				buffer.streamRows(to, p.outer.dst, lines, row)
				continue
			}
			if inRegisters && lines == across && n == tileSide {
				buffer.transposeTile(block, to, p.outer.dst, from, p.inner.src, width)
				continue
			}
			if inRegisters && lines >= block.columns && n >= block.rows {
				block.transpose(to, p.outer.dst, from, p.inner.src, width, lines, n)
				continue
			}
			copyLines[T](to, from, line{lines, p.outer.dst, p.outer.src}, line{n, p.inner.dst, p.inner.src})
		}
	}
}

// cacheLine is the number of bytes of a cache line.
const cacheLine = 64

// registerTranspose transposes blocks of columns x rows units in registers. The
// function blocks transposes columns x rows such blocks, at least one.
type registerTranspose struct {
	columns, rows int64
	blocks        func(dst unsafe.Pointer, dstStep int64, src unsafe.Pointer, srcStep, columns, rows int64)
}

// registerTransposes are indexed by the width of units: in Go, or in assembly if the
// processor supports it.
var (
	registerTransposes = goTransposes
	goTransposes       = [...]registerTranspose{1: {8, 8, transpose8x8}, 2: {4, 4, transpose4x4}, 16: {}}
)

// transpose transposes columns x rows units of width bytes, at least one block. At the
// edges it repeats a part of the previous blocks.
func (q *registerTranspose) transpose(dst unsafe.Pointer, dstStep int64, src unsafe.Pointer, srcStep, width, columns, rows int64) {
	across, along := columns/q.columns, rows/q.rows
	i, j := columns-q.columns, rows-q.rows
	q.blocks(dst, dstStep, src, srcStep, across, along)
	right, below := columns%q.columns != 0, rows%q.rows != 0
	if right {
		q.blocks(unsafe.Add(dst, i*dstStep), dstStep, unsafe.Add(src, i*width), srcStep, 1, along)
	}
	if below {
		q.blocks(unsafe.Add(dst, j*width), dstStep, unsafe.Add(src, j*srcStep), srcStep, across, 1)
	}
	if right && below {
		q.blocks(unsafe.Add(dst, i*dstStep+j*width), dstStep, unsafe.Add(src, i*width+j*srcStep), srcStep, 1, 1)
	}
}

// transpose8x8 transposes 8 x 8 bytes: it exchanges halves of the block, then quarters
// of the halves, and so on.
func transpose8x8(dst unsafe.Pointer, dstStep int64, src unsafe.Pointer, srcStep, columns, rows int64) {
	for k := range columns * rows {
		i, j := k%columns*8, k/columns*8
		from, to := unsafe.Add(src, j*srcStep+i), unsafe.Add(dst, i*dstStep+j)
		var r [8]uint64
		for i := range r {
			r[i] = load(from, int64(i)*srcStep)
		}
		for i := range 4 {
			swapBits(&r[i], &r[i+4], 32, 0x00000000ffffffff)
		}
		for _, i := range [4]int{0, 1, 4, 5} {
			swapBits(&r[i], &r[i+2], 16, 0x0000ffff0000ffff)
		}
		for _, i := range [4]int{0, 2, 4, 6} {
			swapBits(&r[i], &r[i+1], 8, 0x00ff00ff00ff00ff)
		}
		for i := range r {
			store(to, int64(i)*dstStep, r[i])
		}
	}
}

// transpose4x4 transposes 4 x 4 units of 2 bytes.
func transpose4x4(dst unsafe.Pointer, dstStep int64, src unsafe.Pointer, srcStep, columns, rows int64) {
	for k := range columns * rows {
		i, j := k%columns*4, k/columns*4
		from, to := unsafe.Add(src, j*srcStep+i*2), unsafe.Add(dst, i*dstStep+j*2)
		a, b, c, d := load(from, 0), load(from, srcStep), load(from, 2*srcStep), load(from, 3*srcStep)
		swapBits(&a, &c, 32, 0x00000000ffffffff)
		swapBits(&b, &d, 32, 0x00000000ffffffff)
		swapBits(&a, &b, 16, 0x0000ffff0000ffff)
		swapBits(&c, &d, 16, 0x0000ffff0000ffff)
		store(to, 0, a)
		store(to, dstStep, b)
		store(to, 2*dstStep, c)
		store(to, 3*dstStep, d)
	}
}

// swapBits exchanges the masked bits of b with the bits of a that are shift higher.
func swapBits(a, b *uint64, shift uint, mask uint64) {
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

// rowBuffer collects rows of a tile before they are written: because their addresses
// may compete for the same cache sets, or because they are streamed.
type rowBuffer struct {
	bytes   [tileSide * cacheLine]byte
	streams bool // whether the result is written with non-temporal stores
}

// minStreamedRow is the row length in bytes from which streaming pays: shorter rows are
// mostly parts of cache lines.
const minStreamedRow = 512

func (s *rowBuffer) transposeTile(block *registerTranspose, dst unsafe.Pointer, dstStep int64, src unsafe.Pointer, srcStep, width int64) {
	at := unsafe.Pointer(&s.bytes)
	block.blocks(at, tileSide*width, src, srcStep, cacheLine/width/block.columns, tileSide/block.rows)
	copyRows(dst, dstStep, at, tileSide*width/cacheLine, cacheLine/width)
}

// worthStreaming reports whether rows should be streamed: long rows, contiguous rows,
// and rows of whole cache lines.
func (s *rowBuffer) worthStreaming(dst unsafe.Pointer, step, bytes int64) bool {
	return bytes >= minStreamedRow || step == bytes || (int64(uintptr(dst))|step|bytes)%cacheLine == 0
}

// streamRows writes the rows of the buffer.
func (s *rowBuffer) streamRows(dst unsafe.Pointer, step, rows, bytes int64) {
	at := unsafe.Pointer(&s.bytes)
	if step == bytes {
		Stream(dst, at, rows*bytes)
		return
	}
	for k := range rows {
		Stream(unsafe.Add(dst, k*step), unsafe.Add(at, k*bytes), bytes)
	}
}

// flush makes the streamed rows visible to other goroutines.
func (s *rowBuffer) flush() {
	if s.streams {
		StreamFence()
	}
}

// streamLine is copyLine to a contiguous destination, with non-temporal stores.
func streamLine[T unit](dst, src unsafe.Pointer, l line, buffer *rowBuffer) {
	if l.src == l.dst {
		Stream(dst, src, l.n*l.dst)
		return
	}
	at, most := unsafe.Pointer(&buffer.bytes), StreamBlockBytes/l.dst
	for i := int64(0); i < l.n; i += most {
		n := min(most, l.n-i)
		copyLine[T](at, unsafe.Add(src, i*l.src), line{n, l.dst, l.src})
		Stream(unsafe.Add(dst, i*l.dst), at, n*l.dst)
	}
}
