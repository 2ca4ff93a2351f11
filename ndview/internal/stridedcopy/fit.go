package stridedcopy

import "github.com/quiver-gpu/quiver/ndview/internal/layout"

const (
	smallRoom = 46 << 10  // bytes of an image and its tables
	largeRoom = 110 << 10 // which pays where runs are not of enoughRun bytes else
	tightRoom = 256 << 10 // over the bytes of a unit, so 32 KiB of 8 and 16 KiB of 16, pays where runs are of longRun bytes
	enoughRun = 512
	longRun   = 4 << 10
)

// BoxTileMemory is how much shared memory bricks may take, of a nest of so many bytes: so
// little that there are many, and that two of those that fill it are on a
// multiprocessor at a time, or four where it is an H200's and the room a small one. A
// block may have memory, about as much as a multiprocessor has.
func BoxTileMemory(bytes, memory int64) int64 {
	return max(min(max(bytes/512, 4<<10), smallRoom), min(bytes/2048, halfMemory(memory), largeRoom))
}

// fitted are bricks as large as a room, and how many bytes their runs have.
type fitted struct {
	*Bricks
	runA, runB int64
}

func (f fitted) run() int64 { return min(f.runA, f.runB) }

// best fills a small room, and one that is faster if there is: less for large units,
// where runs are long all the same, and more where they are short else.
func (b *boxTile) best(room int64) (small, best fitted) {
	most := min(room, smallRoom)
	small = b.fill(min(most, tightRoom/b.width))
	if tightRoom/b.width < most && small.run() < longRun {
		small = b.fill(most)
	}
	if room <= smallRoom || small.run() >= enoughRun || small.longEnough(b.width) {
		return small, small
	}
	// Of bytes only squares are quick enough to gain.
	if large := b.fill(room); large.Bricks != nil && (large.Square > 0 || b.width > 1) {
		return small, large
	}
	return small, small
}

// longEnough tells of bricks of small units whether longer runs than theirs would not pay.
func (f fitted) longEnough(width int64) bool {
	if f.Bricks == nil {
		return false
	}
	wide := width <= 2 && f.runA >= longRun && f.Square != storedWord/2
	return wide || width == 2 && f.Square == storedWord && f.Overlap == 0 && f.run() >= 256
}

// fill plans bricks of runs as long as there is room for, if there is for a sector.
func (b *boxTile) fill(room int64) fitted {
	for length := min(32<<10, b.width*layout.Product(b.Shape)); length >= sector; length = length * 3 / 4 {
		if b.setRuns(2*length, length); !b.fits(room) {
			b.setRuns(length, length)
		}
		if b.fits(room) {
			return fitted{b.plan(), b.width * b.unitsA, b.width * b.unitsB}
		}
	}
	return fitted{}
}
