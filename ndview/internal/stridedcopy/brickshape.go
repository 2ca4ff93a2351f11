package stridedcopy

import (
	"slices"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

const (
	brickRuns  = 1 << 10 // of the destination, and of the source
	brickRows  = 1 << 12
	storedWord = 8 // bytes that are written at once, where a unit has not more
	loadedWord = 16
	bankBytes  = 128 // a row of the banks of shared memory
)

// brick is what a brick has of a nest.
type brick struct {
	layout.Nest
	width, dst, src    int64   // bytes of a unit, and the low bits of addresses
	toward, from       []int   // axes, the fastest in either operand first
	extents, image     []int64 // along each axis, and from item to item in the image
	cutA, cutB         int     // the axes that end runs, or -1
	runA, runB         []int   // those that make them
	units              int64   // of a brick
	unitsA, unitsB     int64   // of runs
	span               int64   // bytes of the image
	runsA, runsB, rows int64
}

// lay makes runs of the destination and of the source so many bytes long, or longer,
// where there are so many.
func (b *brick) lay(lengthA, lengthB int64) {
	for k := range b.extents {
		b.extents[k], b.image[k] = 1, 0
	}
	b.cutA = b.lengthen(0, b.toward, lengthA)
	b.cutB = b.lengthen(1, b.from, lengthB)
	if b.cutA >= 0 && b.extents[b.cutA] == b.Shape[b.cutA] {
		b.cutA = -1
	}
	b.runA, b.unitsA = b.run(0, b.toward, b.cutA, b.runA[:0])
	b.runB, b.unitsB = b.run(1, b.from, b.cutB, b.runB[:0])

	// Runs of the source lie as they do there, others where words of neither meet.
	b.span, b.units = b.width*b.unitsB, 1
	for _, k := range b.runB {
		b.image[k] = b.Strides[1][k]
	}
	for _, k := range b.toward {
		b.units *= b.extents[k]
		if b.extents[k] > 1 && !slices.Contains(b.runB, k) {
			step := b.span + 2*(loadedWord-1)
			b.image[k] = step + (b.Strides[1][k]-step)&(loadedWord-1)
			b.span += (b.extents[k] - 1) * b.image[k]
		}
	}
	b.runsA, b.runsB, b.rows = b.units/b.unitsA, b.units/b.unitsB, b.units/b.extents[b.toward[0]]
}

// lengthen has a brick have more of an operand's axes, the fastest first, until its
// run there has so many bytes, whole sectors where an axis is cut. It answers the axis
// of which the brick has a part.
func (b *brick) lengthen(operand int, order []int, length int64) (cut int) {
	bytes := b.width
	for _, k := range order {
		if b.Strides[operand][k] != bytes || bytes >= length {
			break
		}
		whole := b.Shape[k]
		pieces := max(whole*bytes/length, 1)
		part := (whole-1)/pieces + 1
		switch unit := sector / min(bytes&-bytes, sector); {
		case bytes == b.width && part >= 4*unit:
			part = min(upTo(part, unit), whole)
		case bytes > b.width && part >= unit && part < whole:
			part -= part % unit
		}
		b.extents[k] = max(b.extents[k], part)
		if b.extents[k] < whole {
			return k
		}
		bytes *= whole
	}
	return -1
}

// run are the axes that make a run of an operand, and how many units it has.
func (b *brick) run(operand int, order []int, cut int, run []int) ([]int, int64) {
	units := int64(1)
	for _, k := range order {
		if b.Strides[operand][k] != units*b.width || b.extents[k] == 1 || b.extents[k] < b.Shape[k] && k != cut {
			break
		}
		run = append(run, k)
		units *= b.extents[k]
		if k == cut {
			break
		}
	}
	return run, units
}

// imageBytes are those of the image, of which the first may be anywhere in a word.
func (b *brick) imageBytes() int64 { return upTo(b.span+loadedWord-1, bankBytes) }

// shared is the room that the image and tables take: of 8 bytes for where a run is in
// its operand, and of 4 for where a run or a row is in the image.
func (b *brick) shared() int64 {
	return b.imageBytes() + 8*(b.runsA+b.runsB) + 4*(b.runsB+b.rows)
}

func (b *brick) fits(room int64) bool {
	return b.shared() <= room && b.runsA <= brickRuns && b.runsB <= brickRuns && b.rows <= brickRows
}

func (b *brick) cut(k int) (c Cut, chunks int32) {
	extent := b.extents[k]
	return Cut{int32(b.Shape[k]), int32(extent), extent * b.Strides[0][k], extent * b.Strides[1][k]}, int32((b.Shape[k]-1)/extent + 1)
}

// squares is how many bytes words have, the longest, in which squares of units are
// written that are whole lines both ways, see lines, and 0 where there are none. A line
// of the image has a unit of each of the runs side by side, where those are counted
// along the source's fastest axis first; or of rows within a run, if it has that axis.
// Rows of more than single bytes are whole sectors for that: stores of a square's words
// would else fill sectors in part.
func (b *brick) squares(rows []int, a Cut) (word, within int32) {
	outer := slices.IndexFunc(rows, func(k int) bool { return !slices.Contains(b.runA, k) })
	units := []int64{b.unitsA, b.unitsA / int64(a.Extent) * int64(a.Whole%a.Extent)} // of runs, and the last
	switch {
	case outer >= 0 && rows[outer] == b.from[0]:
	case outer != 0 && len(rows) > 0 && rows[0] == b.from[0]:
		row := b.extents[b.toward[0]]
		if b.width > 1 && b.width*row%sector != 0 {
			return 0, 0
		}
		within, units = 1, []int64{row}
	default:
		return 0, 0
	}
	for word := max(storedWord, min(4*b.width, loadedWord)); word >= storedWord/2 && word > b.width; word /= 2 {
		if b.lines(word) && !slices.ContainsFunc(units, func(n int64) bool { return n*b.width%word != 0 }) {
			return int32(word), within
		}
	}
	return 0, 0
}

// lines tells whether all that is written is whole words, and all that is read whole
// lines: those are words, but for units of a byte not more than four of them.
func (b *brick) lines(word int64) bool {
	line := min(word, 4*b.width)
	side := line / b.width
	for _, k := range []int{b.toward[0], b.from[0]} {
		if b.extents[k]%side != 0 || b.Shape[k]%side != 0 {
			return false
		}
	}
	for k := range b.Shape {
		if b.Strides[0][k]%word != 0 && !slices.Contains(b.runA, k) || b.Strides[1][k]%line != 0 && k != b.from[0] {
			return false
		}
	}
	return (b.dst|b.src)%word == 0
}

// inSectors tells whether squares are written at whole sectors.
func (b *brick) inSectors(within bool) bool {
	for k, step := range b.Strides[0] {
		if k == b.cutA {
			step *= b.extents[k]
		}
		if step%sector != 0 && (k == b.cutA || !slices.Contains(b.runA, k)) {
			return false
		}
	}
	return b.dst%sector == 0 && (!within || b.width*b.extents[b.toward[0]]%sector == 0)
}
