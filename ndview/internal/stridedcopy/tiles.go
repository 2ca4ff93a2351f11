package stridedcopy

import (
	"math/bits"

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
	// Halo is not 0 where A is a gapless run of the destination, in which rows begin
	// anywhere, and the kernel moves each row's cuts back to a whole sector, by up to
	// so many items. It is for the choice of groups alone: kernels know it.
	Halo                 int32
	LogA, LogB           int32  // a slim tile's tileSize, as logarithms
	BatchItems           int32  // of the batch
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

// tileSize is how many items the tiles of a kernel have along A and B.
type tileSize struct{ a, b int64 }

var tileSizes = map[Kernel]map[int64]tileSize{
	kernelTiles:       {4: {64, 64}, 8: {64, 32}, 16: {32, 32}},
	kernelSectorTiles: {4: {128, 64}, 8: {128, 32}, 16: {64, 32}},
	kernelWordTiles:   {1: {128, 256}, 2: {128, 128}},
	kernelRunTiles:    {1: {256, 256}, 2: {256, 128}, 4: {128, 64}}, kernelShortRunTiles: {1: {128, 256}, 2: {128, 128}},
}

// NewTiles plans a nest of a destination and a source in units of width bytes,
// and names the kernel, for a GPU of which a block may have so much shared memory. It
// answers false where both have one fastest axis, or the source repeats one value along
// the destination's.
func NewTiles(width int64, dst, src uint64, n layout.Nest, memory int64) (t *Tiles, kernel Kernel, ok bool) {
	s, ok := findSides(width, n)
	if !ok {
		return nil, "", false
	}
	t = s.tiles(width)
	dst, src = s.rowStarts(dst, src)
	small, wholeRuns := width < 4, s.runA && s.runB
	words := small && t.fitsWords(width, dst, src)
	if !words && dst%sector != 0 && wholeRuns && s.contiguous {
		if kernel, ok := t.planMatrixTiles(width, tileMemory(memory)); ok {
			return t, kernel, true
		}
	}
	switch {
	case words:
		kernel = kernelWordTiles
	case small:
		kernel = kernelRunTiles
	default:
		kernel = kernelTiles
	}
	if t.hasShortSide(kernel, width) || small && !wholeRuns {
		t.planNarrowTiles(width)
		return t, kernelNarrowTiles, true
	}
	of := tileSizes[kernel][width]
	if kernel == kernelTiles && s.runA && dst%sector != 0 && int64(t.ItemsA) > of.a {
		kernel, of = kernelSectorTiles, tileSizes[kernelSectorTiles][width]
		if width == 4 && s.runB {
			kernel = kernelRunTiles
		}
	}
	if kernel == kernelRunTiles {
		kernel, of = t.planRunTiles(width, tileMemory(memory))
	}
	t.setSides(of)
	if kernel != kernelTiles && kernel != kernelWordTiles {
		t.Halo = int32(sector/width) - 1
	}
	t.group(width, s.contiguous)
	return t, kernel, true
}

// hasShortSide tells whether a side fills so little of a kernel's tiles that slim ones
// are faster.
func (t *Tiles) hasShortSide(kernel Kernel, width int64) bool {
	of := tileSizes[kernel][width]
	fewB := of.b / 2
	switch {
	case width == 16:
		fewB = of.b / 3 // since half a row of such units is whole sectors still
	case kernel == kernelRunTiles:
		fewB = of.b / 4 // of which a quarter is faster than slim tiles still
	}
	return int64(t.ItemsA) < of.a/3 || int64(t.ItemsB) <= fewB
}

// fitsWords tells whether units are moved in whole words of 8 bytes: where these lie in
// whole sectors too, or all of A fits a tile. Runs are faster else.
func (t *Tiles) fitsWords(width int64, dst, src uint64) bool {
	if (dst|src|uint64(width)*uint64(t.ItemsA)|uint64(width)*uint64(t.ItemsB))%8 != 0 {
		return false
	}
	most := int32(tileSizes[kernelWordTiles][width].a)
	return (dst|src)%sector == 0 || t.ItemsA >= most/3 && t.ItemsA <= most
}

const (
	groupTiles = 16      // tiles along A that make one
	cacheBytes = 8 << 20 // bytes of a GPU's cache that surely hold what was read last
)

// group makes groups of tiles where rows of the source are short, so that what
// is near in it is read at about one time. It is so anyway where A has few bytes
// for each of a tile's items of B; and where these follow A in the destination,
// all that is then written at about one time is one run.
func (t *Tiles) group(width int64, follow bool) {
	a, b := width*int64(t.ItemsA), width*int64(t.ItemsB)
	shortRows := b <= 32<<10 && !(follow && a*int64(t.ItemsB)/int64(t.ChunksB) <= cacheBytes)
	if t.Halo == 0 { // tiles whose rows are whole sectors lose less
		shortRows = b < 4<<10 && a >= 512<<10
	}
	if shortRows && t.ChunksA > groupTiles && t.ChunksB > 1 {
		t.Group = groupTiles
	}
}

// setSides counts the tiles.
func (t *Tiles) setSides(s tileSize) {
	t.ChunksA = int32((int64(t.ItemsA)-1)/s.a + 1)
	t.ChunksB = int32((int64(t.ItemsB)-1)/s.b + 1)
	t.ByChunksA, t.ByChunksB = divide(int64(t.ChunksA)), divide(int64(t.ChunksB))
}

// Blocks is how many blocks there are.
func (t *Tiles) Blocks() int64 {
	return int64(t.ChunksA) * int64(t.ChunksB) * int64(t.BatchItems)
}

// Plan is the launch of a kernel that has these tiles.
func (t *Tiles) Plan(kernel Kernel) Plan {
	threads := int64(256)
	if kernel == kernelRunTiles || kernel == kernelShortRunTiles {
		threads = 384
	}
	return Plan{kernel, t.Blocks(), threads, int64(t.Shared), structBytes(t)}
}

// RowAlign is what rows of the destination and of the source begin at multiples of,
// for a twin.
func (t *Tiles) RowAlign(kernel Kernel, width int64) [2]int64 {
	if kernel == kernelWordTiles {
		return [2]int64{8, 8}
	}
	return [2]int64{width, width}
}

// Nest is what is moved, for a twin.
func (t *Tiles) Nest() layout.Nest {
	a, b := t.Axes[:t.AxesA], t.Axes[t.AxesA:][:t.AxesB]
	n := wrapAxes(newNest(), a, int64(t.ItemsA))
	n = wrapAxes(n, b, int64(t.ItemsB))
	return wrapAxes(n, t.Axes[t.AxesA+t.AxesB:][:t.Batch], int64(t.BatchItems))
}

// Tiles of units of 1, 2 and 4 bytes whose rows begin anywhere: see kernels/runs.cu, and
// kernels/odd.cu for matrices of which isOdd tells.

const (
	rowBytes      = 256      // bytes of a row of the source that a tile of runs or of lines has
	readBeyond    = 192      // bytes behind a tile that threads may read which write nothing
	minTiles      = 96       // tiles, fewer of which leave many multiprocessors of a large GPU idle
	maxMatrixRow  = 256      // bytes of a row of matrices, so that it takes no more room than turned rows of a run
	vectorBytes   = 16       // bytes that odd lines are written in
	byteTileBytes = 44 << 10 // bytes of an image of those, beside which tables need room
)

// tileMemory is how much shared memory a tile may take of what a block may have: so much
// that there are two on a multiprocessor, or what any GPU gives a block unasked.
func tileMemory(memory int64) int64 { return max(halfMemory(memory), 48<<10) }

// halfMemory is what each of two blocks that are on a multiprocessor at a time may have, of
// what one may have.
func halfMemory(memory int64) int64 { return memory/2 - 1<<10 }

// planRunTiles plans tiles of up to 256 items of A, of which two are cut evenly, or of half as
// many: of units of 4 bytes, always.
func (t *Tiles) planRunTiles(width, room int64) (kernel Kernel, s tileSize) {
	kernel = kernelRunTiles
	s = tileSizes[kernel][width]
	if t.setSides(s); width < 4 && (t.Blocks() < minTiles || runTileBytes(width, s.a) > room) {
		kernel = kernelShortRunTiles
		s = tileSizes[kernel][width]
	}
	t.Shared, t.SideB = int32(runTileBytes(width, s.a)), int32(s.b)
	if t.setSides(s); t.ChunksA <= 2 {
		s.a = roundUp((int64(t.ItemsA)-1)/int64(t.ChunksA)+1, sector/width)
	}
	t.SideA = int32(s.a)
	return kernel, s
}

// runTileBytes is how many bytes of shared memory a tile of runs takes: tables of places, rows
// of the destination, each an odd number of words, and what is behind them.
func runTileBytes(width, side int64) int64 {
	halo := sector / width
	return 8*(side+halo+rowBytes/width) + 4*rowBytes/width*((side+halo)*width/4|1) + readBeyond
}

// roundUp is the next multiple of a number.
func roundUp(n, of int64) int64 { return (n + of - 1) / of * of }

// longestSide is the logarithm of the longest side of a slim tile.
const longestSide = 9

// planNarrowTiles chooses a tile's sides by those of the nest: slimmer along a side that has few items, and longer
// along the other.
func (t *Tiles) planNarrowTiles(width int64) {
	t.LogA, t.LogB = 6, 6
	switch width {
	case 8:
		t.LogB = 5
	case 16:
		t.LogA, t.LogB = 5, 5
	}
	most := t.LogA + t.LogB
	logA, logB := log2Ceil(t.ItemsA), log2Ceil(t.ItemsB)
	t.LogA, t.LogB = min(t.LogA, logA), min(t.LogB, logB)
	t.LogA = min(max(t.LogA, most-t.LogB), logA, longestSide)
	t.LogB = min(max(t.LogB, most-t.LogA), logB, longestSide)
	t.setSides(tileSize{1 << t.LogA, 1 << t.LogB})
}

// log2Ceil is the logarithm to the base of 2 of the next power of two.
func log2Ceil(n int32) int32 { return int32(bits.Len32(uint32(n - 1))) }

// minMatrices is how many items of B matrices have that are as fast as tiles which have
// more of those, and a part of A.
var minMatrices = map[int64]int32{4: 32, 8: 21}

// matrixTileBytes is how many bytes of matrices a tile holds.
const matrixTileBytes = 32 << 10

// planMatrixTiles plans tiles that hold all of A, which the items of B follow in the
// destination: what they write is one run. It answers false where there is no room.
func (t *Tiles) planMatrixTiles(width, room int64) (kernel Kernel, ok bool) {
	bytes := width * int64(t.ItemsA)
	switch {
	case width == 16:
		return "", false // which whole sectors serve as well
	case width < 4:
		return t.planSmallMatrixTiles(width, room)
	}
	most := min(256/width, (matrixTileBytes/bytes-1)|1)
	if int64(t.ItemsA) > 256 || width*min(most, int64(t.ItemsB)) < shortRun {
		return "", false
	}
	t.SideB = splitEvenly(t.ItemsB, most)
	if t.SideB < minMatrices[width] && t.ItemsB > minMatrices[width] {
		return "", false
	}
	t.By = divide(int64(t.ItemsA))
	t.setSides(tileSize{int64(t.ItemsA), int64(t.SideB)})
	return kernelMatrixTiles, true
}

// splitEvenly cuts items evenly into pieces of at most so many.
func splitEvenly(items int32, most int64) int32 {
	pieces := (int64(items)-1)/most + 1
	return int32((int64(items)-1)/pieces + 1)
}

// planSmallMatrixTiles plans matrices of short rows.
func (t *Tiles) planSmallMatrixTiles(width, room int64) (kernel Kernel, ok bool) {
	bytes, unit := width*int64(t.ItemsA), 4/width
	odd := needsByteTiles(width, bytes)
	if bytes < minMatrixRow(width, odd) || bytes > maxMatrixRow || width*int64(t.ItemsB) < shortRun {
		return "", false
	}
	if odd {
		most := min(rowBytes/width, (byteTileBytes-vectorBytes)/bytes/unit*unit)
		t.SideB = splitEvenly(t.ItemsB, most)
		t.Shared = int32(vectorBytes + roundUp(int64(t.SideB), unit)*bytes)
		t.setSides(tileSize{int64(t.ItemsA), int64(t.SideB)})
		return kernelMatrixByteTiles, true
	}
	side, pitch := roundUp(int64(t.ItemsA), unit), (bytes+3)/4|1
	shared := 8*side + 4*rowBytes/width*pitch + readBeyond
	if shared > room {
		return "", false
	}
	t.SideA, t.SideB, t.Pitch, t.Shared = int32(side), int32(rowBytes/width), int32(pitch), int32(shared)
	t.By = divide(bytes)
	t.setSides(tileSize{int64(t.ItemsA), int64(t.SideB)})
	return kernelMatrixWordTiles, true
}

// minMatrixRow is how many bytes rows of matrices have for which lines are fast.
func minMatrixRow(width int64, odd bool) int64 {
	switch {
	case width == 2:
		return shortRun
	case odd:
		return 24
	}
	return 16
}

// needsByteTiles tells whether rows of so many bytes go through an image of them, where they are
// as far apart: where that is not a multiple of four units, so that banks differ. Long
// rows of an even number of bytes are turned faster.
func needsByteTiles(width, bytes int64) bool {
	return bytes/width%4 != 0 && (width == 2 || bytes%2 == 1 || bytes <= 128)
}
