package ndview

import (
	"math/bits"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu/reduce"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
)

// lanesOf is the log2 of the largest power of 2 that is at most n, within [0, most].
func lanesOf(n int64, most int32) int32 {
	return min(max(int32(bits.Len64(uint64(max(n, 1))))-1, 0), most)
}

func ceilDiv(n, by int64) int64 { return (n + by - 1) / by }

// geometry is how a plan is laid over a grid.
type geometry struct {
	kernel string
	blocks int64 // along the results
	splits int64 // of the steps of each
}

// blocksPerMultiprocessor is how many blocks a grid has for each, where it can:
// twice as many as run at once, so that a late one does not hold up the rest.
const blocksPerMultiprocessor = 16

// lay chooses a kernel and cuts the work: results first, and if that makes too
// few blocks, their steps too. base is the address of the array's first element.
func (w *reducing) lay(p *reduce.Plan, dev *cudabuf.Device, base, out uintptr, size int64) geometry {
	wanted := int64(dev.Multiprocessors()) * blocksPerMultiprocessor
	kinds := reduceKernels[w.op.name]
	runs := ceilDiv(p.Length*size, 16)
	var g geometry
	var atLeast int64 // steps that a block should have
	p.Folded = 1
	switch {
	case kinds.columns && w.isSlim(p, size, base, out):
		g.kernel = "short_rows"
		unsplit(p)
		g.blocks, g.splits = ceilDiv(p.Outputs, slimRows(p.Length*size, w.op.out.Size())), 1
		return g
	case kinds.columns && isTiles(p, size):
		g.kernel = "tiled_rows"
		p.PerSplit = tileBytes / (p.Length * size)
		p.Lanes = tileLanes(p.Length, size, p.PerSplit)
		p.PerSplit = p.PerSplit &^ (launch.Threads>>p.Lanes - 1)
		p.Part, p.Parts, p.AllParts = p.Length, reduce.NewDivisor(1), 1
		g.blocks, g.splits = ceilDiv(p.Outputs, p.PerSplit), 1
		return g
	case kinds.rows && p.Stride == size && p.Length >= 16:
		g.kernel = "rows"
		p.Lanes = lanesOf(runs/4, 8)
		if w.op.numbered { // whose threads merge at a greater cost
			p.Lanes = lanesOf(runs/16, 8)
			for p.Lanes > 5 && ceilDiv(p.Outputs, launch.Threads>>(p.Lanes-1)) >= wanted {
				p.Lanes--
			}
		}
		g.blocks = ceilDiv(p.Outputs, launch.Threads>>p.Lanes)
		atLeast = 16 * (launch.Threads * 16 / size) >> (8 - p.Lanes)
	default:
		g.kernel, p.Vector = "strided", 1
		if kinds.columns && p.KeptAxes > 0 && p.Kept[0].In == size && p.Kept[0].Extent.By > 1 {
			if w.layFew(p, base, out, size, wanted) {
				return geometry{"short_columns", ceilDiv(p.Items, launch.Threads), 1}
			}
			g.kernel, p.Vector = "columns", int32(columnBytes(size)/size)
		}
		p.Items, p.Width = p.Outputs, 1
		if p.KeptAxes > 0 {
			w.layColumns(p, base, out, size)
		}
		perThread := 64 / (int64(p.Vector) * size)
		rows := p.Length / p.Folded
		down := lanesOf(rows/perThread, 3) // log2 of threads along the steps
		for down > 0 && ceilDiv(p.Items, launch.Threads>>(down-1)) >= wanted {
			down--
		}
		if across := int32(bits.Len64(uint64(p.Items - 1))); across < 8-down {
			down = min(8-across, lanesOf(rows, 8))
		}
		if p.Folded > 1 { // all columns are in one block
			down = 8 - int32(bits.Len64(uint64(p.Items-1)))
		}
		p.Lanes = 8 - down
		g.blocks = ceilDiv(p.Items, 1<<p.Lanes)
		atLeast = 4 * perThread * p.Folded << down
	}
	splits := ceilDiv(wanted, g.blocks)
	// Columns in vectors are faster in half as many blocks, which leave fewer
	// accumulators, if that makes no round of them nearly empty.
	if half := wanted / 2 / g.blocks; p.Vector > 1 && half >= 8 {
		splits = half
	}
	w.split(p, &g, splits, atLeast)
	return g
}

// columnBytes are those of a vector of columns, of elements of size bytes.
func columnBytes(size int64) int64 {
	if size <= 2 {
		return 8
	}
	return 16
}

// fewSteps is how many steps columns have at most that are done by one thread for
// each vector. It can count as many in bytes.
const fewSteps = 64

// layFew lays results in vectors for the few kernel, and tells whether it will do: for
// columns of few steps that make enough blocks, or that are too short to share.
func (w *reducing) layFew(p *reduce.Plan, base, out uintptr, size, wanted int64) bool {
	if p.RunAxes > 0 || p.Length > fewSteps {
		return false
	}
	few := *p
	few.Vector = int32(16 / size)
	w.layColumns(&few, base, out, size)
	if few.Aligned == 0 || few.Dense == 0 || p.Length >= 8 && ceilDiv(few.Items, launch.Threads) < wanted {
		return false
	}
	unsplit(&few)
	*p = few
	return true
}

// layColumns lays results along the innermost axis in vectors. Of short rows without
// gaps several are taken as one, as wide as a warp.
func (w *reducing) layColumns(p *reduce.Plan, base, out uintptr, size int64) {
	axis, vector := &p.Kept[0], int64(p.Vector)
	p.Width = axis.Extent.By
	together := vector / gcd(vector, p.Width) // rows that are whole vectors
	together *= max(32*vector/(p.Width*together), 1)
	if vector > 1 && p.KeptAxes == 1 && p.RunAxes == 0 && p.Stride == p.Width*size && p.Width <= launch.Threads/2 &&
		p.Width*together <= launch.Threads*vector && p.Length >= 4*together {
		p.Folded = together
		p.Width *= together
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
		p.Aligned = boolToInt(isAligned(p, base, vector*size))
		p.Dense = boolToInt(p.Folded == 1 && w.denseOut(p, out))
	}
}

// isSlim tells whether rows of few elements lie without gaps, whole vectors of them,
// and their results too.
func (w *reducing) isSlim(p *reduce.Plan, size int64, base, out uintptr) bool {
	row := p.Length * size
	return p.KeptAxes == 1 && p.RunAxes == 0 && (p.Length == 2 || p.Length == 4) && p.Stride == size &&
		p.Kept[0].In == row && p.Outputs*row%16 == 0 && base%16 == 0 && out%16 == 0 && w.isDense(p)
}

// slimRows is how many rows a block of slim does, of so many bytes, with results of
// so many: as units of a vector, or of a vector of results. A thread does one where
// results are as large, else several.
func slimRows(row, out int64) int64 {
	unit := min(max(16/row, 1), 16/out)
	if out >= row {
		return unit * launch.Threads
	}
	return unit * launch.Threads * min(max(64/(unit*row), 1), 4)
}

// tileBytes is what a block of a tiles kernel copies to shared memory.
const tileBytes = 16 << 10

// isTiles tells whether rows lie without gaps and are short.
func isTiles(p *reduce.Plan, size int64) bool {
	row := p.Length * size
	return p.KeptAxes == 1 && p.RunAxes == 0 && p.Length > 1 && row <= 512 && p.Stride == size && p.Kept[0].In == row
}

// tileLanes is the log2 of the threads for a row: enough that a tile's rows keep
// the block busy, and that the threads of a warp read from different banks.
func tileLanes(length, size, rows int64) int32 {
	lanes := int32(0)
	for int64(launch.Threads)>>lanes > rows {
		lanes++
	}
	banks := bits.TrailingZeros64(uint64(max(length*size/4, 1)))
	return min(max(lanes, int32(banks)-1), lanesOf(length, 5))
}

// unsplit leaves the steps of each result together.
func unsplit(p *reduce.Plan) {
	p.Part, p.Parts, p.AllParts, p.PerSplit = p.Length, reduce.NewDivisor(1), 1, 1
}

// split cuts the steps of each result into so many parts, of at least so many
// steps, where that is more than one.
func (w *reducing) split(p *reduce.Plan, g *geometry, splits, atLeast int64) {
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

// isAligned tells whether all vectors of columns begin at multiples of their size.
func isAligned(p *reduce.Plan, base uintptr, size int64) bool {
	steps := uint64(base) | uint64(p.Stride*p.Folded)
	for _, axis := range p.Kept[1:p.KeptAxes] {
		steps |= uint64(axis.In)
	}
	for _, axis := range p.Run[:p.RunAxes] {
		steps |= uint64(axis.In)
	}
	return steps%uint64(size) == 0
}

// denseOut tells whether results of neighbouring columns can be written at once.
func (w *reducing) denseOut(p *reduce.Plan, out uintptr) bool {
	size, vector := w.op.out.Size(), int64(p.Vector)
	if !w.isDense(p) {
		return false
	}
	all := uint64(out)
	for _, axis := range p.Kept[:p.KeptAxes] {
		all |= uint64(axis.Out)
	}
	return all%uint64(min(16, size*vector)) == 0
}

// isDense tells whether results are of the kernel's type and follow each other.
func (w *reducing) isDense(p *reduce.Plan) bool {
	isTruth := w.op.out == Bool && w.op.finish == "count"
	return w.op.plain && !isTruth && p.Kept[0].Out == w.op.out.Size()*max(int64(p.Vector), 1)
}

func boolToInt(b bool) int32 {
	if b {
		return 1
	}
	return 0
}
