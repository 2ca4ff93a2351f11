package reduce

import (
	"sync"
	"unsafe"
)

// grid is rows of elements, pitch bytes apart. Those of a row have no gaps and lie
// as Go wants them.
type grid[T any] struct {
	at                 unsafe.Pointer
	rows, width, pitch int64
}

func (g grid[T]) row(r int64) []T {
	return unsafe.Slice((*T)(unsafe.Add(g.at, r*g.pitch)), g.width)
}

// shortPitch is up to how many bytes rows without gaps between them are read one
// after the other, as one run that the processor foresees. Each of four at once would
// be foreseen anew.
const shortPitch = 8 << 10

// fourAt tells whether row r and the three that follow are to be read at once, which
// saves passes through the accumulators.
func (g grid[T]) fourAt(r int64) bool {
	var element T
	gaps := g.pitch != g.width*int64(unsafe.Sizeof(element))
	return g.rows-r >= 4 && (gaps || g.pitch > shortPitch)
}

// ahead is how many bytes after row r and the three that follow it the next four are, or
// 0 where there are no four: no processor foresees where they are.
func (g grid[T]) ahead(r int64) int {
	if g.rows-r < 8 {
		return 0
	}
	return int(4 * g.pitch)
}

// gathered is how many elements with gaps are put together at a time.
const gathered = 2048

// gathers are blocks to put elements together in.
type gathers[T any] struct{ blocks *sync.Pool }

func newGathers[T any]() gathers[T] {
	return gathers[T]{&sync.Pool{New: func() any { return new([gathered]T) }}}
}

// each calls do with parts of rows of n elements that cover them, and with the row
// and the column where a part begins. It takes elements in place where it can.
func (g gathers[T]) each(from unsafe.Pointer, n, stride, rows, pitch int64, do func(row, column int64, x grid[T])) {
	var element T
	size, align := int64(unsafe.Sizeof(element)), uint64(unsafe.Alignof(element))
	aligned := (uint64(uintptr(from))|uint64(pitch))%align == 0
	if aligned && stride == size {
		do(0, 0, grid[T]{from, rows, n, pitch})
		return
	}
	aligned = aligned && uint64(stride)%align == 0
	block, _ := g.blocks.Get().(*[gathered]T)
	defer g.blocks.Put(block)
	// Few rows are taken whole, of many rows not less than some elements.
	width := min(max(gathered/rows, 256), n)
	for first := int64(0); first < n; first += width {
		width := min(width, n-first)
		height := min(gathered/width, rows)
		for row := int64(0); row < rows; row += height {
			x := grid[T]{unsafe.Pointer(block), min(height, rows-row), width, width * size}
			for r := range x.rows {
				gather(x.row(r), unsafe.Add(from, (row+r)*pitch+first*stride), stride, aligned)
			}
			do(row, first, x)
		}
	}
}

// gather copies elements that are stride bytes apart.
func gather[T any](to []T, from unsafe.Pointer, stride int64, aligned bool) {
	if aligned {
		for i := range to {
			to[i] = *(*T)(unsafe.Add(from, int64(i)*stride))
		}
		return
	}
	size := unsafe.Sizeof(to[0])
	for i := range to {
		at := unsafe.Add(from, int64(i)*stride)
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&to[i])), size), unsafe.Slice((*byte)(at), size))
	}
}
