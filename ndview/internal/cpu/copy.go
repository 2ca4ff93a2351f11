package cpu

import (
	"unsafe"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// Copy moves units of width bytes, 1, 2, 4, 8 or 16, along a nest of a
// destination and a source, which do not overlap. The pointers are to where the
// nest begins, its Offsets added.
func Copy(dst, src unsafe.Pointer, width int64, n layout.Nest) {
	switch width {
	case 1:
		copyNest[uint8](dst, src, n)
	case 2:
		copyNest[uint16](dst, src, n)
	case 4:
		copyNest[uint32](dst, src, n)
	case 8:
		copyNest[uint64](dst, src, n)
	default:
		copyNest[[2]uint64](dst, src, n)
	}
}

// plane is the two innermost loops of a copy.
type plane struct{ outer, inner line }

func copyNest[T unit](dst, src unsafe.Pointer, n layout.Nest) {
	width := int64(unsafe.Sizeof(*new(T)))
	outer, p := split(n)
	blocks, pieces := (p.outer.n-1)/side+1, (p.inner.n-1)/length+1
	total := layout.Product(outer.Shape) * blocks * pieces
	cost := width * min(length, p.inner.n) * min(side, p.outer.n)
	streams := p.inner.dst == width && Streams(2*width*layout.Product(n.Shape))
	Parallel(total, max(grain/cost, 1), func(lo, hi int64) {
		sheet := &sheet{streams: streams}
		defer sheet.end()
		for i := lo; i < hi; i++ {
			d, s := dst, src
			rest, column := i/pieces, i%pieces*length
			rest, row := rest/blocks, rest%blocks*side
			for k := len(outer.Shape) - 1; k >= 0; k-- {
				at := rest % outer.Shape[k]
				rest /= outer.Shape[k]
				d, s = unsafe.Add(d, at*outer.Strides[0][k]), unsafe.Add(s, at*outer.Strides[1][k])
			}
			d = unsafe.Add(d, row*p.outer.dst+column*p.inner.dst)
			s = unsafe.Add(s, row*p.outer.src+column*p.inner.src)
			part := p
			part.outer.n, part.inner.n = min(side, p.outer.n-row), min(length, p.inner.n-column)
			copyPlane[T](d, s, part, sheet)
		}
	})
}

const (
	// side is how many lines of a plane are done at once: as many units as their
	// parts in the cache's lines are used before the lines are gone.
	side = 64
	// length is how much of a line: a number of sides, as one line may be all there is
	// to share out.
	length = 256 * side
)

// split takes two axes of a nest as the plane: the destination's fastest, and of
// the others the source's fastest.
func split(n layout.Nest) (outer layout.Nest, p plane) {
	outer = layout.Nest{Strides: [][]int64{nil, nil}}
	p = plane{line{n: 1}, line{n: 1}}
	last := len(n.Shape) - 1
	if last < 0 {
		return outer, p
	}
	at := func(k int) line { return line{n.Shape[k], n.Strides[0][k], n.Strides[1][k]} }
	p.inner = at(last)
	second := -1
	for k := last - 1; k >= 0; k-- {
		s := n.Strides[1][k]
		if second < 0 || s != 0 && abs(s) < abs(n.Strides[1][second]) {
			second = k
		}
	}
	for k := range last {
		if k == second {
			p.outer = at(k)
			continue
		}
		outer.Shape = append(outer.Shape, n.Shape[k])
		outer.Strides[0] = append(outer.Strides[0], n.Strides[0][k])
		outer.Strides[1] = append(outer.Strides[1], n.Strides[1][k])
	}
	return outer, p
}

func abs(n int64) int64 { return max(n, -n) }

func copyPlane[T unit](dst, src unsafe.Pointer, p plane, on *sheet) {
	if p.outer.src != 0 && abs(p.outer.src) < abs(p.inner.src) {
		transpose[T](dst, src, p, on)
		return
	}
	for i := range p.outer.n {
		to, from := unsafe.Add(dst, i*p.outer.dst), unsafe.Add(src, i*p.outer.src)
		if on.streams && p.inner.n*p.inner.dst >= streamedRow {
			streamLine[T](to, from, p.inner, on)
		} else {
			copyLine[T](to, from, p.inner)
		}
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

func copyLines[T unit](dst, src unsafe.Pointer, lines, each line) {
	for k := range lines.n {
		copyLine[T](unsafe.Add(dst, k*lines.dst), unsafe.Add(src, k*lines.src), each)
	}
}

// CopyBytes copies bytes, which may overlap.
func CopyBytes(dst, src []byte) {
	if len(dst) == 0 || overlap(dst, src) {
		copy(dst, src)
		return
	}
	Parallel(int64(len(dst)), 16*grain, func(lo, hi int64) { copy(dst[lo:hi], src[lo:hi]) })
}

func overlap(a, b []byte) bool {
	x, y := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0]))
	return x < y+uintptr(len(b)) && y < x+uintptr(len(a))
}
