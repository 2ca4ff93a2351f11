package stridedcopy

// rival is the kernel that moves a nest if bricks do not; one that does so by tiles has
// them.
// What makes bricks faster was measured on an H200, of several hundred random nests.
type rival struct {
	*Tiles
	kernel       Kernel
	width        int64
	row, fastest int64 // bytes of the destination's row, items of the source's fastest axis
	room         int64 // of bricks
}

// beatable tells whether bricks may be faster.
func (r rival) beatable() bool {
	switch r.kernel {
	case kernelNarrowTiles, kernelWordRows, kernelMatrixWordTiles, kernelRunTiles, kernelShortRunTiles, kernelMatrixByteTiles, kernelTiles, kernelSectorTiles, kernelMatrixTiles:
		return true
	case kernelRows:
		return r.row < 128
	case kernelVectorRows:
		return r.width == 2 || r.row < 1<<10
	case kernelWordTiles:
		return r.room >= smallRoom && r.filled() < 1
	}
	return false
}

// beaten tells whether the best bricks are faster, which may have more than a small room.
func (r rival) beaten(small, best fitted) bool {
	run, hasLong, squares := best.run(), max(best.runA, best.runB) >= longRun, best.Square >= storedWord
	within := best.InRows == 1 && best.Square > 0
	switch r.kernel {
	case kernelNarrowTiles:
		return true
	case kernelWordRows, kernelRows, kernelVectorRows:
		return run >= shortRun
	case kernelMatrixWordTiles:
		if r.width == 2 {
			return run >= 256
		}
		rows := r.width * int64(r.ItemsA)
		return squares && run >= 160 && rows >= 128 || best.Square == 0 && hasLong && rows <= 96
	case kernelRunTiles, kernelShortRunTiles:
		return r.beatenRuns(best)
	case kernelWordTiles:
		switch {
		case squares && r.width == 1 && int64(r.ItemsA)%sector != 0:
			return false
		case squares && (within || r.width == 1 && best.Shared > smallRoom):
			return run >= 128
		case squares:
			return run >= 256
		}
		return r.width == 2 && hasLong && best.Square == 0 && run >= 192 && r.filled() < 0.55
	case kernelMatrixByteTiles:
		switch {
		case within:
			return run >= 256
		case r.width == 2:
			return run >= 512 || hasLong && best.Square == 0 && run >= 192
		}
		fewColumns := r.SideB <= 96 // of as many as 256
		return fewColumns && hasLong && run >= 256
	case kernelMatrixTiles:
		return small.run() >= 1024
	case kernelTiles:
		return small.run() >= max(512, 64*r.width) || r.width == 4 && within && run >= 256 && r.filled() < 1 || r.hardlyFilled(best)
	case kernelSectorTiles:
		across := r.width*r.fastest > 224 && r.width*r.fastest <= 256 // which fills a tile
		return small.run() >= 128*r.width && !across || r.hardlyFilled(best)
	}
	return false
}

// beatenRuns tells it of tiles of runs, of which much is idle where they are hardly
// filled, and which take longer where A ends in them.
func (r rival) beatenRuns(best fitted) bool {
	run, hasLong, filled := best.run(), max(best.runA, best.runB) >= longRun, r.filled()
	switch {
	case r.width == 4:
		return run >= 576 && filled < 0.65
	case best.Square >= storedWord && r.width == 2:
		return run >= 192
	case best.Square >= storedWord && best.InRows == 1:
		return run >= 160
	case best.Square >= storedWord:
		atSectors := best.Overlap == 0 && best.runA >= best.runB
		return best.Shared > smallRoom && run >= 128 && (atSectors || filled < 0.8 || hasLong || r.ChunksA <= 2)
	case best.Square > 0:
		return filled < 0.5 && best.Overlap == 0 && run >= 256
	}
	return r.width == 2 && (filled < 0.7 || r.ChunksA == 1) && run >= 192 || filled < 0.4 && run >= 128
}

// hardlyFilled tells whether so little is in the tiles, of units of 4 or 8 bytes, that
// bricks are faster.
func (r rival) hardlyFilled(best fitted) bool {
	if r.Tiles == nil || r.width > 8 || best.run() < 256 {
		return false
	}
	filled := r.filled()
	fastestAlone := int64(r.ItemsB) == r.fastest && part(r.ItemsB, tileSizes[r.kernel][r.width].b) < 0.95
	switch {
	case r.room <= smallRoom:
		return r.width == 4 && fastestAlone && filled <= 0.625
	case fastestAlone && r.fastest <= 128 && (r.width == 4 || r.kernel == kernelTiles):
		return true
	}
	return filled < 0.76 && (r.width == 4 || r.kernel == kernelTiles)
}

// filled is the part of the tiles that has items, of kernels whose tiles are all of one
// size, or were if runs did not cut two evenly; and 1 without tiles.
func (r rival) filled() float64 {
	if r.Tiles == nil {
		return 1
	}
	s := tileSizes[r.kernel][r.width]
	return part(r.ItemsA, s.a) * part(r.ItemsB, s.b)
}

func part(items int32, side int64) float64 {
	return float64(items) / float64(roundUp(int64(items), side))
}
