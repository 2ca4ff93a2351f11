package stridedcopy

import (
	"slices"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// BoxTiles copies units through box tiles: boxes of the nest, staged in shared memory
// (the image). A box has as many of the fastest axes of both operands as make long runs
// of each, so that single axes may be short. In the image a run of the source keeps its
// alignment to words of 16 bytes, so that it is loaded in such words. The destination
// is gathered from the image.
type BoxTiles struct {
	Begin, End       int64     // of the source, in bytes from its first unit
	A, B             SplitAxis // the outermost axes of runs of the destination, and of the source
	ChunksA, ChunksB int32     // tiles along them
	Same             int32     // 1 if both are axis A; B then has one item
	UnitsA, UnitsB   int32     // units of a run per item of its outermost axis
	RunsA, RunsB     int32     // runs of the destination per item of B, and of the source per item of A
	Row, Step        int32     // units along the destination's fastest axis, and bytes between them in the image
	Rows             int32     // rows per run of the destination
	WordsA, WordsB   int32     // words that a run may touch
	Image, Shared    int32     // bytes of the image, and of the image with tables
	MostB, MostRows  int32     // most runs of the source, and rows, of a tile
	Spread           int32     // 1 if neighbouring threads would gather from the same banks
	Square, Words    int32     // bytes per word of squares, or 0; words that a run may touch
	InRows           int32     // 1 if a square consists of neighbouring rows of a run, not of runs; Words are then per row
	Overlap          int32     // lanes at the beginning of a warp that only read, as they overlap the previous warp; 0 if squares begin at sectors

	ByChunksA, ByChunksB            Divide
	ByRow, ByA, ByB, ByWord, ByRows Divide

	Counts [4]int32
	Axes   [4][MaxAxes]Axis // runs of the source (Dst in the image), rows (Src in the image), tiles, and the nest
	Items  int32            // units of the nest
}

// SplitAxis is an axis that is split across tiles: Extent items per tile, the rest in
// the last one. Dst and Src are the bytes from tile to tile.
type SplitAxis struct {
	Whole, Extent int32
	Dst, Src      int64
}

// plan computes the plan of a box tile.
func (b *boxTile) plan() *BoxTiles {
	n, width := b.Nest, b.width
	p := &BoxTiles{
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
	if step := word / width * int64(p.Step); step%(bankBytes/4) == 0 {
		p.Spread = 1
	}
	p.Begin, p.End, _ = layout.ByteBounds(width, 0, n.Shape, n.Strides[1])

	// The axis that ends a run of the other operand is counted last.
	var runs, rows, batch []int
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
			batch = append(batch, k)
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
	for i, list := range [][]Axis{axes(toImage, runs), axes(fromImage, rows), axes(n, batch), axes(n, reversed(len(n.Shape)))} {
		p.Counts[i] = int32(copy(p.Axes[i][:], list))
	}
	return p
}

// Plan returns the launch of the kernel. Threads per block are chosen so that a
// multiprocessor of an H200 has about a thousand, whatever the number of its blocks.
func (b *BoxTiles) Plan() Plan {
	threads := int64(512)
	switch {
	case b.Shared <= 56<<10:
		threads = 256
	case b.Shared <= 75<<10:
		threads = 384
	}
	return Plan{kernelBoxTiles, b.Blocks(), threads, int64(b.Shared), structBytes(b)}
}

// Blocks returns the number of blocks.
func (b *BoxTiles) Blocks() int64 {
	ofPlace := int64(b.UnitsA) * int64(b.A.Whole) * int64(b.RunsA) * int64(b.B.Whole)
	return int64(b.ChunksA) * int64(b.ChunksB) * (int64(b.Items) / ofPlace)
}

// RowAlign returns the alignment of rows in the destination and in the source, which
// the host implementation checks: see squareWord.
func (b *BoxTiles) RowAlign(_ Kernel, width int64) [2]int64 {
	word := max(width, int64(b.Square))
	return [2]int64{word, max(width, min(word, 4*width))}
}

// Nest returns the copied nest, for the host implementation.
func (b *BoxTiles) Nest() layout.Nest {
	return wrapAxes(newNest(), b.Axes[3][:b.Counts[3]], int64(b.Items))
}

const (
	maxBoxRuns = 1 << 10 // most runs of the destination, and of the source
	maxBoxRows = 1 << 12
	storedWord = 8 // bytes per store, unless a unit is larger
	loadedWord = 16
	bankBytes  = 128 // bytes of all banks of shared memory
)

// boxTile is a box of a nest.
type boxTile struct {
	layout.Nest
	width, dst, src    int64   // bytes per unit, and the low bits of addresses
	byDst, bySrc       []int   // axes, the fastest of each operand first
	extents, image     []int64 // items along each axis, and bytes between them in the image
	cutA, cutB         int     // the axes that are split, or -1
	runA, runB         []int   // the axes of runs
	units              int64   // per tile
	unitsA, unitsB     int64   // per run
	span               int64   // bytes of the image
	runsA, runsB, rows int64
}

// setRuns chooses a box whose runs of the destination and of the source have at least
// that many bytes, if the nest does.
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

	// Runs of the source keep their strides. Other axes are placed so that words of
	// neighbouring runs do not overlap.
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

// extendRun adds axes of an operand to the box, the fastest first, until its run has
// that many bytes, whole sectors if an axis is split. It returns the axis that is
// split, or -1.
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

// axesOfRun returns the axes of a run of an operand, and its number of units.
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

// imageBytes returns the size of the image, which may begin anywhere in a word.
func (b *boxTile) imageBytes() int64 { return roundUp(b.span+loadedWord-1, bankBytes) }

// sharedBytes returns the size of the image and of tables: 8 bytes for the offset of a
// run in its operand, 4 for the offset of a run or row in the image.
func (b *boxTile) sharedBytes() int64 {
	return b.imageBytes() + 8*(b.runsA+b.runsB) + 4*(b.runsB+b.rows)
}

func (b *boxTile) fits(limit int64) bool {
	return b.sharedBytes() <= limit && b.runsA <= maxBoxRuns && b.runsB <= maxBoxRuns && b.rows <= maxBoxRows
}

func (b *boxTile) splitAxis(k int) (c SplitAxis, chunks int32) {
	extent := b.extents[k]
	return SplitAxis{int32(b.Shape[k]), int32(extent), extent * b.Strides[0][k], extent * b.Strides[1][k]}, int32((b.Shape[k]-1)/extent + 1)
}

// squareWord returns the bytes of the longest words in which squares of units can be
// written, or 0: all lines of a square must be whole words, see wholeLines. If runs are
// counted along the source's fastest axis first, a line of the image has one unit of each
// of several neighbouring runs. If a run contains that axis, the line has one unit of each
// of several neighbouring rows. Then rows of units of more than 1 byte must be whole
// sectors, because stores of a square would otherwise write sectors in part.
func (b *boxTile) squareWord(rows []int, a SplitAxis) (word, within int32) {
	outer := slices.IndexFunc(rows, func(k int) bool { return !slices.Contains(b.runA, k) })
	units := []int64{b.unitsA, b.unitsA / int64(a.Extent) * int64(a.Whole%a.Extent)} // units of runs, and of the last one
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

// wholeLines reports whether everything that is written is whole words, and everything
// that is read whole lines. A line is a word, but at most four units unless those are
// bytes.
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

// atSectors reports whether squares are written at sector boundaries.
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
