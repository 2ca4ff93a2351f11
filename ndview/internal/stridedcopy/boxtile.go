package stridedcopy

import (
	"slices"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// Bricks moves units through bricks: boxes of the nest of which an image lies in a
// block's shared memory. A brick has as many of the fastest axes of either operand
// as make a long run of it, so that axes may be short. In the image a run of the
// source lies as it does in words of 16 bytes of the source, which are moved there
// whole. What is written is gathered from there.
type Bricks struct {
	Begin, End       int64     // of the source, from its first unit
	A, B             SplitAxis // the axes that end a run of the destination, and of the source
	ChunksA, ChunksB int32     // bricks along them
	Same             int32     // 1 where both are axis A; B has one item then
	UnitsA, UnitsB   int32     // of a run, for each item of the axis that ends it
	RunsA, RunsB     int32     // runs of the destination for each item of B, of the source for each of A
	Row, Step        int32     // units along the destination's fastest axis, and the bytes in the image from one to the next
	Rows             int32     // of a run of the destination
	WordsA, WordsB   int32     // that a run may touch
	Image, Shared    int32     // bytes of the image, and with tables
	MostB, MostRows  int32     // runs of the source, and rows, that a brick has
	Spread           int32     // 1 where threads side by side would gather from the same banks
	Square, Words    int32     // bytes of words that squares of units are written in, or 0, and how many a run may touch
	InRows           int32     // 1 where a square's words are of rows side by side in a run, not of runs; a row has Words then
	Overlap          int32     // lanes of a warp, the first, that read squares and write none, since they write those of lanes before; 0 where squares begin at sectors

	ByChunksA, ByChunksB            Divide
	ByRow, ByA, ByB, ByWord, ByRows Divide

	Counts [4]int32
	Axes   [4][MaxAxes]Axis // of runs of the source, of which Dst is in the image; of rows, of which Src is; of places; of the nest
	Items  int32            // of the nest
}

// SplitAxis is an axis of which bricks have Extent items, or what is left. From brick to
// brick are so many bytes.
type SplitAxis struct {
	Whole, Extent int32
	Dst, Src      int64
}

// NewBoxTiles plans a nest of a destination and a source, at addresses, in units of
// width bytes, in so much room. It answers false where bricks would be slower than the
// kernel that else does it, with the tiles t if it has any, or where no units are next to
// each other in one of the two.
func NewBoxTiles(width int64, dst, src uint64, n layout.Nest, room int64, instead Kernel, t *Tiles) (*Bricks, bool) {
	if len(n.Shape) < 2 {
		return nil, false
	}
	b := &boxTile{Nest: n, width: width, dst: int64(dst % sector), src: int64(src % sector), byDst: byStride(n.Strides[0]), bySrc: byStride(n.Strides[1])}
	if n.Strides[0][b.byDst[0]] != width || n.Strides[1][b.bySrc[0]] != width {
		return nil, false
	}
	r := rival{kernel: instead, Tiles: t, width: width, row: width * n.Shape[len(n.Shape)-1], fastest: n.Shape[b.bySrc[0]], room: room}
	if !r.beatable() {
		return nil, false // to plan takes as long as to copy a little
	}
	b.extents, b.image = make([]int64, len(n.Shape)), make([]int64, len(n.Shape))
	small, best := b.best(room)
	return best.Bricks, best.Bricks != nil && r.beaten(small, best)
}

// plan counts all that.
func (b *boxTile) plan() *Bricks {
	n, width := b.Nest, b.width
	p := &Bricks{
		ChunksA: 1, ChunksB: 1, A: SplitAxis{Whole: 1, Extent: 1}, B: SplitAxis{Whole: 1, Extent: 1},
		Row: int32(b.extents[b.byDst[0]]), Step: int32(b.image[b.byDst[0]]), Rows: int32(b.unitsA / b.extents[b.byDst[0]]),
		Image: int32(b.imageBytes()), Shared: int32(b.sharedBytes()), MostB: int32(b.runsB), MostRows: int32(b.rows),
		Items: int32(layout.Product(n.Shape)),
	}
	if b.cutA >= 0 {
		p.A, p.ChunksA = b.splitAxis(b.cutA)
	}
	if b.cutB >= 0 && b.cutB != b.cutA {
		p.B, p.ChunksB = b.splitAxis(b.cutB)
	}
	ofA, ofB := int64(p.A.Extent), int64(p.B.Extent)
	p.UnitsA, p.RunsA = int32(b.unitsA/ofA), int32(b.runsA/ofB)
	p.UnitsB, p.RunsB = int32(b.unitsB/ofB), int32(b.runsB/ofA)
	if b.cutB >= 0 && b.cutB == b.cutA {
		p.Same, p.UnitsB, p.RunsB = 1, int32(b.unitsB/ofA), int32(b.runsB)
	}
	word := max(width, storedWord)
	p.WordsA, p.WordsB = int32(roundUp(b.unitsA*width+sector-width, sector)/word), int32(roundUp(b.unitsB*width+sector-width, sector)/loadedWord)
	p.ByChunksA, p.ByChunksB = divide(int64(p.ChunksA)), divide(int64(p.ChunksB))
	p.ByRow, p.ByA, p.ByB = divide(int64(p.Row)), divide(int64(p.WordsA)), divide(int64(p.WordsB))
	if apart := word / width * int64(p.Step); apart%(bankBytes/4) == 0 {
		p.Spread = 1
	}
	p.Begin, p.End, _ = layout.Extent(width, 0, n.Shape, n.Strides[1])

	// Runs and rows are counted along the axis last that ends a run of the other operand.
	var runs, rows, places []int
	for _, k := range b.byDst {
		switch {
		case b.extents[k] > 1:
			if k != b.cutA && !slices.Contains(b.runB, k) {
				runs = append(runs, k)
			}
			if k != b.byDst[0] && (k != b.cutB || k == b.cutA) {
				rows = append(rows, k)
			}
		case k != b.cutA && k != b.cutB:
			places = append(places, k)
		}
	}
	if b.cutA >= 0 && b.cutA != b.cutB && b.extents[b.cutA] > 1 {
		runs = append(runs, b.cutA)
	}
	if b.cutB >= 0 && b.cutA != b.cutB && b.extents[b.cutB] > 1 {
		rows = append(rows, b.cutB)
	}
	if p.Square, p.InRows = b.squareWord(rows, p.A); p.Square > 0 {
		units := b.unitsA
		if p.InRows == 1 {
			units = int64(p.Row)
		}
		words := units * width / int64(p.Square)
		if !b.atSectors(p.InRows == 1) {
			ofSector := sector / int64(p.Square)
			p.Overlap, words = int32(ofSector-1), roundUp(words+ofSector-1, ofSector)
		}
		p.Words = int32(words)
		p.ByWord, p.ByRows = divide(words), divide(int64(p.Rows))
	}
	toImage := layout.Nest{Shape: b.extents, Strides: [][]int64{b.image, n.Strides[1]}}
	fromImage := layout.Nest{Shape: b.extents, Strides: [][]int64{n.Strides[0], b.image}}
	for i, list := range [][]Axis{axes(toImage, runs), axes(fromImage, rows), axes(n, places), axes(n, reversed(len(n.Shape)))} {
		p.Counts[i] = int32(copy(p.Axes[i][:], list))
	}
	return p
}

// Plan is the launch of the kernel, of which a block has so many threads that an H200's
// multiprocessor has about a thousand, however few blocks it has room for.
func (b *Bricks) Plan() Plan {
	threads := int64(512)
	switch {
	case b.Shared <= 56<<10:
		threads = 256
	case b.Shared <= 75<<10:
		threads = 384
	}
	return Plan{kernelBoxTiles, b.Blocks(), threads, int64(b.Shared), structBytes(b)}
}

// Blocks is how many blocks there are.
func (b *Bricks) Blocks() int64 {
	ofPlace := int64(b.UnitsA) * int64(b.A.Whole) * int64(b.RunsA) * int64(b.B.Whole)
	return int64(b.ChunksA) * int64(b.ChunksB) * (int64(b.Items) / ofPlace)
}

// RowAlign is what rows of the destination and of the source begin at multiples of,
// for a twin: see squares.
func (b *Bricks) RowAlign(_ Kernel, width int64) [2]int64 {
	word := max(width, int64(b.Square))
	return [2]int64{word, max(width, min(word, 4*width))}
}

// Nest is what is moved, for a twin.
func (b *Bricks) Nest() layout.Nest {
	return wrapAxes(newNest(), b.Axes[3][:b.Counts[3]], int64(b.Items))
}

const (
	maxBoxRuns = 1 << 10 // of the destination, and of the source
	maxBoxRows = 1 << 12
	storedWord = 8 // bytes that are written at once, where a unit has not more
	loadedWord = 16
	bankBytes  = 128 // a row of the banks of shared memory
)

// boxTile is what a brick has of a nest.
type boxTile struct {
	layout.Nest
	width, dst, src    int64   // bytes of a unit, and the low bits of addresses
	byDst, bySrc       []int   // axes, the fastest in either operand first
	extents, image     []int64 // along each axis, and from item to item in the image
	cutA, cutB         int     // the axes that end runs, or -1
	runA, runB         []int   // those that make them
	units              int64   // of a brick
	unitsA, unitsB     int64   // of runs
	span               int64   // bytes of the image
	runsA, runsB, rows int64
}

// setRuns makes runs of the destination and of the source so many bytes long, or longer,
// where there are so many.
func (b *boxTile) setRuns(lengthA, lengthB int64) {
	for k := range b.extents {
		b.extents[k], b.image[k] = 1, 0
	}
	b.cutA = b.extendRun(0, b.byDst, lengthA)
	b.cutB = b.extendRun(1, b.bySrc, lengthB)
	if b.cutA >= 0 && b.extents[b.cutA] == b.Shape[b.cutA] {
		b.cutA = -1
	}
	b.runA, b.unitsA = b.axesOfRun(0, b.byDst, b.cutA, b.runA[:0])
	b.runB, b.unitsB = b.axesOfRun(1, b.bySrc, b.cutB, b.runB[:0])

	// Runs of the source lie as they do there, others where words of neither meet.
	b.span, b.units = b.width*b.unitsB, 1
	for _, k := range b.runB {
		b.image[k] = b.Strides[1][k]
	}
	for _, k := range b.byDst {
		b.units *= b.extents[k]
		if b.extents[k] > 1 && !slices.Contains(b.runB, k) {
			step := b.span + 2*(loadedWord-1)
			b.image[k] = step + (b.Strides[1][k]-step)&(loadedWord-1)
			b.span += (b.extents[k] - 1) * b.image[k]
		}
	}
	b.runsA, b.runsB, b.rows = b.units/b.unitsA, b.units/b.unitsB, b.units/b.extents[b.byDst[0]]
}

// extendRun has a brick have more of an operand's axes, the fastest first, until its
// run there has so many bytes, whole sectors where an axis is cut. It answers the axis
// of which the brick has a part.
func (b *boxTile) extendRun(operand int, order []int, length int64) (cut int) {
	bytes := b.width
	for _, k := range order {
		if b.Strides[operand][k] != bytes || bytes >= length {
			break
		}
		whole := b.Shape[k]
		pieces := max(whole*bytes/length, 1)
		part := (whole-1)/pieces + 1
		switch unit := sector / min(bytes&-bytes, sector); {
		case bytes == b.width && part >= 4*unit:
			part = min(roundUp(part, unit), whole)
		case bytes > b.width && part >= unit && part < whole:
			part -= part % unit
		}
		b.extents[k] = max(b.extents[k], part)
		if b.extents[k] < whole {
			return k
		}
		bytes *= whole
	}
	return -1
}

// axesOfRun are the axes that make a run of an operand, and how many units it has.
func (b *boxTile) axesOfRun(operand int, order []int, cut int, run []int) ([]int, int64) {
	units := int64(1)
	for _, k := range order {
		if b.Strides[operand][k] != units*b.width || b.extents[k] == 1 || b.extents[k] < b.Shape[k] && k != cut {
			break
		}
		run = append(run, k)
		units *= b.extents[k]
		if k == cut {
			break
		}
	}
	return run, units
}

// imageBytes are those of the image, of which the first may be anywhere in a word.
func (b *boxTile) imageBytes() int64 { return roundUp(b.span+loadedWord-1, bankBytes) }

// sharedBytes is the room that the image and tables take: of 8 bytes for where a run is in
// its operand, and of 4 for where a run or a row is in the image.
func (b *boxTile) sharedBytes() int64 {
	return b.imageBytes() + 8*(b.runsA+b.runsB) + 4*(b.runsB+b.rows)
}

func (b *boxTile) fits(room int64) bool {
	return b.sharedBytes() <= room && b.runsA <= maxBoxRuns && b.runsB <= maxBoxRuns && b.rows <= maxBoxRows
}

func (b *boxTile) splitAxis(k int) (c SplitAxis, chunks int32) {
	extent := b.extents[k]
	return SplitAxis{int32(b.Shape[k]), int32(extent), extent * b.Strides[0][k], extent * b.Strides[1][k]}, int32((b.Shape[k]-1)/extent + 1)
}

// squareWord is how many bytes words have, the longest, in which squares of units are
// written that are whole lines both ways, see lines, and 0 where there are none. A line
// of the image has a unit of each of the runs side by side, where those are counted
// along the source's fastest axis first; or of rows within a run, if it has that axis.
// Rows of more than single bytes are whole sectors for that: stores of a square's words
// would else fill sectors in part.
func (b *boxTile) squareWord(rows []int, a SplitAxis) (word, within int32) {
	outer := slices.IndexFunc(rows, func(k int) bool { return !slices.Contains(b.runA, k) })
	units := []int64{b.unitsA, b.unitsA / int64(a.Extent) * int64(a.Whole%a.Extent)} // of runs, and the last
	switch {
	case outer >= 0 && rows[outer] == b.bySrc[0]:
	case outer != 0 && len(rows) > 0 && rows[0] == b.bySrc[0]:
		row := b.extents[b.byDst[0]]
		if b.width > 1 && b.width*row%sector != 0 {
			return 0, 0
		}
		within, units = 1, []int64{row}
	default:
		return 0, 0
	}
	for word := max(storedWord, min(4*b.width, loadedWord)); word >= storedWord/2 && word > b.width; word /= 2 {
		if b.wholeLines(word) && !slices.ContainsFunc(units, func(n int64) bool { return n*b.width%word != 0 }) {
			return int32(word), within
		}
	}
	return 0, 0
}

// wholeLines tells whether all that is written is whole words, and all that is read whole
// lines: those are words, but for units of a byte not more than four of them.
func (b *boxTile) wholeLines(word int64) bool {
	line := min(word, 4*b.width)
	side := line / b.width
	for _, k := range []int{b.byDst[0], b.bySrc[0]} {
		if b.extents[k]%side != 0 || b.Shape[k]%side != 0 {
			return false
		}
	}
	for k := range b.Shape {
		if b.Strides[0][k]%word != 0 && !slices.Contains(b.runA, k) || b.Strides[1][k]%line != 0 && k != b.bySrc[0] {
			return false
		}
	}
	return (b.dst|b.src)%word == 0
}

// atSectors tells whether squares are written at whole sectors.
func (b *boxTile) atSectors(within bool) bool {
	for k, step := range b.Strides[0] {
		if k == b.cutA {
			step *= b.extents[k]
		}
		if step%sector != 0 && (k == b.cutA || !slices.Contains(b.runA, k)) {
			return false
		}
	}
	return b.dst%sector == 0 && (!within || b.width*b.extents[b.byDst[0]]%sector == 0)
}
