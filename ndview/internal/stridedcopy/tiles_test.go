package stridedcopy_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
	"github.com/quiver-gpu/quiver/ndview/internal/stridedcopy"
)

const (
	sector = 32
	memory = 227 << 10 // shared memory per block of an H200
)

// countWrites does what the kernel does: it counts how often the tiles of a plan, of
// side items along A, write each item of the row of the destination that begins at an
// address.
func countWrites(t *stridedcopy.Tiles, side int, width, row uint64) []int {
	written := make([]int, t.ItemsA)
	for chunk := range int(t.ChunksA) {
		a0, back := chunk*side, 0
		if t.Halo != 0 {
			back = int((row+uint64(a0)*width)%sector) / int(width)
		}
		end := a0 - back + side
		if t.Halo != 0 && chunk == int(t.ChunksA)-1 { // ends where A ends
			end = a0 + side
		}
		for a := max(a0-back, 0); a < min(end, int(t.ItemsA)); a++ {
			written[a]++
		}
	}
	return written
}

// sidesA are the sides of the kernels' tiles.
var sidesA = map[stridedcopy.Kernel]map[int64]int{
	"tiles": {4: 64, 8: 64, 16: 32}, "sector_tiles": {4: 128, 8: 128, 16: 64}, "word_tiles": {1: 128, 2: 128},
}

func TestTilesWriteEachItemOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	planned := map[stridedcopy.Kernel]int{}
	for range 5000 {
		width := int64(1) << r.IntN(5)
		shape := make([]int64, 2+r.IntN(3))
		for i := range shape {
			shape[i] = 1 + r.Int64N([]int64{4, 20, 90, 200}[r.IntN(4)])
		}
		even := r.IntN(2) == 0
		for i := range shape {
			if even {
				shape[i] = (shape[i] + 7) &^ 7
			}
		}
		src := layout.CStrides(width, shape)
		r.Shuffle(len(src), func(i, j int) {
			shape[i], shape[j] = shape[j], shape[i]
			src[i], src[j] = src[j], src[i]
		})
		n := layout.Collapse(shape, layout.CStrides(width, shape), src)
		address := uint64(r.Int64N(64)) * uint64(width)
		if even {
			address &^= 7
		}
		room := []int64{64 << 10, 99 << 10, memory}[r.IntN(3)]
		plan, kernel, ok := stridedcopy.NewTiles(width, address, 0, n, room)
		if !ok {
			continue
		}
		planned[kernel]++
		side, fixed := sidesA[kernel][width]
		switch {
		case kernel == "run_tiles" || kernel == "short_run_tiles":
			side = int(plan.SideA)
			requireRuns(t, plan, kernel, width, room)
		case kernel == "matrix_tiles" || kernel == "matrix_byte_tiles":
			side = int(plan.ItemsA)
			requireMatrices(t, plan, kernel, width)
		case !fixed:
			// The arrays of narrow_tiles.cu.
			units := 16384 / max(width, 4)
			require.LessOrEqual(t, int64(1)<<plan.LogA*(int64(1)<<plan.LogB+1), units+512, "%+v", plan)
			require.LessOrEqual(t, max(plan.LogA, plan.LogB), int32(9))
			require.Zero(t, plan.Halo)
			side = 1 << plan.LogA
		}
		for b := range uint64(5) {
			for item, times := range countWrites(plan, side, uint64(width), address+b*uint64(width)) {
				if times != 1 {
					require.Failf(t, "wrong", "item %d is written %d times: width %d, shape %v, strides %v, %+v", item, times, width, n.Shape, n.Strides, plan)
				}
			}
		}
		require.Equal(t, layout.Product(n.Shape), layout.Product(plan.Nest().Shape))
		last := plan.Blocks() - 1
		require.Equal(t, last/int64(plan.ChunksA), divide(plan.ByChunksA, last))
		rest := last / int64(plan.ChunksA)
		require.Equal(t, rest/int64(plan.ChunksB), divide(plan.ByChunksB, rest))
	}
	for _, kernel := range []stridedcopy.Kernel{"tiles", "sector_tiles", "word_tiles", "run_tiles", "short_run_tiles", "matrix_byte_tiles", "matrix_tiles", "narrow_tiles"} {
		assert.Greater(t, planned[kernel], 10, kernel)
	}
}

// requireMatrices checks that matrix tiles fit, and that the items of B follow those of
// A.
func requireMatrices(t *testing.T, plan *stridedcopy.Tiles, kernel stridedcopy.Kernel, width int64) {
	items, columns := int64(plan.ItemsA), int64(plan.SideB)
	require.Equal(t, items*width, plan.Axes[plan.AxesA].Dst)
	require.LessOrEqual(t, items, int64(256))
	require.LessOrEqual(t, columns*width, int64(256))
	switch kernel {
	case "matrix_tiles":
		require.LessOrEqual(t, items*int64(plan.SideB|1)*width, int64(32<<10))
	case "matrix_byte_tiles":
		unit := 4 / width
		whole := (columns + unit - 1) / unit * unit // columns in whole words
		require.NotZero(t, items%4)
		require.LessOrEqual(t, whole, 256/width)
		require.LessOrEqual(t, whole*items*width+16, int64(plan.Shared))
		require.LessOrEqual(t, plan.Shared, int32(48<<10-256*8))
		return
	}
	for i := range items * columns * width / 7 {
		require.Equal(t, 7*i/items, divide(plan.By, 7*i))
	}
}

// requireRuns checks that run tiles have whole sectors, that two tiles are equal, and
// that tiles have half as many items if there are few tiles or little memory.
func requireRuns(t *testing.T, plan *stridedcopy.Tiles, kernel stridedcopy.Kernel, width, room int64) {
	side, halo, most := int64(plan.SideA), sector/width, int64(256)
	if kernel == "short_run_tiles" {
		most = 128
	}
	require.Zero(t, side%halo)
	require.Equal(t, int64(256), width*int64(plan.SideB))
	switch {
	case plan.ChunksA > 2:
		require.Equal(t, most, side)
	case plan.ChunksA == 2:
		require.Less(t, 2*side-int64(plan.ItemsA), 2*halo, "%+v", plan)
	}
	require.LessOrEqual(t, side, most)
	if room == memory && width < 4 {
		whole := ((int64(plan.ItemsA)-1)/256 + 1) * int64(plan.ChunksB) * int64(plan.BatchItems)
		require.Equal(t, whole >= 96, kernel == "run_tiles", "%+v", plan)
	}
	pitch := (most+halo)*width/4 | 1
	turns := (most*width + 255) / 256
	requireShared(t, plan, width, most+halo+int64(plan.SideB), pitch, (sector+8*31+256*(turns-1)+sector)/4+2, room)
}

// requireShared checks that the shared memory holds tables of addresses, rows of the
// destination of pitch words each, an odd number, and the bytes that threads read after
// the last one.
func requireShared(t *testing.T, plan *stridedcopy.Tiles, width, places, pitch, reads, room int64) {
	require.Equal(t, int64(1), pitch%2)
	rows := 256 / width
	require.LessOrEqual(t, 8*places+4*(rows-1)*pitch+4*(reads+1), int64(plan.Shared), "%+v", plan)
	require.LessOrEqual(t, int64(plan.Shared), max(room/2-1<<10, 48<<10))
}

// Word tiles and run tiles write sides A as gapless runs.
func TestSmallUnitsWithGapsUseNarrowTiles(t *testing.T) {
	n := layout.Nest{Shape: []int64{32, 4, 12, 16}, Strides: [][]int64{{768, 192, 16, 1}, {12, 384, 1, 1536}}, Offsets: []int64{0, 0}}
	_, kernel, ok := stridedcopy.NewTiles(1, 0, 0, n, memory)
	require.True(t, ok)
	require.EqualValues(t, "narrow_tiles", kernel)
}

func TestTilesAreGroupedUnlessTheyWriteOneRun(t *testing.T) {
	for _, tt := range []struct {
		name     string
		dst, src []int64 // strides in elements
		shape    []int64
		group    int32
	}{
		{"what follows is near", []int64{16129, 1}, []int64{1, 8001}, []int64{8001, 16129}, 0},
		{"what follows is far", []int64{261121, 1}, []int64{1, 511}, []int64{511, 261121}, 16},
		{"nothing follows", []int64{2048383, 16129, 127, 1}, []int64{1, 63, 8001, 1016127}, []int64{63, 127, 127, 127}, 16},
		{"few tiles", []int64{261121, 511, 1}, []int64{1, 511, 261121}, []int64{511, 511, 511}, 0},
	} {
		strides := [][]int64{make([]int64, len(tt.shape)), make([]int64, len(tt.shape))}
		for i := range tt.shape {
			strides[0][i], strides[1][i] = 4*tt.dst[i], 4*tt.src[i]
		}
		plan, kernel, ok := stridedcopy.NewTiles(4, 0, 0, layout.Nest{Shape: tt.shape, Strides: strides, Offsets: []int64{0, 0}}, memory)
		require.True(t, ok, tt.name)
		assert.EqualValues(t, "sector_tiles", kernel, tt.name)
		assert.Equal(t, tt.group, plan.Group, tt.name)
	}
}

func TestUnitRowsAreChosenForLongRowsOfLargeUnits(t *testing.T) {
	for _, tt := range []struct {
		width, length, dst, src int64
		kernel                  stridedcopy.Kernel
	}{
		{16, 1000, 16, -16, "unit_rows"}, {16, 256, 48, 16, "unit_rows"}, {16, 255, 48, 16, "rows"},
		{8, 1000, 16, 8, "unit_rows"}, {8, 1000, 24, 8, "rows"}, {8, 1000, 8, 16, "rows"}, {4, 1000, 8, 4, "rows"},
	} {
		shape, strides := []int64{3, tt.length}, [][]int64{{tt.length * 64, tt.dst}, {tt.length * 64, tt.src}}
		r, kernel := stridedcopy.NewRows(tt.width, layout.Nest{Shape: shape, Strides: strides, Offsets: []int64{0, 0}})
		require.Equal(t, tt.kernel, kernel, "%+v", tt)
		if kernel == "unit_rows" {
			p := r.Plan(kernel, tt.width)
			require.Equal(t, int64(256), p.Threads)
			require.Equal(t, (3*tt.length-1)/256+1, p.Blocks, "%+v", tt)
		}
	}
}

func TestJoinedRowsAreChosenForContiguousRows(t *testing.T) {
	nest := func(shape, dst, src []int64) layout.Nest {
		return layout.Nest{Shape: shape, Strides: [][]int64{dst, src}, Offsets: []int64{0, 0}}
	}
	for _, tt := range []struct {
		nest   layout.Nest
		kernel stridedcopy.Kernel
	}{
		{nest([]int64{7, 5, 16}, []int64{320, 64, 4}, []int64{64, 4480, 4}), "joined_rows"},
		{nest([]int64{1000, 511}, []int64{2044, 4}, []int64{2044, -4}), "joined_rows"},
		{nest([]int64{7, 5, 16}, []int64{384, 64, 4}, []int64{64, 4480, 4}), "vector_rows"},
		{nest([]int64{1000, 15}, []int64{60, 4}, []int64{64, 4}), "rows"},
	} {
		r, kernel := stridedcopy.NewRows(4, tt.nest)
		require.Equal(t, tt.kernel, kernel, "%+v", tt.nest)
		p := r.Plan(kernel, 4)
		require.Equal(t, layout.Product(tt.nest.Shape), layout.Product(r.Nest().Shape))
		if kernel == "joined_rows" {
			require.Greater(t, 2*4*p.Blocks*p.Threads, layout.Product(tt.nest.Shape), "one unit more where words begin before the first")
		}
	}
}

func TestMagicDivides(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 20000 {
		extent := 1 + r.Int64N(int64(1)<<r.IntN(31))
		if extent > math.MaxInt32 {
			continue
		}
		rows, _ := stridedcopy.NewRows(8, layout.Nest{Shape: []int64{extent}, Strides: [][]int64{{8}, {4}}, Offsets: []int64{0, 0}})
		for _, item := range []int64{0, 1, extent - 1, extent, math.MaxInt32, math.MaxInt32 - 1, r.Int64N(math.MaxInt32)} {
			require.Equal(t, item/extent, divide(rows.ByLength, item), "%d / %d", item, extent)
		}
	}
}
