package ndview

import (
	"math/bits"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu/reduce"
)

// floorLog2 returns the logarithm of n to base 2, rounded down, within [0, most].
func floorLog2(n int64, most int32) int32 {
	return min(max(int32(bits.Len64(uint64(max(n, 1))))-1, 0), most)
}

func ceilDiv(n, by int64) int64 { return (n + by - 1) / by }

// grid is a kernel and its grid of blocks.
type grid struct {
	kernel string
	blocks int64 // along the results
	splits int64 // of the elements of each result
}

// blocksPerMultiprocessor is the number of blocks per multiprocessor that a grid aims
// at: twice as many as run at once, so that a late block does not delay the kernel.
const blocksPerMultiprocessor = 16

// launchPlanner chooses the kernel of a reduction and adds to the plan of the loops what
// the kernel needs.
type launchPlanner struct {
	op        *reduceOp
	plan      reduce.Plan
	base, out uintptr // addresses of the first element and of the first result
	size      int64   // bytes per element
	blocks    int64   // at which the grid aims
}

// planLaunch returns the grid for a plan of loops, and the plan as the kernel takes it.
// base and out are the addresses of the first element and of the first result.
func planLaunch(op *reduceOp, loops *reduce.Plan, dev *cudabuf.Device, base, out uintptr, size int64) (grid, reduce.Plan) {
	l := launchPlanner{op: op, plan: *loops, base: base, out: out, size: size, blocks: int64(dev.Multiprocessors()) * blocksPerMultiprocessor}
	g := l.choose()
	return g, l.plan
}

// choose chooses a kernel. It splits the work by results, and if these make too few
// blocks, by the elements of each result too.
func (l *launchPlanner) choose() grid {
	p, kinds := &l.plan, reduceKernels[l.op.name]
	p.Folded = 1
	switch {
	case kinds.columns && l.isSlim():
		l.unsplit()
		return grid{"short_rows", ceilDiv(p.Outputs, slimRows(p.Length*l.size, l.op.out.Size())), 1}
	case kinds.columns && l.isTiles():
		return l.chooseTiles()
	case kinds.rows && p.Stride == l.size && p.Length >= 16:
		return l.chooseRows()
	}
	p.Vector = 1
	if kinds.columns && p.KeptAxes > 0 && p.Kept[0].In == l.size && p.Kept[0].Extent.By > 1 {
		if l.setFew() {
			return grid{"short_columns", ceilDiv(p.Items, launch.Threads), 1}
		}
		p.Vector = int32(columnBytes(l.size) / l.size)
		return l.chooseColumns("columns")
	}
	return l.chooseColumns("strided")
}

// chooseTiles plans short contiguous rows: a block copies a tile of them to shared
// memory.
func (l *launchPlanner) chooseTiles() grid {
	p := &l.plan
	p.PerSplit = tileBytes / (p.Length * l.size)
	p.Lanes = tileLanes(p.Length, l.size, p.PerSplit)
	p.PerSplit = p.PerSplit &^ (launch.Threads>>p.Lanes - 1)
	p.Part, p.Parts, p.AllParts = p.Length, reduce.NewDivisor(1), 1
	return grid{"tiled_rows", ceilDiv(p.Outputs, p.PerSplit), 1}
}

// chooseRows plans long rows, each for 2^Lanes threads.
func (l *launchPlanner) chooseRows() grid {
	p := &l.plan
	vectors := ceilDiv(p.Length*l.size, 16)
	p.Lanes = floorLog2(vectors/4, 8)
	if l.op.isOrdered { // merging the threads costs more
		p.Lanes = floorLog2(vectors/16, 8)
		for p.Lanes > 5 && ceilDiv(p.Outputs, launch.Threads>>(p.Lanes-1)) >= l.blocks {
			p.Lanes--
		}
	}
	g := grid{kernel: "rows", blocks: ceilDiv(p.Outputs, launch.Threads>>p.Lanes)}
	l.split(&g, 16*(launch.Threads*16/l.size)>>(8-p.Lanes))
	return g
}

// chooseColumns plans the other layouts: neighbouring threads reduce neighbouring
// results, in vectors if the kernel is columns.
func (l *launchPlanner) chooseColumns(kernel string) grid {
	p := &l.plan
	p.Items, p.Width = p.Outputs, 1
	if p.KeptAxes > 0 {
		l.setColumns()
	}
	perThread := 64 / (int64(p.Vector) * l.size)
	rows := p.Length / p.Folded
	down := floorLog2(rows/perThread, 3) // log2 of the threads along the elements of a result
	for down > 0 && ceilDiv(p.Items, launch.Threads>>(down-1)) >= l.blocks {
		down--
	}
	if across := int32(bits.Len64(uint64(p.Items - 1))); across < 8-down {
		down = min(8-across, floorLog2(rows, 8))
	}
	if p.Folded > 1 { // all columns are in one block
		down = 8 - int32(bits.Len64(uint64(p.Items-1)))
	}
	p.Lanes = 8 - down
	g := grid{kernel: kernel, blocks: ceilDiv(p.Items, 1<<p.Lanes)}
	l.split(&g, 4*perThread*p.Folded<<down)
	return g
}

// columnBytes returns the bytes of a vector of columns, for elements of size bytes.
func columnBytes(size int64) int64 {
	if size <= 2 {
		return 8
	}
	return 16
}

// maxFewLength is the maximum length of columns that the kernel few reduces with one
// thread per vector. It counts that many elements in bytes.
const maxFewLength = 64

// setFew plans for the kernel few if it suits: for columns that are short enough and
// make enough blocks, or too short to share among threads.
func (l *launchPlanner) setFew() bool {
	if l.plan.RunAxes > 0 || l.plan.Length > maxFewLength {
		return false
	}
	few := *l
	few.plan.Vector = int32(16 / l.size)
	few.setColumns()
	if p := &few.plan; p.Aligned == 0 || p.Dense == 0 || p.Length >= 8 && ceilDiv(p.Items, launch.Threads) < l.blocks {
		return false
	}
	few.unsplit()
	l.plan = few.plan
	return true
}

// setColumns plans vectors of results along the innermost axis. Several short contiguous
// rows count as one, as wide as a warp.
func (l *launchPlanner) setColumns() {
	p := &l.plan
	axis, vector := &p.Kept[0], int64(p.Vector)
	p.Width = axis.Extent.By
	rows := vector / gcd(vector, p.Width) // that are whole vectors
	rows *= max(32*vector/(p.Width*rows), 1)
	if vector > 1 && p.KeptAxes == 1 && p.RunAxes == 0 && p.Stride == p.Width*l.size && p.Width <= launch.Threads/2 &&
		p.Width*rows <= launch.Threads*vector && p.Length >= 4*rows {
		p.Folded = rows
		p.Width *= rows
	}
	axis.In *= vector
	axis.Out *= vector
	vectors := ceilDiv(p.Width, vector)
	if p.KeptAxes > 1 && vectors < 32 {
		vectors = 1 << bits.Len64(uint64(vectors-1))
	}
	axis.Extent = reduce.NewDivisor(vectors)
	p.Items = p.Outputs * p.Folded / p.Width * vectors
	if vector > 1 && p.Width%vector == 0 {
		p.Aligned = boolToInt(l.hasAlignedVectors())
		p.Dense = boolToInt(p.Folded == 1 && l.hasDenseVectorsOut())
	}
}

// isSlim reports whether rows of 2 or 4 elements and their results are contiguous and
// aligned vectors.
func (l *launchPlanner) isSlim() bool {
	p := &l.plan
	row := p.Length * l.size
	return p.KeptAxes == 1 && p.RunAxes == 0 && (p.Length == 2 || p.Length == 4) && p.Stride == l.size &&
		p.Kept[0].In == row && p.Outputs*row%16 == 0 && l.base%16 == 0 && l.out%16 == 0 && l.hasDenseOut()
}

// slimRows returns the rows that a block of the kernel slim reduces. row and out are the
// bytes of a row and of a result. A thread reduces a unit, which is a vector of rows or
// of results, or up to four if results are smaller than rows.
func slimRows(row, out int64) int64 {
	unit := min(max(16/row, 1), 16/out)
	if out >= row {
		return unit * launch.Threads
	}
	return unit * launch.Threads * min(max(64/(unit*row), 1), 4)
}

// tileBytes is the shared memory of a block of the kernel tiles.
const tileBytes = 16 << 10

// isTiles reports whether rows are contiguous and short.
func (l *launchPlanner) isTiles() bool {
	p := &l.plan
	row := p.Length * l.size
	return p.KeptAxes == 1 && p.RunAxes == 0 && p.Length > 1 && row <= 512 && p.Stride == l.size && p.Kept[0].In == row
}

// tileLanes returns the log2 of the threads per row: enough that the rows of a tile
// occupy the block, and that the threads of a warp read from different banks.
func tileLanes(length, size, rows int64) int32 {
	lanes := int32(0)
	for int64(launch.Threads)>>lanes > rows {
		lanes++
	}
	banks := bits.TrailingZeros64(uint64(max(length*size/4, 1)))
	return min(max(lanes, int32(banks)-1), floorLog2(length, 5))
}

// unsplit leaves the elements of each result in one part.
func (l *launchPlanner) unsplit() {
	p := &l.plan
	p.Part, p.Parts, p.AllParts, p.PerSplit = p.Length, reduce.NewDivisor(1), 1, 1
}

// split splits the elements of each result into parts of at least atLeast elements, as
// many as the grid needs to have enough blocks.
func (l *launchPlanner) split(g *grid, atLeast int64) {
	p := &l.plan
	splits := ceilDiv(l.blocks, g.blocks)
	// Vectors of columns are faster in half as many blocks, which leave fewer
	// accumulators, unless a round of blocks would be nearly empty.
	if half := l.blocks / 2 / g.blocks; p.Vector > 1 && half >= 8 {
		splits = half
	}
	runs := int64(1)
	for _, axis := range p.Run[:p.RunAxes] {
		runs *= axis.Extent.By
	}
	splits = max(min(splits, p.Length*runs/max(atLeast, 1), 1<<15), 1)
	p.Part, p.Parts = max(p.Length, 1), reduce.NewDivisor(1)
	if splits > runs {
		p.Part = ceilDiv(ceilDiv(p.Length, ceilDiv(splits, runs)), atLeast) * atLeast
		p.Parts = reduce.NewDivisor(ceilDiv(p.Length, p.Part))
	}
	p.AllParts = runs * p.Parts.By
	p.PerSplit = ceilDiv(p.AllParts, splits)
	g.splits = max(ceilDiv(p.AllParts, max(p.PerSplit, 1)), 1)
}

// hasAlignedVectors reports whether all vectors of columns begin at multiples of their
// size.
func (l *launchPlanner) hasAlignedVectors() bool {
	p := &l.plan
	steps := uint64(l.base) | uint64(p.Stride*p.Folded)
	for _, axis := range p.Kept[1:p.KeptAxes] {
		steps |= uint64(axis.In)
	}
	for _, axis := range p.Run[:p.RunAxes] {
		steps |= uint64(axis.In)
	}
	return steps%uint64(int64(p.Vector)*l.size) == 0
}

// hasDenseVectorsOut reports whether the results of a vector of columns can be written
// at once.
func (l *launchPlanner) hasDenseVectorsOut() bool {
	p := &l.plan
	if !l.hasDenseOut() {
		return false
	}
	all := uint64(l.out)
	for _, axis := range p.Kept[:p.KeptAxes] {
		all |= uint64(axis.Out)
	}
	return all%uint64(min(16, l.op.out.Size()*int64(p.Vector))) == 0
}

// hasDenseOut reports whether results are contiguous and of the kernel's type.
func (l *launchPlanner) hasDenseOut() bool {
	isTruth := l.op.out == Bool && l.op.finish == "count"
	return l.op.writesOut && !isTruth && l.plan.Kept[0].Out == l.op.out.Size()*max(int64(l.plan.Vector), 1)
}

func boolToInt(b bool) int32 {
	if b {
		return 1
	}
	return 0
}
