package stridedcopy

import "github.com/quiver-gpu/quiver/ndview/internal/layout"

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

// tileSize is how many items the tiles of a kernel have along A and B.
type tileSize struct{ a, b int64 }

var tileSizes = map[Kernel]map[int64]tileSize{
	kernelTiles:   {4: {64, 64}, 8: {64, 32}, 16: {32, 32}},
	kernelSectors: {4: {128, 64}, 8: {128, 32}, 16: {64, 32}},
	kernelWords:   {1: {128, 256}, 2: {128, 128}},
	kernelRuns:    {1: {256, 256}, 2: {256, 128}, 4: {128, 64}}, kernelShortRuns: {1: {128, 256}, 2: {128, 128}},
}

// NewTiles plans a nest of a destination and a source in units of width bytes,
// and names the kernel, for a GPU of which a block may have so much shared memory. It
// answers false where both have one fastest axis, or the source repeats one value along
// the destination's.
func NewTiles(width int64, dst, src uint64, n layout.Nest, memory int64) (t *Tiles, kernel Kernel, ok bool) {
	s, ok := splitSides(width, n)
	if !ok {
		return nil, "", false
	}
	t = s.tiles(width)
	dst, src = s.rowStarts(dst, src)
	small, wholeRuns := width < 4, s.runA && s.runB
	words := small && t.isWords(width, dst, src)
	if !words && dst%sector != 0 && wholeRuns && s.follow {
		if kernel, ok := t.matrices(width, tileRoom(memory)); ok {
			return t, kernel, true
		}
	}
	switch {
	case words:
		kernel = kernelWords
	case small:
		kernel = kernelRuns
	default:
		kernel = kernelTiles
	}
	if t.hasShortSide(kernel, width) || small && !wholeRuns {
		t.slim(width)
		return t, kernelSlim, true
	}
	of := tileSizes[kernel][width]
	if kernel == kernelTiles && s.runA && dst%sector != 0 && int64(t.ItemsA) > of.a {
		kernel, of = kernelSectors, tileSizes[kernelSectors][width]
		if width == 4 && s.runB {
			kernel = kernelRuns
		}
	}
	if kernel == kernelRuns {
		kernel, of = t.runs(width, tileRoom(memory))
	}
	t.cut(of)
	if kernel != kernelTiles && kernel != kernelWords {
		t.Halo = int32(sector/width) - 1
	}
	t.grouped(width, s.follow)
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
	case kernel == kernelRuns:
		fewB = of.b / 4 // of which a quarter is faster than slim tiles still
	}
	return int64(t.ItemsA) < of.a/3 || int64(t.ItemsB) <= fewB
}

// isWords tells whether units are moved in whole words of 8 bytes: where these lie in
// whole sectors too, or all of A fits a tile. Runs are faster else.
func (t *Tiles) isWords(width int64, dst, src uint64) bool {
	if (dst|src|uint64(width)*uint64(t.ItemsA)|uint64(width)*uint64(t.ItemsB))%8 != 0 {
		return false
	}
	most := int32(tileSizes[kernelWords][width].a)
	return (dst|src)%sector == 0 || t.ItemsA >= most/3 && t.ItemsA <= most
}

const (
	groupTiles = 16      // tiles along A that make one
	cached     = 8 << 20 // bytes of a GPU's cache that surely hold what was read last
)

// grouped makes groups of tiles where rows of the source are short, so that what
// is near in it is read at about one time. It is so anyway where A has few bytes
// for each of a tile's items of B; and where these follow A in the destination,
// all that is then written at about one time is one run.
func (t *Tiles) grouped(width int64, follow bool) {
	a, b := width*int64(t.ItemsA), width*int64(t.ItemsB)
	shortRows := b <= 32<<10 && !(follow && a*int64(t.ItemsB)/int64(t.ChunksB) <= cached)
	if t.Halo == 0 { // tiles whose rows are whole sectors lose less
		shortRows = b < 4<<10 && a >= 512<<10
	}
	if shortRows && t.ChunksA > groupTiles && t.ChunksB > 1 {
		t.Group = groupTiles
	}
}

// cut counts the tiles.
func (t *Tiles) cut(s tileSize) {
	t.ChunksA = int32((int64(t.ItemsA)-1)/s.a + 1)
	t.ChunksB = int32((int64(t.ItemsB)-1)/s.b + 1)
	t.ByChunksA, t.ByChunksB = divide(int64(t.ChunksA)), divide(int64(t.ChunksB))
}

// Blocks is how many blocks there are.
func (t *Tiles) Blocks() int64 {
	return int64(t.ChunksA) * int64(t.ChunksB) * int64(t.Places)
}

// Plan is the launch of a kernel that has these tiles.
func (t *Tiles) Plan(kernel Kernel) Plan {
	threads := int64(256)
	if kernel == kernelRuns || kernel == kernelShortRuns {
		threads = 384
	}
	return Plan{kernel, t.Blocks(), threads, int64(t.Shared), structOf(t)}
}

// RowAlign is what rows of the destination and of the source begin at multiples of,
// for a twin.
func (t *Tiles) RowAlign(kernel Kernel, width int64) [2]int64 {
	if kernel == kernelWords {
		return [2]int64{8, 8}
	}
	return [2]int64{width, width}
}

// Nest is what is moved, for a twin.
func (t *Tiles) Nest() layout.Nest {
	a, b := t.Axes[:t.AxesA], t.Axes[t.AxesA:][:t.AxesB]
	n := grow(newNest(), a, int64(t.ItemsA))
	n = grow(n, b, int64(t.ItemsB))
	return grow(n, t.Axes[t.AxesA+t.AxesB:][:t.Batch], int64(t.Places))
}
