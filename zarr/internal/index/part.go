package index

import (
	"cmp"
	"encoding/binary"
	"iter"
	"slices"

	"github.com/quiver-gpu/quiver/zarr/internal/grid"
)

// Part is the part of a selection that lies in one region, such as a chunk, and where
// those elements are in the result.
type Part struct {
	// From are the positions in the region, one entry per axis.
	From []Positions
	// To are the positions in the result, one entry per axis. If the part is Paired,
	// it has one entry, which counts elements in C order.
	To []Positions
	// Paired means that From are the coordinates of points instead of combinations.
	Paired bool
}

// Broadcast returns the part with all elements at the first position of the result, as
// for a scalar.
func (p Part) Broadcast() Part {
	to := make([]Positions, len(p.To))
	for i := range to {
		to[i] = Range(0, 0, p.To[i].Len)
	}
	p.To = to
	return p
}

// Repeat returns the part with all positions at the first element of the region, which
// becomes every element of the result, as for a fill value.
func (p Part) Repeat() Part {
	if p.Paired {
		return Part{From: []Positions{Range(0, 0, p.To[0].Len)}, To: p.To, Paired: true}
	}
	from := make([]Positions, len(p.From))
	for i := range from {
		from[i] = Range(0, 0, p.From[i].Len)
	}
	p.From = from
	return p
}

// Empty reports whether the part has no elements.
func (p Part) Empty() bool {
	return slices.ContainsFunc(p.To, func(q Positions) bool { return q.Len == 0 })
}

// Covers reports whether the part has every element of a region of the shape.
func (p Part) Covers(shape []int64) bool {
	if !p.Paired {
		for i, q := range p.From {
			if !q.covers(shape[i]) {
				return false
			}
		}
		return true
	}
	n := grid.Size(shape)
	return p.To[0].Len >= n && distinct(p.linear(shape), n) == n
}

// Bounds returns the smallest box of the region that has all elements of the part, which is
// not empty.
func (p Part) Bounds() grid.Box {
	b := grid.Box{Origin: make([]int64, len(p.From)), Shape: make([]int64, len(p.From))}
	for i, q := range p.From {
		low, high := q.bounds()
		b.Origin[i], b.Shape[i] = low, high-low+1
	}
	return b
}

// RelativeTo returns the part of a region whose first element is at origin in the region of p.
func (p Part) RelativeTo(origin []int64) Part {
	from := make([]Positions, len(p.From))
	for i, q := range p.From {
		from[i] = q.affine(1, -origin[i])
	}
	p.From = from
	return p
}

// linear returns the positions of paired coordinates in C order of the shape.
func (p Part) linear(shape []int64) []int64 {
	numbers := make([]int64, p.To[0].Len)
	for i, q := range p.From {
		for j := range numbers {
			numbers[j] = numbers[j]*shape[i] + q.At(int64(j))
		}
	}
	return numbers
}

// Split yields the chunks of the region that have elements of the part, with their
// parts. The positions of such a part count from the start of its chunk.
func (p Part) Split(g grid.Grid) iter.Seq2[[]int64, Part] {
	if p.Empty() {
		return func(func([]int64, Part) bool) {}
	}
	if p.Paired {
		return p.splitPoints(g)
	}
	pieces, counts := make([][]piece, len(g)), make([]int64, len(g))
	for i := range g {
		pieces[i] = split(p.From[i], p.To[i], g[i])
		counts[i] = int64(len(pieces[i]))
	}
	return func(yield func([]int64, Part) bool) {
		for at := range grid.Indices(counts) {
			part := Part{From: make([]Positions, len(g)), To: make([]Positions, len(g))}
			for i, k := range at {
				part.From[i], part.To[i] = pieces[i][k].from, pieces[i][k].to
				at[i] = pieces[i][k].chunk
			}
			if !yield(at, part) {
				return
			}
		}
	}
}

// piece is the positions of one axis that lie in one chunk.
type piece struct {
	chunk    int64
	from, to Positions
}

func split(from, to Positions, axis grid.Axis) []piece {
	if from.List != nil {
		return splitList(from, to, axis)
	}
	var pieces []piece
	for i := int64(0); i < from.Len; {
		chunk := axis.Find(from.At(i))
		start, stop := axis.Chunk(chunk)
		n := from.Len - i // positions in the chunk
		switch at := from.At(i); {
		case from.Step > 0:
			n = min(n, (stop-1-at)/from.Step+1)
		case from.Step < 0:
			n = min(n, (at-start)/-from.Step+1)
		}
		here := Range(i, 1, n)
		pieces = append(pieces, piece{chunk, from.Pick(here).affine(1, -start), to.Pick(here)})
		i += n
	}
	return pieces
}

func splitList(from, to Positions, axis grid.Axis) []piece {
	order := make([]int64, from.Len)
	chunks := make([]int64, from.Len)
	for i := range order {
		order[i], chunks[i] = int64(i), axis.Find(from.List[i])
	}
	if !slices.IsSorted(chunks) {
		slices.SortStableFunc(order, func(a, b int64) int { return cmp.Compare(chunks[a], chunks[b]) })
	}
	var pieces []piece
	for first := 0; first < len(order); {
		chunk, end := chunks[order[first]], first+1
		for end < len(order) && chunks[order[end]] == chunk {
			end++
		}
		start, _ := axis.Chunk(chunk)
		here := List(order[first:end])
		pieces = append(pieces, piece{chunk, from.Pick(here).affine(1, -start), to.Pick(here)})
		first = end
	}
	return pieces
}

func (p Part) splitPoints(g grid.Grid) iter.Seq2[[]int64, Part] {
	order := make([]int64, p.To[0].Len)
	for i := range order {
		order[i] = int64(i)
	}
	chunks := make([][]int64, len(g)) // by axis, then by point
	for i, axis := range g {
		chunks[i] = make([]int64, len(order))
		for j := range order {
			chunks[i][j] = axis.Find(p.From[i].At(int64(j)))
		}
	}
	compare := func(a, b int64) int {
		for i := range chunks {
			if c := cmp.Compare(chunks[i][a], chunks[i][b]); c != 0 {
				return c
			}
		}
		return 0
	}
	if !slices.IsSortedFunc(order, compare) {
		slices.SortStableFunc(order, compare)
	}
	return func(yield func([]int64, Part) bool) {
		for first := 0; first < len(order); {
			end := first + 1
			for end < len(order) && compare(order[first], order[end]) == 0 {
				end++
			}
			here := List(order[first:end])
			index := make([]int64, len(g))
			part := Part{From: make([]Positions, len(g)), To: []Positions{p.To[0].Pick(here)}, Paired: true}
			for i, axis := range g {
				index[i] = chunks[i][order[first]]
				start, _ := axis.Chunk(index[i])
				part.From[i] = p.From[i].Pick(here).affine(1, -start)
			}
			if !yield(index, part) {
				return
			}
			first = end
		}
	}
}

// Gather copies the part from a C-ordered region to the C-ordered result. An element is
// width consecutive T.
func Gather[T any](p Part, result []T, resultShape []int64, region []T, regionShape []int64, width int64) {
	to, from := p.offsets(resultShape, regionShape, width)
	copyAxes(result, region, to, from, width)
}

// Scatter copies the part from the C-ordered result to a C-ordered region. The last one
// of several elements for one position stays.
func Scatter[T any](p Part, region []T, regionShape []int64, result []T, resultShape []int64, width int64) {
	to, from := p.offsets(resultShape, regionShape, width)
	copyAxes(region, result, from, to, width)
}

// offsets returns the positions of each axis as offsets in the result and the region.
func (p Part) offsets(result, region []int64, width int64) (to, from []Positions) {
	if p.Paired {
		return []Positions{p.To[0].affine(width, 0)}, []Positions{List(p.linear(region)).affine(width, 0)}
	}
	to, from = make([]Positions, len(p.To)), make([]Positions, len(p.To))
	toStride, fromStride := width, width
	for i := len(p.To) - 1; i >= 0; i-- {
		to[i], from[i] = p.To[i].affine(toStride, 0), p.From[i].affine(fromStride, 0)
		toStride *= result[i]
		fromStride *= region[i]
	}
	return to, from
}

// copyAxes copies elements between all combinations of offsets.
func copyAxes[T any](dst, src []T, to, from []Positions, width int64) {
	// Inner axes that are contiguous in both arrays form one run.
	run, last := width, len(to)
	for last > 0 && to[last-1].isRun(run) && from[last-1].isRun(run) {
		last--
		run *= to[last].Len
	}
	if run == 0 {
		return
	}
	var d, s int64
	for i := last; i < len(to); i++ {
		d += to[i].Start
		s += from[i].Start
	}
	copyRuns(dst, src, d, s, to[:last], from[:last], run)
}

func copyRuns[T any](dst, src []T, d, s int64, to, from []Positions, run int64) {
	switch len(to) {
	case 0:
		copy(dst[d:d+run], src[s:s+run])
	case 1:
		copyOffsets(dst, src, d, s, to[0], from[0], run)
	default:
		for i := range to[0].Len {
			copyRuns(dst, src, d+to[0].At(i), s+from[0].At(i), to[1:], from[1:], run)
		}
	}
}

func copyOffsets[T any](dst, src []T, d, s int64, to, from Positions, run int64) {
	if dst, ok := any(dst).([]byte); ok { // numbers of four and eight bytes are most common
		src := any(src).([]byte)
		switch run {
		case 4:
			for i := range to.Len {
				binary.NativeEndian.PutUint32(dst[d+to.At(i):], binary.NativeEndian.Uint32(src[s+from.At(i):]))
			}
			return
		case 8:
			for i := range to.Len {
				binary.NativeEndian.PutUint64(dst[d+to.At(i):], binary.NativeEndian.Uint64(src[s+from.At(i):]))
			}
			return
		}
	}
	for i := range to.Len {
		at, of := d+to.At(i), s+from.At(i)
		copy(dst[at:at+run], src[of:of+run])
	}
}
