package stridedcopy

import "github.com/quiver-gpu/quiver/ndview/internal/layout"

// New plans the copy of a nest in units of width bytes, with the kernel that is expected
// to be the fastest. dst and src are the addresses of the first units of the destination
// and the source. memory is the shared memory that a block may use, in bytes.
func New(width int64, dst, src uint64, n layout.Nest, memory int64) Plan {
	return choose(width, dst, src, n, memory, nil)
}

// Candidates returns the plan of each kernel that can copy a nest. The first plan is that
// of New. Each other one is what New would choose without the kernels before it. Box
// tiles are the last, if they are possible and were not chosen. BenchmarkCopyKernels of
// package ndview measures the candidates.
func Candidates(width int64, dst, src uint64, n layout.Nest, memory int64) []Plan {
	var plans []Plan
	without := map[Kernel]bool{}
	for {
		p := choose(width, dst, src, n, memory, without)
		if without[p.Kernel] { // rows copy any nest
			break
		}
		without[p.Kernel] = true
		plans = append(plans, p)
	}
	if limit := BoxTileMemory(width*layout.Product(n.Shape), memory); !without[kernelBoxTiles] {
		if b, ok := newBoxTiles(width, dst, src, n, limit, func(int64) bool { return true }); ok {
			plans = append(plans, b.Plan())
		}
	}
	return plans
}

// choose is New without some kernels.
func choose(width int64, dst, src uint64, n layout.Nest, memory int64, without map[Kernel]bool) Plan {
	if i, kernel, ok := NewInterleave(width, n); ok && !without[kernel] {
		return i.Plan(kernel)
	}
	t, kernel, tiled := newTiles(width, dst, src, n, memory, without)
	var r *Rows
	if !tiled {
		r, kernel = newRows(width, n, without)
	}
	limit := BoxTileMemory(width*layout.Product(n.Shape), memory)
	if b, ok := NewBoxTiles(width, dst, src, n, limit, kernel, t); ok && !without[kernelBoxTiles] {
		return b.Plan()
	}
	if tiled {
		return t.Plan(kernel)
	}
	return r.Plan(kernel, width)
}

// boxTileRule is the condition under which box tiles replace a kernel: the shorter of
// their runs, divided by the square of the share of the kernel's tiles that is filled, has
// at least minRun bytes. maxRow limits the bytes of the destination's rows, if it is not 0.
type boxTileRule struct{ minRun, maxRow int64 }

// boxTileRules are by kernel and bytes per unit; box tiles never replace a kernel that is
// not listed. They fit the measurements of an H200 in
// bench/results/*-h200-copykernels.json (.gpu/run.sh bench-copykernels), and
//
//	QUIVER_FIT=1 go test ./ndview/internal/stridedcopy -run TestBoxTileRules -v
//
// prints the rules that fit best. Rules of rows are not fitted, except for vector rows.
var boxTileRules = map[Kernel]map[int64]boxTileRule{
	kernelNarrowTiles:     {1: {}, 2: {}, 4: {}, 8: {}, 16: {}},
	kernelMatrixTiles:     {4: {minRun: 10 << 10}, 8: {minRun: 7 << 10}},
	kernelMatrixByteTiles: {2: {minRun: 31 << 10}},
	kernelRunTiles:        {1: {minRun: 1200}, 2: {minRun: 1300}},
	kernelShortRunTiles:   {1: {minRun: 1200}, 2: {minRun: 1300}},
	kernelSectorTiles:     {16: {minRun: 2 << 10}},
	kernelTiles:           {8: {minRun: 32 << 10}, 16: {minRun: 16 << 10}},
	kernelWordTiles:       {1: {minRun: 850}},
	kernelVectorRows:      {1: {minRun: shortRun}, 2: {minRun: shortRun}, 4: {minRun: shortRun, maxRow: 1 << 10}},
	kernelWordRows:        {1: {minRun: shortRun}, 2: {minRun: shortRun}},
	kernelRows:            {1: {minRun: shortRun, maxRow: 128}, 2: {minRun: shortRun, maxRow: 128}, 4: {minRun: shortRun, maxRow: 128}, 8: {minRun: shortRun, maxRow: 128}, 16: {minRun: shortRun, maxRow: 128}},
}

// NewBoxTiles plans a nest in units of width bytes with at most limit bytes of shared
// memory. dst and src are addresses. The alternative is the kernel instead, with tiles t
// if it has any. NewBoxTiles returns false if that kernel is expected to be faster, or if
// no units are contiguous in one of the operands.
func NewBoxTiles(width int64, dst, src uint64, n layout.Nest, limit int64, instead Kernel, t *Tiles) (*BoxTiles, bool) {
	rule, ok := boxTileRules[instead][width]
	if !ok || len(n.Shape) < 2 || rule.maxRow > 0 && width*n.Shape[len(n.Shape)-1] >= rule.maxRow {
		return nil, false // planning takes as long as a small copy
	}
	filled := t.filled(instead, width)
	return newBoxTiles(width, dst, src, n, limit, func(run int64) bool { return float64(run) >= float64(rule.minRun)*filled*filled })
}

// newBoxTiles plans box tiles if wanted accepts the bytes of the shorter of their runs.
func newBoxTiles(width int64, dst, src uint64, n layout.Nest, limit int64, wanted func(run int64) bool) (*BoxTiles, bool) {
	if len(n.Shape) < 2 {
		return nil, false
	}
	b := &boxTile{Nest: n, width: width, dst: int64(dst % sector), src: int64(src % sector), byDst: byStride(n.Strides[0]), bySrc: byStride(n.Strides[1])}
	if n.Strides[0][b.byDst[0]] != width || n.Strides[1][b.bySrc[0]] != width {
		return nil, false
	}
	b.extents, b.image = make([]int64, len(n.Shape)), make([]int64, len(n.Shape))
	best := b.best(limit)
	return best.BoxTiles, best.BoxTiles != nil && wanted(best.run())
}

// filled returns the share of a kernel's tiles that has items, as if all tiles had the
// kernel's full size. It is 1 for kernels whose tiles adapt to the nest, and without tiles.
func (t *Tiles) filled(kernel Kernel, width int64) float64 {
	size, ok := tileSizes[kernel][width]
	if t == nil || !ok {
		return 1
	}
	share := func(items int32, side int64) float64 { return float64(items) / float64(roundUp(int64(items), side)) }
	return share(t.ItemsA, size.a) * share(t.ItemsB, size.b)
}

// Shared memory of box tiles, in bytes. More memory makes longer runs, but leaves fewer
// blocks per multiprocessor.
const (
	smallBoxMemory = 46 << 10  // four blocks of an H200's multiprocessor
	largeBoxMemory = 110 << 10 // two blocks; it pays if runs are shorter than enoughRun otherwise
	unitBoxMemory  = 256 << 10 // per byte of the unit: less is enough for units of 8 and 16 bytes with longRun runs
	enoughRun      = 512
	longRun        = 4 << 10
)

// BoxTileMemory returns the shared memory that a box tile may use to copy n bytes. memory
// is what a block may use. Small copies use little, so that they have many tiles.
func BoxTileMemory(n, memory int64) int64 {
	return max(min(max(n/512, 4<<10), smallBoxMemory), min(n/2048, halfMemory(memory), largeBoxMemory))
}

// boxTilePlan is a plan of box tiles with the bytes of their runs.
type boxTilePlan struct {
	*BoxTiles
	runA, runB int64
}

func (p boxTilePlan) run() int64 { return min(p.runA, p.runB) }

// best returns the plan with the amount of memory that is expected to be the fastest.
func (b *boxTile) best(limit int64) boxTilePlan {
	most := min(limit, smallBoxMemory)
	small := b.fill(min(most, unitBoxMemory/b.width))
	if unitBoxMemory/b.width < most && small.run() < longRun {
		small = b.fill(most)
	}
	if limit <= smallBoxMemory || small.run() >= enoughRun || small.longEnough(b.width) {
		return small
	}
	// For single bytes only squares are fast enough to gain.
	if large := b.fill(limit); large.BoxTiles != nil && (large.Square > 0 || b.width > 1) {
		return large
	}
	return small
}

// longEnough reports whether longer runs of small units would not pay.
func (p boxTilePlan) longEnough(width int64) bool {
	if p.BoxTiles == nil {
		return false
	}
	wide := width <= 2 && p.runA >= longRun && p.Square != storedWord/2
	return wide || width == 2 && p.Square == storedWord && p.Overlap == 0 && p.run() >= 256
}

// fill plans the longest runs that fit limit bytes of shared memory. It returns no plan if
// not even a sector fits.
func (b *boxTile) fill(limit int64) boxTilePlan {
	for length := min(32<<10, b.width*layout.Product(b.Shape)); length >= sector; length = length * 3 / 4 {
		if b.setRuns(2*length, length); !b.fits(limit) {
			b.setRuns(length, length)
		}
		if b.fits(limit) {
			return boxTilePlan{b.plan(), b.width * b.unitsA, b.width * b.unitsB}
		}
	}
	return boxTilePlan{}
}
