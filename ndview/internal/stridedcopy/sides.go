package stridedcopy

import (
	"cmp"
	"slices"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

const (
	sideItems    = 64   // items of a side that are enough
	runSideItems = 24   // enough items if they are a run of at least shortRun bytes in the source
	shortRun     = 96   // bytes of a run
	ampleRun     = 2000 // bytes of a run whose ends cost little: further axes are left to the other side
)

// sides assigns each axis of a nest to side A of tiles, to side B, or to the batch.
type sides struct {
	layout.Nest
	a, b, batch []int // the fastest axes first
	runA, runB  bool  // whether A is contiguous in the destination, and B in the source
	contiguous  bool  // whether the items of B follow A in the destination without gaps
}

// findSides returns false if both operands have the same fastest axis, or if the source
// repeats one value along the destination's.
func findSides(width int64, n layout.Nest) (s sides, ok bool) {
	last := len(n.Shape) - 1
	if last < 1 || n.Strides[1][last] == 0 {
		return s, false
	}
	bySrc, byDst := byStride(n.Strides[1]), byStride(n.Strides[0])
	if bySrc[0] == last || abs(n.Strides[1][bySrc[0]]) == abs(n.Strides[1][last]) {
		return s, false
	}
	free := make([]bool, len(n.Shape))
	for k := range free {
		free[k] = k != bySrc[0]
	}
	s.Nest = n
	s.a, s.runA = takeAxes(n, 0, width, byDst, free)
	free[bySrc[0]] = true
	s.b, s.runB = takeAxes(n, 1, width, bySrc, free)
	rowA := width * countItems(n, s.a)
	following := countFollowing(n, rowA, s.b)
	if following > 0 && s.runA && s.runB && width < 16 && rowA%sector != 0 && width*countItems(n, s.b[:following]) >= shortRun {
		for _, k := range s.b[following:] {
			free[k] = true
		}
		s.b = s.b[:following]
	}
	s.contiguous = following == len(s.b)
	for _, k := range byDst {
		if free[k] {
			s.batch = append(s.batch, k)
		}
	}
	return s, true
}

// tiles returns tiles without sizes, with the items of the sides.
func (s sides) tiles(width int64) *Tiles {
	t := &Tiles{
		AxesA: int32(len(s.a)), AxesB: int32(len(s.b)), Batch: int32(len(s.batch)),
		ItemsA: int32(countItems(s.Nest, s.a)), ItemsB: int32(countItems(s.Nest, s.b)), BatchItems: int32(countItems(s.Nest, s.batch)),
	}
	copy(t.Axes[:], slices.Concat(axes(s.Nest, s.a), axes(s.Nest, s.b), axes(s.Nest, s.batch)))
	_, t.End, _ = layout.ByteBounds(width, 0, s.Shape, s.Strides[1])
	return t
}

// rowStarts returns the low bits of all addresses where rows of A begin in the
// destination, and rows of B in the source, combined by OR.
func (s sides) rowStarts(dst, src uint64) (ofDst, ofSrc uint64) {
	for _, k := range slices.Concat(s.b, s.batch) {
		dst |= uint64(s.Strides[0][k])
	}
	for _, k := range slices.Concat(s.a, s.batch) {
		src |= uint64(s.Strides[1][k])
	}
	return dst, src
}

// takeAxes takes free axes in order for a side: those that are a contiguous run of the
// operand, and more until there are enough items. It reports whether all are a run.
func takeAxes(n layout.Nest, operand int, width int64, order []int, free []bool) (axes []int, run bool) {
	strides := n.Strides[operand]
	items, run := int64(1), true
	for _, k := range order {
		if !free[k] || strides[k] == 0 && len(axes) > 0 {
			continue
		}
		gapless := run && strides[k] == items*width
		switch {
		case gapless && items >= sideItems && items*width >= ampleRun, !gapless && items >= sideItems:
			return axes, run
		case run && !gapless && operand == 1 && items >= runSideItems && items*width >= shortRun:
			return axes, run
		}
		run = gapless
		axes = append(axes, k)
		items *= n.Shape[k]
		free[k] = false
	}
	return axes, run
}

// byStride returns the axes in order of ascending strides, strides of 0 last. Of equal
// strides the later axis comes first.
func byStride(strides []int64) []int {
	order := reversed(len(strides))
	key := func(k int) uint64 { return uint64(abs(strides[k])) - 1 }
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(key(i), key(j)) })
	return order
}

func abs(n int64) int64 { return max(n, -n) }

// countFollowing returns how many of the axes continue a run of bytes of the
// destination without gaps.
func countFollowing(n layout.Nest, bytes int64, axes []int) int {
	for i, k := range axes {
		if n.Strides[0][k] != bytes {
			return i
		}
		bytes *= n.Shape[k]
	}
	return len(axes)
}

func countItems(n layout.Nest, order []int) int64 {
	items := int64(1)
	for _, k := range order {
		items *= n.Shape[k]
	}
	return items
}
