// Package moves plans how kernels move units of bytes from one layout to another.
package moves

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// MaxAxes is how many axes a plan has, and MaxItems how many units. What has
// more is cut.
const (
	MaxAxes  = 16
	MaxItems = math.MaxInt32
)

// Axis is an axis along which units lie at steps of bytes. An item of less than
// 2^31 is divided by Extent, of at least 2, as item*Magic>>32>>Shift. The structs
// of this package have C's layout.
type Axis struct {
	Extent, Dst, Src int64
	Magic, Shift     uint32
}

func newAxis(n layout.Nest, k int) Axis {
	a := Axis{Extent: n.Shape[k], Dst: n.Strides[0][k], Src: n.Strides[1][k]}
	a.Magic, a.Shift = magic(a.Extent)
	return a
}

func magic(extent int64) (magic, shift uint32) {
	if extent < 2 {
		return 0, 0
	}
	shift = uint32(bits.Len32(uint32(extent - 1)))
	return uint32((uint64(1)<<(31+shift) + uint64(extent) - 1) / uint64(extent)), shift - 1
}

// sector is the number of bytes that memory is written in. Bytes of one that are
// written apart cost as much as all of it, and more where it must be read first.
const sector = 32

// Tiles moves units through tiles in a block's shared memory, where the axes that
// vary fastest in the source and in the destination differ. A tile has two
// sides: A, units that are near each other in the destination, and B, those that
// are in the source. Each side counts the items of one or more axes, the fastest
// first, as one; a tile is 2^LogA by 2^LogB of them.
type Tiles struct {
	ItemsA, ItemsB   int32
	AxesA, AxesB     int32
	Batch            int32 // axes of which each place has its own tiles
	LogA, LogB       int32
	ChunksA, ChunksB int32 // tiles along each side
	// Group is how many tiles along B come next to each other before those along
	// A.
	Group int32
	// Halo is not 0 where A is a gapless run of the destination, in which rows
	// begin anywhere: each row's cuts are moved back to a whole sector, by up to
	// Halo items.
	Halo int32
	// RunB: B is a gapless run of the source.
	RunB int32
	Axes [MaxAxes]Axis // of A, of B, and the others
}

// NewTiles plans a nest of a destination and a source in units of width bytes.
// It answers false where both have one fastest axis, or the source repeats one
// value along the destination's. align has the destination's address.
func NewTiles(width int64, align uint64, n layout.Nest) (*Tiles, bool) {
	last := len(n.Shape) - 1
	if last < 1 || n.Strides[1][last] == 0 {
		return nil, false
	}
	bySrc := rising(n.Strides[1])
	if bySrc[0] == last || abs(n.Strides[1][bySrc[0]]) == abs(n.Strides[1][last]) {
		return nil, false
	}
	free := make([]bool, len(n.Shape))
	for k := range free {
		free[k] = true
	}
	free[bySrc[0]] = false
	t := &Tiles{}
	t.LogA, t.LogB = shape(width)
	byDst := rising(n.Strides[0])
	a, itemsA, runA := side(n, 0, width, 1<<t.LogA, byDst, free)
	free[bySrc[0]] = true
	b, itemsB, runB := side(n, 1, width, 1<<t.LogB, bySrc, free)
	t.ItemsA, t.ItemsB = int32(itemsA), int32(itemsB)
	t.AxesA, t.AxesB = int32(len(a)), int32(len(b))
	t.fit()
	if runB {
		t.RunB = 1
	}
	axes := append(a, b...)
	for _, k := range byDst {
		if free[k] {
			axes = append(axes, k)
			t.Batch++
		}
	}
	for i, k := range axes {
		t.Axes[i] = newAxis(n, k)
		if i >= len(a) {
			align |= uint64(n.Strides[0][k])
		}
	}
	if runA && align%sector != 0 && t.LogA+t.LogB == 12 && width == 4 && t.LogA == 6 {
		t.Halo = int32(sector/width) - 1
	}
	t.ChunksA = (t.ItemsA+t.Halo-1)>>t.LogA + 1
	t.ChunksB = (t.ItemsB-1)>>t.LogB + 1
	t.Group = min(8, t.ChunksB)
	return t, true
}

// Blocks is the number of tiles.
func (t *Tiles) Blocks() int64 {
	n := int64(t.ChunksA) * int64(t.ChunksB)
	for _, a := range t.Axes[t.AxesA+t.AxesB:][:t.Batch] {
		n *= a.Extent
	}
	return n
}

// shape is that of tiles in which rows of both sides are some sectors, and all is
// 16 KiB at most.
func shape(width int64) (logA, logB int32) {
	switch width {
	case 8:
		return 6, 5
	case 16:
		return 5, 5
	default:
		return 6, 6
	}
}

// maxLog is the longest side of a tile.
const maxLog = 9

// fit makes tiles slimmer along a side that has few items, and longer along the
// other.
func (t *Tiles) fit() {
	most := t.LogA + t.LogB
	logA, logB := log(t.ItemsA), log(t.ItemsB)
	t.LogA, t.LogB = min(t.LogA, logA), min(t.LogB, logB)
	t.LogA = min(max(t.LogA, most-t.LogB), logA, maxLog)
	t.LogB = min(max(t.LogB, most-t.LogA), logB, maxLog)
}

// log is the logarithm to the base of 2 of the next power of two.
func log(n int32) int32 { return int32(bits.Len32(uint32(n - 1))) }

// side takes axes in an order: those that are a gapless run of the operand, and
// more until there are enough items. It answers whether all are a run.
func side(n layout.Nest, operand int, width, enough int64, order []int, free []bool) (axes []int, items int64, run bool) {
	strides := n.Strides[operand]
	items, run = 1, true
	for _, k := range order {
		if !free[k] || strides[k] == 0 && len(axes) > 0 {
			continue
		}
		gapless := run && strides[k] == items*width
		if !gapless && items >= enough {
			break
		}
		run = gapless
		axes = append(axes, k)
		items *= n.Shape[k]
		free[k] = false
	}
	return axes, items, run
}

// rising is the order of axes by which their strides rise, with those of 0 last.
// Of equal ones the later axis comes first.
func rising(strides []int64) []int {
	order := make([]int, len(strides))
	for i := range order {
		order[i] = len(strides) - 1 - i
	}
	key := func(k int) uint64 { return uint64(abs(strides[k])) - 1 }
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(key(i), key(j)) })
	return order
}

func abs(n int64) int64 { return max(n, -n) }
