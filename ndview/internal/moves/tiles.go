package moves

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// sector is the number of bytes that memory is written in. Bytes of one that are
// written apart cost as much as all of it, and more where it must be read first.
const sector = 32

// Tiles moves units through tiles in a block's shared memory, where the axes that
// vary fastest in the source and in the destination differ. A tile has two
// sides: A, units that are near each other in the destination, and B, those that
// are in the source. Each side counts the items of one or more axes, the fastest
// first, as one.
type Tiles struct {
	ItemsA, ItemsB   int32
	AxesA, AxesB     int32
	Batch            int32 // axes of which each place has its own tiles
	ChunksA, ChunksB int32 // tiles along each side
	// Halo is not 0 where A is a gapless run of the destination, in which rows
	// begin anywhere: each row's cuts are moved back to a whole sector, by up to
	// Halo items.
	Halo                 int32
	LogA, LogB           int32  // a slim tile's sides, as logarithms
	Places               int32  // of the batch
	SideB                int32  // of tiles of runs and of matrices
	By                   Divide // by the items of A of matrices, or their bytes of lines
	SideA                int32  // of tiles of runs and of lines
	Pitch                int32  // of lines: the words of 4 bytes from row to row
	ByChunksA, ByChunksB Divide
	// Group is how many tiles along A are done before those beside them along B, if
	// it is not 0: else all are.
	Group  int32
	Shared int32         // bytes that a block asks for
	End    int64         // of the source, from its first unit
	Axes   [MaxAxes]Axis // of A, of B, and of the batch
}

// sides are how many items the tiles of a kernel have along A and B.
type sides struct{ a, b int64 }

var tileSides = map[string]map[int64]sides{
	"tiles":   {4: {64, 64}, 8: {64, 32}, 16: {32, 32}},
	"sectors": {4: {128, 64}, 8: {128, 32}, 16: {64, 32}},
	"words":   {1: {128, 256}, 2: {128, 128}},
	"runs":    {1: {256, 256}, 2: {256, 128}}, "shortruns": {1: {128, 256}, 2: {128, 128}},
}

// NewTiles plans a nest of a destination and a source in units of width bytes,
// and names the kernel, for a GPU of which a block may have so much shared memory. It
// answers false where both have one fastest axis, or the source repeats one value along
// the destination's.
func NewTiles(width int64, dst, src uint64, n layout.Nest, memory int64) (t *Tiles, kernel string, ok bool) {
	last := len(n.Shape) - 1
	if last < 1 || n.Strides[1][last] == 0 {
		return nil, "", false
	}
	bySrc, byDst := rising(n.Strides[1]), rising(n.Strides[0])
	if bySrc[0] == last || abs(n.Strides[1][bySrc[0]]) == abs(n.Strides[1][last]) {
		return nil, "", false
	}
	free := make([]bool, len(n.Shape))
	for k := range free {
		free[k] = true
	}
	free[bySrc[0]] = false
	a, runA := side(n, 0, width, byDst, free)
	free[bySrc[0]] = true
	b, runB := side(n, 1, width, bySrc, free)
	follow := following(n, width*count(n, a), b)
	if follow > 0 && runA && runB && width < 16 && width*count(n, a)%sector != 0 && width*count(n, b[:follow]) >= short {
		for _, k := range b[follow:] {
			free[k] = true
		}
		b = b[:follow]
	}
	var batch []int
	for _, k := range byDst {
		if free[k] {
			batch = append(batch, k)
		}
	}
	t = &Tiles{AxesA: int32(len(a)), AxesB: int32(len(b)), Batch: int32(len(batch))}
	t.ItemsA, t.ItemsB, t.Places = int32(count(n, a)), int32(count(n, b)), int32(count(n, batch))
	copy(t.Axes[:], slices.Concat(axes(n, a), axes(n, b), axes(n, batch)))
	t.End = width
	for k, stride := range n.Strides[1] {
		t.End += (n.Shape[k] - 1) * max(stride, 0)
	}

	// What the rows of a side, in the operand that it is near in, begin at.
	for _, k := range slices.Concat(b, batch) {
		dst |= uint64(n.Strides[0][k])
	}
	for _, k := range slices.Concat(a, batch) {
		src |= uint64(n.Strides[1][k])
	}
	kernel = "tiles"
	if width < 4 {
		kernel = "runs"
		if t.isWords(width, dst, src) {
			kernel = "words"
		}
	}
	if kernel != "words" && dst%sector != 0 && runA && runB && follow == len(b) {
		if kernel, ok := t.matrices(width, tileRoom(memory)); ok {
			return t, kernel, true
		}
	}
	s := tileSides[kernel][width]
	fewB := s.b / 2
	switch {
	case width == 16:
		fewB = s.b / 3 // since half a row of such units is whole sectors still
	case kernel == "runs":
		fewB = s.b / 4 // of which a quarter is faster than slim tiles still
	}
	if int64(t.ItemsA) < s.a/3 || int64(t.ItemsB) <= fewB || width < 4 && !(runA && runB) {
		t.slim(width)
		return t, "slim", true
	}
	if kernel == "tiles" && runA && dst%sector != 0 && int64(t.ItemsA) > s.a {
		kernel, s = "sectors", tileSides["sectors"][width]
	}
	if kernel == "runs" {
		kernel, s = t.runs(width, tileRoom(memory))
	}
	t.cut(s)
	if kernel != "tiles" && kernel != "words" {
		t.Halo = int32(sector/width) - 1
	}
	t.grouped(width, follow == len(b))
	return t, kernel, true
}

// isWords tells whether units are moved in whole words of 8 bytes: where these lie in
// whole sectors too, or all of A fits a tile. Runs are faster else.
func (t *Tiles) isWords(width int64, dst, src uint64) bool {
	if (dst|src|uint64(width)*uint64(t.ItemsA)|uint64(width)*uint64(t.ItemsB))%8 != 0 {
		return false
	}
	most := int32(tileSides["words"][width].a)
	return (dst|src)%sector == 0 || t.ItemsA >= most/3 && t.ItemsA <= most
}

const (
	group = 16      // tiles along A that make one
	near  = 8 << 20 // bytes of a GPU's cache that surely hold what was read last
)

// grouped makes groups of tiles where rows of the source are short, so that what
// is near in it is read at about one time. It is so anyway where A has few bytes
// for each of a tile's items of B; and where these follow A in the destination,
// all that is then written at about one time is one run.
func (t *Tiles) grouped(width int64, follow bool) {
	a, b := width*int64(t.ItemsA), width*int64(t.ItemsB)
	short := b <= 32<<10 && !(follow && a*int64(t.ItemsB)/int64(t.ChunksB) <= near)
	if t.Halo == 0 { // tiles whose rows are whole sectors lose less
		short = b < 4<<10 && a >= 512<<10
	}
	if short && t.ChunksA > group && t.ChunksB > 1 {
		t.Group = group
	}
}

// following counts the axes that follow a run of so many bytes of the destination
// without a gap.
func following(n layout.Nest, bytes int64, axes []int) int {
	for i, k := range axes {
		if n.Strides[0][k] != bytes {
			return i
		}
		bytes *= n.Shape[k]
	}
	return len(axes)
}

// enoughB is how many items of B matrices have that are as fast as tiles which have
// more of those, and a part of A.
var enoughB = map[int64]int32{4: 32, 8: 21}

// matrixRoom is how many bytes of matrices a tile holds.
const matrixRoom = 32 << 10

// matrices plans tiles that hold all of A, which the items of B follow in the
// destination: what they write is one run. It answers false where there is no room.
func (t *Tiles) matrices(width, room int64) (kernel string, ok bool) {
	bytes := width * int64(t.ItemsA)
	switch {
	case width == 16:
		return "", false // which whole sectors serve as well
	case width < 4:
		return t.lines(width, room)
	}
	most := min(256/width, (matrixRoom/bytes-1)|1)
	if int64(t.ItemsA) > 256 || width*min(most, int64(t.ItemsB)) < short {
		return "", false
	}
	t.SideB = even(t.ItemsB, most)
	if t.SideB < enoughB[width] && t.ItemsB > enoughB[width] {
		return "", false
	}
	t.By = divide(int64(t.ItemsA))
	t.cut(sides{int64(t.ItemsA), int64(t.SideB)})
	return "matrices", true
}

// even cuts items evenly into pieces of at most so many.
func even(items int32, most int64) int32 {
	pieces := (int64(items)-1)/most + 1
	return int32((int64(items)-1)/pieces + 1)
}

// cut counts the tiles.
func (t *Tiles) cut(s sides) {
	t.ChunksA = int32((int64(t.ItemsA)-1)/s.a + 1)
	t.ChunksB = int32((int64(t.ItemsB)-1)/s.b + 1)
	t.ByChunksA, t.ByChunksB = divide(int64(t.ChunksA)), divide(int64(t.ChunksB))
}

// Blocks is how many blocks there are.
func (t *Tiles) Blocks() int64 {
	return int64(t.ChunksA) * int64(t.ChunksB) * int64(t.Places)
}

// Threads is how many a block of a kernel has.
func (t *Tiles) Threads(kernel string) int64 {
	if kernel == "runs" || kernel == "shortruns" {
		return 384
	}
	return 256
}

// longest is a slim tile's longest side, as a logarithm.
const longest = 9

// slim makes tiles to measure: slimmer along a side that has few items, and longer
// along the other.
func (t *Tiles) slim(width int64) {
	t.LogA, t.LogB = 6, 6
	switch width {
	case 8:
		t.LogB = 5
	case 16:
		t.LogA, t.LogB = 5, 5
	}
	most := t.LogA + t.LogB
	logA, logB := log(t.ItemsA), log(t.ItemsB)
	t.LogA, t.LogB = min(t.LogA, logA), min(t.LogB, logB)
	t.LogA = min(max(t.LogA, most-t.LogB), logA, longest)
	t.LogB = min(max(t.LogB, most-t.LogA), logB, longest)
	t.cut(sides{1 << t.LogA, 1 << t.LogB})
}

// log is the logarithm to the base of 2 of the next power of two.
func log(n int32) int32 { return int32(bits.Len32(uint32(n - 1))) }

// Nest is what is moved, for a twin.
func (t *Tiles) Nest() layout.Nest {
	a, b := t.Axes[:t.AxesA], t.Axes[t.AxesA:][:t.AxesB]
	n := grow(newNest(), a, int64(t.ItemsA))
	n = grow(n, b, int64(t.ItemsB))
	return grow(n, t.Axes[t.AxesA+t.AxesB:][:t.Batch], int64(t.Places))
}

func count(n layout.Nest, order []int) int64 {
	items := int64(1)
	for _, k := range order {
		items *= n.Shape[k]
	}
	return items
}

const (
	enough = 64   // items of a side that need no more axes
	few    = 24   // items that are enough where they are a run in the source, of more than short bytes
	short  = 96   // bytes of a run
	long   = 2000 // bytes of a run whose ends do not matter: more of its axes are left to the other side
)

// side takes axes in an order: those that are a gapless run of the operand, and
// more until there are enough items. It answers whether all are a run.
func side(n layout.Nest, operand int, width int64, order []int, free []bool) (axes []int, run bool) {
	strides := n.Strides[operand]
	items, run := int64(1), true
	for _, k := range order {
		if !free[k] || strides[k] == 0 && len(axes) > 0 {
			continue
		}
		gapless := run && strides[k] == items*width
		switch {
		case gapless && items >= enough && items*width >= long, !gapless && items >= enough:
			return axes, run
		case run && !gapless && operand == 1 && items >= few && items*width >= short:
			return axes, run
		}
		run = gapless
		axes = append(axes, k)
		items *= n.Shape[k]
		free[k] = false
	}
	return axes, run
}

// rising is the order of axes by which their strides rise, with those of 0 last.
// Of equal ones the later axis comes first.
func rising(strides []int64) []int {
	order := backwards(len(strides))
	key := func(k int) uint64 { return uint64(abs(strides[k])) - 1 }
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(key(i), key(j)) })
	return order
}

func abs(n int64) int64 { return max(n, -n) }
