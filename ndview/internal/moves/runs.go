package moves

// Tiles of units of 1 and 2 bytes whose rows begin anywhere: see kernels/runs.cu, and
// kernels/odd.cu for matrices of which isOdd tells.

const (
	turned   = 256      // bytes of a row of the source that a tile of runs or of lines has
	beyond   = 192      // bytes behind a tile that threads may read which write nothing
	busy     = 96       // tiles, fewer of which leave many multiprocessors of a large GPU idle
	longLine = 256      // bytes of a row of matrices, so that it takes no more room than turned rows of a run
	held     = 16       // bytes that odd lines are written in
	oddRoom  = 44 << 10 // bytes of an image of those, beside which tables need room
)

// tileRoom is how much shared memory a tile may take of what a block may have: so much
// that there are two on a multiprocessor, or what any GPU gives a block unasked.
func tileRoom(memory int64) int64 { return max(memory/2-1<<10, 48<<10) }

// runs plans tiles of up to 256 items of A, of which two are cut evenly, or of half as
// many.
func (t *Tiles) runs(width, room int64) (kernel string, s sides) {
	kernel = "runs"
	s = tileSides[kernel][width]
	if t.cut(s); t.Blocks() < busy || shared(width, s.a) > room {
		kernel = "shortruns"
		s = tileSides[kernel][width]
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
	return 8*(side+halo+turned/width) + 4*turned/width*((side+halo)*width/4|1) + beyond
}

// lines plans matrices of short rows.
func (t *Tiles) lines(width, room int64) (kernel string, ok bool) {
	bytes, unit := width*int64(t.ItemsA), 4/width
	odd := isOdd(width, bytes)
	if bytes < shortest(width, odd) || bytes > longLine || width*int64(t.ItemsB) < short {
		return "", false
	}
	if odd {
		most := min(turned/width, (oddRoom-held)/bytes/unit*unit)
		t.SideB = even(t.ItemsB, most)
		t.Shared = int32(held + upTo(int64(t.SideB), unit)*bytes)
		t.cut(sides{int64(t.ItemsA), int64(t.SideB)})
		return "oddlines", true
	}
	side, pitch := upTo(int64(t.ItemsA), unit), (bytes+3)/4|1
	shared := 8*side + 4*turned/width*pitch + beyond
	if shared > room {
		return "", false
	}
	t.SideA, t.SideB, t.Pitch, t.Shared = int32(side), int32(turned/width), int32(pitch), int32(shared)
	t.By = divide(bytes)
	t.cut(sides{int64(t.ItemsA), int64(t.SideB)})
	return "lines", true
}

// shortest is how many bytes rows of matrices have for which lines are fast.
func shortest(width int64, odd bool) int64 {
	switch {
	case width == 2:
		return short
	case odd:
		return 24
	}
	return 16
}

// isOdd tells whether rows of so many bytes go through an image of them, where they are
// as far apart: where that is not a multiple of four units, so that banks differ. Long
// rows of an even number of bytes are turned faster.
func isOdd(width, bytes int64) bool {
	return bytes/width%4 != 0 && (width == 2 || bytes%2 == 1 || bytes <= 128)
}

// upTo is the next multiple of a number.
func upTo(n, of int64) int64 { return (n + of - 1) / of * of }
