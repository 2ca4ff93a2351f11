package stridedcopy

// enoughB is how many items of B matrices have that are as fast as tiles which have
// more of those, and a part of A.
var enoughB = map[int64]int32{4: 32, 8: 21}

// matrixRoom is how many bytes of matrices a tile holds.
const matrixRoom = 32 << 10

// matrices plans tiles that hold all of A, which the items of B follow in the
// destination: what they write is one run. It answers false where there is no room.
func (t *Tiles) matrices(width, room int64) (kernel Kernel, ok bool) {
	bytes := width * int64(t.ItemsA)
	switch {
	case width == 16:
		return "", false // which whole sectors serve as well
	case width < 4:
		return t.lines(width, room)
	}
	most := min(256/width, (matrixRoom/bytes-1)|1)
	if int64(t.ItemsA) > 256 || width*min(most, int64(t.ItemsB)) < shortRun {
		return "", false
	}
	t.SideB = even(t.ItemsB, most)
	if t.SideB < enoughB[width] && t.ItemsB > enoughB[width] {
		return "", false
	}
	t.By = divide(int64(t.ItemsA))
	t.cut(tileSize{int64(t.ItemsA), int64(t.SideB)})
	return kernelMatrices, true
}

// even cuts items evenly into pieces of at most so many.
func even(items int32, most int64) int32 {
	pieces := (int64(items)-1)/most + 1
	return int32((int64(items)-1)/pieces + 1)
}

// lines plans matrices of short rows.
func (t *Tiles) lines(width, room int64) (kernel Kernel, ok bool) {
	bytes, unit := width*int64(t.ItemsA), 4/width
	odd := isOdd(width, bytes)
	if bytes < shortest(width, odd) || bytes > longLine || width*int64(t.ItemsB) < shortRun {
		return "", false
	}
	if odd {
		most := min(turnedRow/width, (oddRoom-oddWord)/bytes/unit*unit)
		t.SideB = even(t.ItemsB, most)
		t.Shared = int32(oddWord + upTo(int64(t.SideB), unit)*bytes)
		t.cut(tileSize{int64(t.ItemsA), int64(t.SideB)})
		return kernelOddLines, true
	}
	side, pitch := upTo(int64(t.ItemsA), unit), (bytes+3)/4|1
	shared := 8*side + 4*turnedRow/width*pitch + readBeyond
	if shared > room {
		return "", false
	}
	t.SideA, t.SideB, t.Pitch, t.Shared = int32(side), int32(turnedRow/width), int32(pitch), int32(shared)
	t.By = divide(bytes)
	t.cut(tileSize{int64(t.ItemsA), int64(t.SideB)})
	return kernelLines, true
}

// shortest is how many bytes rows of matrices have for which lines are fast.
func shortest(width int64, odd bool) int64 {
	switch {
	case width == 2:
		return shortRun
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
