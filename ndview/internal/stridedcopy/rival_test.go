package stridedcopy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
	"github.com/quiver-gpu/quiver/ndview/internal/stridedcopy"
)

// What is the fastest of these permuted arrays was measured on an H200.
func TestTheFastestKernelIsChosen(t *testing.T) {
	const none, tight, small, large = 0, 16 << 10, 46 << 10, 110 << 10 // rooms that bricks may take
	for _, tt := range []struct {
		width  int64
		shape  []int64
		order  []int
		rival  stridedcopy.Kernel
		within int32 // a room, and more than the next
	}{
		{1, []int64{32768, 32768}, []int{1, 0}, "word_tiles", none},
		{1, []int64{272, 104, 14960}, []int{0, 2, 1}, "word_tiles", none},
		{1, []int64{300, 104, 13440}, []int{0, 2, 1}, "word_tiles", none},
		{1, []int64{55192, 7600}, []int{1, 0}, "run_tiles", none},
		{1, []int64{183092, 2932}, []int{1, 0}, "run_tiles", none}, // squares of 4 bytes
		{1, []int64{356, 7656, 154}, []int{2, 0, 1}, "run_tiles", none},
		{1, []int64{103, 1755, 2329}, []int{2, 0, 1}, "run_tiles", none},
		{1, []int64{957, 5, 473, 193}, []int{0, 1, 3, 2}, "run_tiles", none},
		{1, []int64{149280, 3592}, []int{1, 0}, "run_tiles", none},
		{1, []int64{24160, 17360}, []int{1, 0}, "run_tiles", large},            // squares that begin at sectors
		{1, []int64{608, 870, 796}, []int{2, 1, 0}, "run_tiles", large},        // tiles that are hardly filled
		{1, []int64{14, 748, 182, 208}, []int{3, 0, 1, 2}, "run_tiles", large}, // long runs
		{1, []int64{464, 13296, 64}, []int{1, 2, 0}, "run_tiles", large},       // A ends in half of them
		{1, []int64{192, 6908, 314}, []int{1, 2, 0}, "run_tiles", small},       // squares within runs
		{1, []int64{7003, 523, 147}, []int{0, 2, 1}, "run_tiles", small},       // few rows
		{1, []int64{36, 11650844}, []int{1, 0}, "matrix_word_tiles", none},
		{1, []int64{2000, 120, 1750}, []int{0, 2, 1}, "matrix_word_tiles", none},
		{1, []int64{142, 1986, 1884}, []int{1, 2, 0}, "matrix_word_tiles", none},
		{1, []int64{68, 6118894}, []int{1, 0}, "matrix_word_tiles", small},
		{1, []int64{4, 1162, 240, 412}, []int{0, 1, 3, 2}, "matrix_word_tiles", large},
		{1, []int64{94, 174, 25678}, []int{1, 2, 0}, "matrix_byte_tiles", none},
		{1, []int64{201, 3147, 667}, []int{1, 0, 2}, "vector_rows", small},
		{1, []int64{60, 3244, 2200}, []int{1, 0, 2}, "vector_rows", none},
		{2, []int64{105520, 1984}, []int{1, 0}, "word_tiles", small},
		{2, []int64{2000, 120, 2236}, []int{0, 2, 1}, "word_tiles", none},
		{2, []int64{1800, 116, 1280}, []int{0, 2, 1}, "word_tiles", none},
		{2, []int64{44, 1156, 80, 132}, []int{1, 2, 3, 0}, "word_tiles", small},
		{2, []int64{176, 72, 284, 76}, []int{2, 0, 3, 1}, "word_tiles", small},
		{2, []int64{52, 128, 576, 54}, []int{1, 3, 0, 2}, "run_tiles", small}, // squares of 4 bytes, and few columns
		{2, []int64{20, 2424, 4368}, []int{0, 2, 1}, "run_tiles", large},
		{2, []int64{50, 742, 5604}, []int{2, 1, 0}, "run_tiles", none},
		{2, []int64{60, 2142, 1640}, []int{1, 2, 0}, "word_tiles", small},
		{2, []int64{99108, 2710}, []int{1, 0}, "run_tiles", none},
		{2, []int64{142, 1477760}, []int{1, 0}, "run_tiles", small},
		{2, []int64{1125, 343, 545}, []int{2, 1, 0}, "run_tiles", none},
		{2, []int64{255, 127, 127, 127}, []int{2, 1, 3, 0}, "run_tiles", large}, // of one tile
		{2, []int64{85, 2468075}, []int{1, 0}, "matrix_byte_tiles", small},
		{4, []int64{16, 159, 789, 68}, []int{1, 3, 0, 2}, "run_tiles", small},
		{4, []int64{2518, 2914, 37}, []int{0, 2, 1}, "run_tiles", small},
		{4, []int64{132, 291, 332, 10}, []int{2, 1, 3, 0}, "run_tiles", large},
		{4, []int64{7409, 198, 91}, []int{0, 2, 1}, "run_tiles", large},
		{4, []int64{36, 275, 490, 56}, []int{3, 2, 1, 0}, "run_tiles", none},
		{4, []int64{187, 11918, 120}, []int{2, 0, 1}, "run_tiles", none},
		{4, []int64{412, 1512, 216}, []int{1, 2, 0}, "run_tiles", none},
		{4, []int64{4004, 33524}, []int{1, 0}, "run_tiles", none},
		{4, []int64{48, 15024, 144}, []int{2, 0, 1}, "tiles", large},
		{4, []int64{104, 190, 1078, 6}, []int{1, 2, 3, 0}, "tiles", large}, // squares within runs
		{4, []int64{184, 34, 64, 274}, []int{0, 3, 2, 1}, "tiles", none},
		{4, []int64{128, 128, 128, 64}, []int{2, 1, 3, 0}, "tiles", none},
		{8, []int64{162, 682, 30, 18}, []int{3, 1, 2, 0}, "tiles", large},
		{8, []int64{394, 8, 18, 1046}, []int{3, 2, 1, 0}, "sector_tiles", none},
		{16, []int64{3, 22369621}, []int{1, 0}, "narrow_tiles", tight},
	} {
		src := layout.C(tt.width, tt.shape)
		var shape, strides []int64
		for _, k := range tt.order {
			shape, strides = append(shape, tt.shape[k]), append(strides, src[k])
		}
		n := layout.Collapse(shape, layout.C(tt.width, shape), strides)
		tiles, kernel, ok := stridedcopy.NewTiles(tt.width, 0, 0, n, memory)
		if !ok {
			_, kernel = stridedcopy.NewRows(tt.width, n)
		}
		require.Equal(t, tt.rival, kernel, "%+v", tt)
		p, ok := stridedcopy.NewBoxTiles(tt.width, 0, 0, n, stridedcopy.BoxTileMemory(tt.width*layout.Product(shape), 227<<10), kernel, tiles)
		require.Equal(t, tt.within > none, ok, "%+v", tt)
		if ok {
			require.LessOrEqual(t, p.Shared, tt.within, "%+v", tt)
			require.Equal(t, tt.within == large, p.Shared > small, "%+v", tt)
			kernel = "box_tiles"
		}
		require.Equal(t, kernel, stridedcopy.New(tt.width, 0, 0, n, memory).Kernel, "%+v", tt)
	}
}

// Where only short runs have room, bricks are faster than these as they are than others.
func TestShortRunsAreBeatenAsLongOnes(t *testing.T) {
	for shape, beaten := range map[[3]int64]bool{{608, 870, 796}: true, {103, 1755, 2329}: false} {
		src := layout.C(1, shape[:])
		turned, strides := []int64{shape[2], shape[1], shape[0]}, []int64{src[2], src[1], src[0]}
		n := layout.Collapse(turned, layout.C(1, turned), strides)
		for memory, want := range map[int64]stridedcopy.Kernel{memory: "run_tiles", 99 << 10: "short_run_tiles"} {
			tiles, kernel, ok := stridedcopy.NewTiles(1, 0, 0, n, memory)
			require.True(t, ok)
			require.Equal(t, want, kernel)
			_, ok = stridedcopy.NewBoxTiles(1, 0, 0, n, 110<<10, kernel, tiles)
			require.Equal(t, beaten, ok, "%s of %v", kernel, shape)
		}
	}
}

func TestBricksReplaceWhatIsSlower(t *testing.T) {
	nest := func(shape, dst, src []int64) layout.Nest {
		return layout.Nest{Shape: shape, Strides: [][]int64{dst, src}, Offsets: []int64{0, 0}}
	}
	turned := nest([]int64{3, 1 << 20}, []int64{4 << 20, 4}, []int64{4, 12})
	for _, tt := range []struct {
		name    string
		n       layout.Nest
		instead stridedcopy.Kernel
		bricks  bool
	}{
		{"an axis of 3 items", turned, "narrow_tiles", true},
		{"a kernel that is as fast as memory", turned, "joined_rows", false},
		{"a source turned around", nest([]int64{3, 1 << 20}, []int64{4 << 20, 4}, []int64{-4, 12}), "narrow_tiles", false},
		{"each second unit of the source", nest([]int64{3, 1 << 20}, []int64{4 << 20, 4}, []int64{8, 24}), "narrow_tiles", false},
		{"short rows of a long run", nest([]int64{64, 1 << 14, 3}, []int64{12 << 14, 12, 4}, []int64{12, 12 << 6, 4}), "rows", true},
		{"short rows with gaps", nest([]int64{1 << 20, 3}, []int64{12, 4}, []int64{400, 4}), "rows", false},
		{"an axis of 65 items", nest([]int64{65, 1 << 20}, []int64{4 << 20, 4}, []int64{4, 4 * 65}), "sector_tiles", true},
		{"an axis that fills a tile", nest([]int64{63, 1 << 20}, []int64{4 << 20, 4}, []int64{4, 4 * 63}), "sector_tiles", false},
		{"runs that are too short", nest([]int64{1 << 12, 1 << 12}, []int64{4 << 12, 4}, []int64{4, 4 << 12}), "tiles", false},
	} {
		_, ok := stridedcopy.NewBoxTiles(4, 0, 0, tt.n, 46<<10, tt.instead, nil)
		require.Equal(t, tt.bricks, ok, tt.name)
	}
}

// Tiles across an axis that hardly fills them are slower than bricks, sooner where
// those have a large room.
func TestBricksReplaceTilesThatAreHardlyFilled(t *testing.T) {
	for _, tt := range []struct {
		width, planes, columns int64
		small, large           bool
	}{
		{4, 120, 120, false, true},
		{4, 126, 126, false, false},
		{8, 100, 100, false, true},
		{8, 120, 120, false, true},
		{8, 180, 180, false, false},
		{8, 110, 110, false, false}, // whose rows begin anywhere
	} {
		const rows = 26843
		n := layout.Nest{
			Shape: []int64{tt.columns, rows, tt.planes},
			Strides: [][]int64{
				{tt.width * rows * tt.planes, tt.width * tt.planes, tt.width},
				{tt.width, tt.width * tt.columns, tt.width * tt.columns * rows},
			},
			Offsets: []int64{0, 0},
		}
		tiles, kernel, ok := stridedcopy.NewTiles(tt.width, 0, 0, n, memory)
		require.True(t, ok)
		for room, bricks := range map[int64]bool{46 << 10: tt.small, 110 << 10: tt.large} {
			_, ok := stridedcopy.NewBoxTiles(tt.width, 0, 0, n, room, kernel, tiles)
			require.Equal(t, bricks, ok, "%+v %s %d", tt, kernel, room)
		}
	}
}

// Tiles of small units are as fast as memory where all are full, and bricks faster
// where many are not.
func TestBricksReplaceTilesThatAreNotFull(t *testing.T) {
	const rows = 1 << 20
	for columns, bricks := range map[int64]bool{128: false, 1024: false, 80: true, 208: true, 1008: true} {
		for _, n := range []layout.Nest{
			{Shape: []int64{columns, rows}, Strides: [][]int64{{2 * rows, 2}, {2, 2 * columns}}, Offsets: []int64{0, 0}},
			{Shape: []int64{rows, columns}, Strides: [][]int64{{2 * columns, 2}, {2, 2 * rows}}, Offsets: []int64{0, 0}},
		} {
			tiles, kernel, ok := stridedcopy.NewTiles(2, 0, 0, n, memory)
			require.True(t, ok)
			require.EqualValues(t, "word_tiles", kernel)
			_, ok = stridedcopy.NewBoxTiles(2, 0, 0, n, 110<<10, kernel, tiles)
			require.Equal(t, bricks, ok, "%v", n)
		}
	}
}
