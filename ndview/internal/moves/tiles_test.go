package moves_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
	"github.com/quiver-gpu/quiver/ndview/internal/moves"
)

const sector = 32

// writes counts how often the tiles of a plan, of side items along A, write each
// item of it in the row of the destination that begins at an address. It does
// what the kernel does.
func writes(t *moves.Tiles, kernel string, side int, width, row uint64) []int {
	written := make([]int, t.ItemsA)
	for chunk := range int(t.ChunksA) {
		a0, back := chunk*side, 0
		if t.Halo != 0 {
			back = int((row+uint64(a0)*width)%sector) / int(width)
		}
		end := a0 - back + side
		if kernel == "sectors" && chunk == int(t.ChunksA)-1 {
			end = a0 + side
		}
		for a := max(a0-back, 0); a < min(end, int(t.ItemsA)); a++ {
			written[a]++
		}
	}
	return written
}

// sidesA are those of the kernels' tiles.
var sidesA = map[string]map[int64]int{
	"tiles": {4: 64, 8: 64, 16: 32}, "sectors": {4: 128, 8: 128, 16: 64}, "words": {1: 128, 2: 128}, "runs": {1: 256, 2: 128},
}

func TestTilesWriteEachItemOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	planned := map[string]int{}
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
		src := layout.C(width, shape)
		r.Shuffle(len(src), func(i, j int) {
			shape[i], shape[j] = shape[j], shape[i]
			src[i], src[j] = src[j], src[i]
		})
		n := layout.Collapse(shape, layout.C(width, shape), src)
		address := uint64(r.Int64N(64)) * uint64(width)
		if even {
			address &^= 7
		}
		plan, kernel, ok := moves.NewTiles(width, address, 0, n)
		if !ok {
			continue
		}
		planned[kernel]++
		side, fixed := sidesA[kernel][width]
		switch {
		case kernel == "oddlines" || kernel == "oddruns":
			side = int(plan.SideA)
			requireOdd(t, plan, kernel, width)
		case kernel == "matrices" || kernel == "lines":
			side = int(plan.ItemsA)
			requireMatrices(t, plan, kernel, width)
		case !fixed:
			// What slim.cu has room for.
			units := 16384 / max(width, 4)
			require.LessOrEqual(t, int64(1)<<plan.LogA*(int64(1)<<plan.LogB+1), units+512, "%+v", plan)
			require.LessOrEqual(t, max(plan.LogA, plan.LogB), int32(9))
			require.Zero(t, plan.Halo)
			side = 1 << plan.LogA
		}
		for b := range uint64(5) {
			for item, times := range writes(plan, kernel, side, uint64(width), address+b*uint64(width)) {
				if times != 1 {
					require.Failf(t, "wrong", "item %d is written %d times: width %d, shape %v, strides %v, %+v", item, times, width, n.Shape, n.Strides, plan)
				}
			}
		}
		require.Equal(t, layout.Product(n.Shape), layout.Product(plan.Nest().Shape))
		last := plan.Blocks() - 1
		require.Equal(t, last/int64(plan.ChunksA), by(plan.ByChunksA, last))
		rest := last / int64(plan.ChunksA)
		require.Equal(t, rest/int64(plan.ChunksB), by(plan.ByChunksB, rest))
	}
	for _, kernel := range []string{"tiles", "sectors", "words", "runs", "lines", "oddruns", "oddlines", "matrices", "slim"} {
		assert.Greater(t, planned[kernel], 10, kernel)
	}
}

// requireMatrices wants tiles to have room for matrices, of which the items of B
// follow those of A.
func requireMatrices(t *testing.T, plan *moves.Tiles, kernel string, width int64) {
	items, divisor := int64(plan.ItemsA), int64(plan.ItemsA)
	if kernel == "lines" {
		divisor *= width
		require.LessOrEqual(t, divisor, int64(256))
	} else {
		require.LessOrEqual(t, items, int64(256))
		require.LessOrEqual(t, int64(plan.SideB)*width, int64(256))
		require.LessOrEqual(t, items*int64(plan.SideB|1)*width, int64(32<<10))
	}
	for i := range items * int64(plan.SideB) * width / 7 {
		require.Equal(t, 7*i/divisor, by(plan.By, 7*i))
	}
	require.Equal(t, items*width, plan.Axes[plan.AxesA].Dst)
}

// requireOdd wants room for the image of a tile and for the tables beside it, and
// that rows of the image lie as those of the destination do.
func requireOdd(t *testing.T, plan *moves.Tiles, kernel string, width int64) {
	unit := 4 / width
	columns := (int64(plan.SideB) + unit - 1) / unit * unit
	require.LessOrEqual(t, columns, 256/width)
	stride := plan.Axes[plan.AxesA].Dst
	require.NotZero(t, stride/width%4)
	if kernel == "oddlines" {
		require.Equal(t, int64(plan.ItemsA)*width, stride)
		require.LessOrEqual(t, plan.ItemsA, int32(256))
		require.LessOrEqual(t, columns*stride+16, int64(plan.Shared))
		require.LessOrEqual(t, plan.Shared, int32(48<<10-256*8))
		return
	}
	side, halo, rounds := int64(plan.SideA), sector/width, int64(64)
	if width == 2 {
		rounds = 32
	}
	require.Zero(t, side%halo)
	require.LessOrEqual(t, max(halo+(side+rounds-1)/rounds*rounds, (side+halo+rounds-1)/rounds*rounds), int64(352), "rows of a tile")
	pitch := int64(plan.Pitch)
	require.Zero(t, (pitch-stride)%16)
	require.GreaterOrEqual(t, pitch, (side+halo)*width+15)
	require.LessOrEqual(t, columns*pitch, int64(plan.Shared))
	require.LessOrEqual(t, plan.Shared, int32(48<<10-352*8-128*(8+2+1)))
	for i := range int64(plan.SideB) * side * width / 16 {
		require.Equal(t, i/(side*width/16), by(plan.By, i))
	}
}

func TestTilesAreGroupedUnlessTheyWriteARun(t *testing.T) {
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
		plan, kernel, ok := moves.NewTiles(4, 0, 0, layout.Nest{Shape: tt.shape, Strides: strides, Offsets: []int64{0, 0}})
		require.True(t, ok, tt.name)
		assert.Equal(t, "sectors", kernel, tt.name)
		assert.Equal(t, tt.group, plan.Group, tt.name)
	}
}

func TestLongRowsOfLargeUnitsAreMovedOneAThread(t *testing.T) {
	for _, tt := range []struct {
		width, length, dst, src int64
		kernel                  string
	}{
		{16, 1000, 16, -16, "units"}, {16, 256, 48, 16, "units"}, {16, 255, 48, 16, "rows"},
		{8, 1000, 16, 8, "units"}, {8, 1000, 24, 8, "rows"}, {8, 1000, 8, 16, "rows"}, {4, 1000, 8, 4, "rows"},
	} {
		shape, strides := []int64{3, tt.length}, [][]int64{{tt.length * 64, tt.dst}, {tt.length * 64, tt.src}}
		r, kernel := moves.NewRows(tt.width, layout.Nest{Shape: shape, Strides: strides, Offsets: []int64{0, 0}})
		require.Equal(t, tt.kernel, kernel, "%+v", tt)
		blocks, threads := r.Grid(kernel, tt.width)
		if kernel == "units" {
			require.Equal(t, int64(256), threads)
			require.Equal(t, (3*tt.length-1)/256+1, blocks, "%+v", tt)
		}
	}
}

func TestRowsThatFollowOneAnotherAreChains(t *testing.T) {
	nest := func(shape, dst, src []int64) layout.Nest {
		return layout.Nest{Shape: shape, Strides: [][]int64{dst, src}, Offsets: []int64{0, 0}}
	}
	for _, tt := range []struct {
		nest   layout.Nest
		kernel string
	}{
		{nest([]int64{7, 5, 16}, []int64{320, 64, 4}, []int64{64, 4480, 4}), "chains"},
		{nest([]int64{1000, 511}, []int64{2044, 4}, []int64{2044, -4}), "chains"},
		{nest([]int64{7, 5, 16}, []int64{384, 64, 4}, []int64{64, 4480, 4}), "spans"},
		{nest([]int64{1000, 15}, []int64{60, 4}, []int64{64, 4}), "rows"},
	} {
		r, kernel := moves.NewRows(4, tt.nest)
		require.Equal(t, tt.kernel, kernel, "%+v", tt.nest)
		blocks, threads := r.Grid(kernel, 4)
		require.Equal(t, layout.Product(tt.nest.Shape), layout.Product(r.Nest().Shape))
		if kernel == "chains" {
			require.Greater(t, 2*4*blocks*threads, layout.Product(tt.nest.Shape), "one unit more where words begin before the first")
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
		rows, _ := moves.NewRows(8, layout.Nest{Shape: []int64{extent}, Strides: [][]int64{{8}, {4}}, Offsets: []int64{0, 0}})
		for _, item := range []int64{0, 1, extent - 1, extent, math.MaxInt32, math.MaxInt32 - 1, r.Int64N(math.MaxInt32)} {
			require.Equal(t, item/extent, by(rows.ByLength, item), "%d / %d", item, extent)
		}
	}
}
