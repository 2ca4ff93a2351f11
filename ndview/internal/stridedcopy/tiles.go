package stridedcopy

import (
	"math/bits"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// sector is the number of bytes of a memory transaction. Writing a sector in parts
// costs more than writing it whole, as it may have to be read first.
const sector = 32

// Tiles copies units through tiles in shared memory, for nests whose fastest axis
// differs between source and destination. A tile has two sides: A, units that are close
// in the destination, and B, units that are close in the source. Each side counts the
// items of one or more axes, the fastest first, as one axis.
type Tiles struct {
	ItemsA, ItemsB   int32
	AxesA, AxesB     int32
	Batch            int32 // axes over which tiles are repeated
	ChunksA, ChunksB int32 // tiles along each side
	// Halo is not 0 if A is a contiguous run of the destination whose rows may begin
	// anywhere. The kernel then moves each row's tile boundaries back to a sector, by
	// up to Halo items. Only group uses it; kernels have it as a constant.
	Halo                 int32
	LogA, LogB           int32  // log2 of the sides of narrow tiles
	BatchItems           int32  // items of the batch axes
	SideB                int32  // of run tiles and matrix tiles
	By                   Divide // by the items of A of matrix tiles, or by their bytes of matrix word tiles
	SideA                int32  // of run tiles
	ByChunksA, ByChunksB Divide
	// Group, if not 0, is the number of tiles along A that are processed before the
	// neighbouring ones along B. Otherwise all are.
	Group  int32
	Shared int32         // bytes of dynamic shared memory
	End    int64         // end of the source, in bytes from its first unit
	Axes   [MaxAxes]Axis // of A, B, and the batch
}

// tileSize is the number of items of a tile along A and B.
type tileSize struct{ a, b int64 }

var tileSizes = map[Kernel]map[int64]tileSize{
	kernelTiles:       {4: {64, 64}, 8: {64, 32}, 16: {32, 32}},
	kernelSectorTiles: {4: {128, 64}, 8: {128, 32}, 16: {64, 32}},
	kernelWordTiles:   {1: {128, 256}, 2: {128, 128}},
	kernelRunTiles:    {1: {256, 256}, 2: {256, 128}}, kernelShortRunTiles: {1: {128, 256}, 2: {128, 128}},
}

// NewTiles plans a nest in units of width bytes and returns the kernel. dst and src are
// addresses, and memory is the shared memory that a block may have. It returns false if
// both operands have the same fastest axis, or if the source repeats one value along
// the destination's.
func NewTiles(width int64, dst, src uint64, n layout.Nest, memory int64) (t *Tiles, kernel Kernel, ok bool) {
	return newTiles(width, dst, src, n, memory, nil)
}

// newTiles is NewTiles without some kernels.
func newTiles(width int64, dst, src uint64, n layout.Nest, memory int64, without map[Kernel]bool) (t *Tiles, kernel Kernel, ok bool) {
	s, ok := findSides(width, n)
	if !ok {
		return nil, "", false
	}
	t = s.tiles(width)
	dst, src = s.rowStarts(dst, src)
	small, wholeRuns := width < 4, s.runA && s.runB
	words := small && t.fitsWords(width, dst, src) && !without[kernelWordTiles]
	if !words && dst%sector != 0 && wholeRuns && s.contiguous {
		if kernel, ok := t.planMatrixTiles(width); ok && !without[kernel] {
			return t, kernel, true
		}
		t = s.tiles(width)
	}
	switch {
	case words:
		kernel = kernelWordTiles
	case small:
		kernel = kernelRunTiles
	default:
		kernel = kernelTiles
	}
	fits := (!small || wholeRuns) && !without[kernel]
	if t.hasShortSide(kernel, width) || !fits {
		if without[kernelNarrowTiles] {
			return nil, "", false
		}
		t.planNarrowTiles(width)
		return t, kernelNarrowTiles, true
	}
	of := tileSizes[kernel][width]
	if kernel == kernelTiles && s.runA && dst%sector != 0 && int64(t.ItemsA) > of.a && !without[kernelSectorTiles] {
		kernel, of = kernelSectorTiles, tileSizes[kernelSectorTiles][width]
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

// hasShortSide reports whether a side fills so little of a kernel's tiles that narrow
// tiles are faster.
func (t *Tiles) hasShortSide(kernel Kernel, width int64) bool {
	of := tileSizes[kernel][width]
	fewB := of.b / 2
	switch {
	case width == 16:
		fewB = of.b / 3 // half a row of such units is still whole sectors
	case kernel == kernelRunTiles:
		fewB = of.b / 4 // a quarter is still faster than narrow tiles
	}
	return int64(t.ItemsA) < of.a/3 || int64(t.ItemsB) <= fewB
}

// fitsWords reports whether units can be copied in aligned words of 8 bytes, in whole
// sectors or with all of A in one tile. Otherwise run tiles are faster.
func (t *Tiles) fitsWords(width int64, dst, src uint64) bool {
	if (dst|src|uint64(width)*uint64(t.ItemsA)|uint64(width)*uint64(t.ItemsB))%8 != 0 {
		return false
	}
	most := int32(tileSizes[kernelWordTiles][width].a)
	return (dst|src)%sector == 0 || t.ItemsA >= most/3 && t.ItemsA <= most
}

const (
	groupTiles = 16      // tiles along A per group
	cacheBytes = 8 << 20 // bytes that were read last and are surely cached
)

// group groups tiles if rows of the source are short, so that neighbouring data is read
// at about the same time. That happens anyway if A has few bytes per item of B in a
// tile. If the items of B follow A in the destination, everything that is written at
// about the same time is one run.
func (t *Tiles) group(width int64, follow bool) {
	a, b := width*int64(t.ItemsA), width*int64(t.ItemsB)
	shortRows := b <= 32<<10 && !(follow && a*int64(t.ItemsB)/int64(t.ChunksB) <= cacheBytes)
	if t.Halo == 0 { // rows of whole sectors lose less
		shortRows = b < 4<<10 && a >= 512<<10
	}
	if shortRows && t.ChunksA > groupTiles && t.ChunksB > 1 {
		t.Group = groupTiles
	}
}

// setSides computes the number of tiles of a size.
func (t *Tiles) setSides(s tileSize) {
	t.ChunksA = int32((int64(t.ItemsA)-1)/s.a + 1)
	t.ChunksB = int32((int64(t.ItemsB)-1)/s.b + 1)
	t.ByChunksA, t.ByChunksB = divide(int64(t.ChunksA)), divide(int64(t.ChunksB))
}

// Blocks returns the number of blocks.
func (t *Tiles) Blocks() int64 {
	return int64(t.ChunksA) * int64(t.ChunksB) * int64(t.BatchItems)
}

// Plan returns the launch of a kernel.
func (t *Tiles) Plan(kernel Kernel) Plan {
	threads := int64(256)
	if kernel == kernelRunTiles || kernel == kernelShortRunTiles {
		threads = 384
	}
	return Plan{kernel, t.Blocks(), threads, int64(t.Shared), structBytes(t)}
}

// RowAlign returns the alignment of rows in the destination and in the source, which
// the host implementation checks.
func (t *Tiles) RowAlign(kernel Kernel, width int64) [2]int64 {
	if kernel == kernelWordTiles {
		return [2]int64{8, 8}
	}
	return [2]int64{width, width}
}

// Nest returns the copied nest, for the host implementation.
func (t *Tiles) Nest() layout.Nest {
	a, b := t.Axes[:t.AxesA], t.Axes[t.AxesA:][:t.AxesB]
	n := wrapAxes(newNest(), a, int64(t.ItemsA))
	n = wrapAxes(n, b, int64(t.ItemsB))
	return wrapAxes(n, t.Axes[t.AxesA+t.AxesB:][:t.Batch], int64(t.BatchItems))
}

// Tiles for rows of any alignment, of units of 1, 2 and 4 bytes: see
// kernels/copy/run_tiles.cu, and kernels/copy/matrix_byte_tiles.cu if needsByteTiles.

const (
	rowBytes      = 256      // bytes of a source row in a run tile or matrix word tile
	readBeyond    = 192      // bytes after a tile that threads without output may read
	minTiles      = 96       // tiles below which many multiprocessors of a large GPU are idle
	maxMatrixRow  = 256      // bytes of a matrix row, limited by the memory of a tile
	vectorBytes   = 16       // bytes per store of matrix byte tiles
	byteTileBytes = 44 << 10 // bytes of their tile, beside which tables need memory
)

// tileMemory returns the shared memory for a tile: half of what a block may have, so
// that two blocks fit on a multiprocessor, but at least the default limit.
func tileMemory(memory int64) int64 { return max(halfMemory(memory), 48<<10) }

// halfMemory returns the shared memory of each of two blocks on a multiprocessor.
func halfMemory(memory int64) int64 { return memory/2 - 1<<10 }

// planRunTiles chooses tiles of up to 256 items of A, or half as many. Two tiles are
// divided evenly. Units of 4 bytes always have half as many.
func (t *Tiles) planRunTiles(width, limit int64) (kernel Kernel, s tileSize) {
	kernel = kernelRunTiles
	s = tileSizes[kernel][width]
	if t.setSides(s); t.Blocks() < minTiles || runTileBytes(width, s.a) > limit {
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

// runTileBytes returns the shared memory of a run tile: tables of addresses, rows of
// the destination with an odd number of words, and bytes after them that may be read.
func runTileBytes(width, side int64) int64 {
	halo := sector / width
	return 8*(side+halo+rowBytes/width) + 4*rowBytes/width*((side+halo)*width/4|1) + readBeyond
}

// roundUp returns the next multiple of a number.
func roundUp(n, of int64) int64 { return (n + of - 1) / of * of }

// longestSide is log2 of the longest side of a narrow tile.
const longestSide = 9

// planNarrowTiles chooses a tile's sides by those of the nest: narrower along a side
// with few items, and longer along the other.
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

// log2Ceil returns log2 of the next power of two.
func log2Ceil(n int32) int32 { return int32(bits.Len32(uint32(n - 1))) }

// minMatrices is the number of items of B from which matrix tiles are as fast as tiles
// with more of B and a part of A, by width.
var minMatrices = map[int64]int32{4: 32, 8: 21}

// matrixTileBytes is the size of a matrix tile.
const matrixTileBytes = 32 << 10

// planMatrixTiles plans tiles with all of A, which the items of B follow in the
// destination, so that each tile writes one run. It returns false if they do not fit.
func (t *Tiles) planMatrixTiles(width int64) (kernel Kernel, ok bool) {
	bytes := width * int64(t.ItemsA)
	switch {
	case width == 16:
		return "", false // sector tiles are as fast
	case width < 4:
		return t.planMatrixByteTiles(width)
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

// splitEvenly returns the size of equal parts of items, of at most most each.
func splitEvenly(items int32, most int64) int32 {
	pieces := (int64(items)-1)/most + 1
	return int32((int64(items)-1)/pieces + 1)
}

// planMatrixByteTiles is planMatrixTiles for units of 1 and 2 bytes.
func (t *Tiles) planMatrixByteTiles(width int64) (kernel Kernel, ok bool) {
	bytes, unit := width*int64(t.ItemsA), 4/width
	shortest := int64(24)
	if width == 2 {
		shortest = shortRun
	}
	if !needsByteTiles(width, bytes) || bytes < shortest || bytes > maxMatrixRow || width*int64(t.ItemsB) < shortRun {
		return "", false
	}
	most := min(rowBytes/width, (byteTileBytes-vectorBytes)/bytes/unit*unit)
	t.SideB = splitEvenly(t.ItemsB, most)
	t.Shared = int32(vectorBytes + roundUp(int64(t.SideB), unit)*bytes)
	t.setSides(tileSize{int64(t.ItemsA), int64(t.SideB)})
	return kernelMatrixByteTiles, true
}

// needsByteTiles reports whether matrix rows of the given bytes use matrix byte tiles. They do if
// they are not a multiple of four units, so that neighbouring rows differ in banks.
// Long rows with an even number of bytes are faster with run tiles.
func needsByteTiles(width, bytes int64) bool {
	return bytes/width%4 != 0 && (width == 2 || bytes%2 == 1 || bytes <= 128)
}
