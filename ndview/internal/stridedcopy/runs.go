package stridedcopy

// Tiles of units of 1, 2 and 4 bytes whose rows begin anywhere: see kernels/runs.cu, and
// kernels/odd.cu for matrices of which isOdd tells.

const (
	turnedRow  = 256      // bytes of a row of the source that a tile of runs or of lines has
	readBeyond = 192      // bytes behind a tile that threads may read which write nothing
	busyTiles  = 96       // tiles, fewer of which leave many multiprocessors of a large GPU idle
	longLine   = 256      // bytes of a row of matrices, so that it takes no more room than turned rows of a run
	oddWord    = 16       // bytes that odd lines are written in
	oddRoom    = 44 << 10 // bytes of an image of those, beside which tables need room
)

// tileRoom is how much shared memory a tile may take of what a block may have: so much
// that there are two on a multiprocessor, or what any GPU gives a block unasked.
func tileRoom(memory int64) int64 { return max(half(memory), 48<<10) }

// half is what each of two blocks that are on a multiprocessor at a time may have, of
// what one may have.
func half(memory int64) int64 { return memory/2 - 1<<10 }

// runs plans tiles of up to 256 items of A, of which two are cut evenly, or of half as
// many: of units of 4 bytes, always.
func (t *Tiles) runs(width, room int64) (kernel Kernel, s tileSize) {
	kernel = kernelRuns
	s = tileSizes[kernel][width]
	if t.cut(s); width < 4 && (t.Blocks() < busyTiles || shared(width, s.a) > room) {
		kernel = kernelShortRuns
		s = tileSizes[kernel][width]
	}
	t.Shared, t.SideB = int32(shared(width, s.a)), int32(s.b)
	if t.cut(s); t.ChunksA <= 2 {
		s.a = upTo((int64(t.ItemsA)-1)/int64(t.ChunksA)+1, sector/width)
	}
	t.SideA = int32(s.a)
	return kernel, s
}

// shared is how many bytes of shared memory a tile of runs takes: tables of places, rows
// of the destination, each an odd number of words, and what is behind them.
func shared(width, side int64) int64 {
	halo := sector / width
	return 8*(side+halo+turnedRow/width) + 4*turnedRow/width*((side+halo)*width/4|1) + readBeyond
}

// upTo is the next multiple of a number.
func upTo(n, of int64) int64 { return (n + of - 1) / of * of }
