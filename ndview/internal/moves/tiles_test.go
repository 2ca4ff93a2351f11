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

// writes counts how often the tiles of a plan write each item of side A, in the
// row of the destination that begins at an address. It does what tiles.cu does.
func writes(t *moves.Tiles, width, row uint64) []int {
	written := make([]int, t.ItemsA)
	side := 1 << t.LogA
	for chunk := range int(t.ChunksA) {
		a0 := chunk*side - int(t.Halo)
		first, last := max(0, -a0), min(side+int(t.Halo), int(t.ItemsA)-a0)
		for a := range side {
			at := a + int(t.Halo)
			if t.Halo != 0 {
				begin := row + uint64(chunk*side)*width
				at -= int(begin%sector) / int(width)
			}
			if at >= first && at < last {
				written[a0+at]++
			}
		}
	}
	return written
}

func TestTilesWriteEachItemOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	planned := 0
	for range 3000 {
		width := int64(1) << r.IntN(5)
		shape := make([]int64, 2+r.IntN(3))
		for i := range shape {
			shape[i] = 1 + r.Int64N([]int64{4, 20, 90}[r.IntN(3)])
		}
		src := layout.C(width, shape)
		r.Shuffle(len(src), func(i, j int) {
			shape[i], shape[j] = shape[j], shape[i]
			src[i], src[j] = src[j], src[i]
		})
		n := layout.Collapse(shape, layout.C(width, shape), src)
		address := uint64(r.Int64N(64)) * uint64(width)
		plan, ok := moves.NewTiles(width, address, n)
		if !ok {
			continue
		}
		planned++
		for b := range uint64(5) {
			for item, times := range writes(plan, uint64(width), address+b*uint64(width)) {
				require.Equal(t, 1, times, "item %d of width %d: shape %v, strides %v, %+v", item, width, n.Shape, n.Strides, plan)
			}
		}
		// What tiles.cu has room for.
		units := 16384 / width
		if width < 4 {
			units = 4096
		}
		rows, columns := int64(1)<<plan.LogA+int64(plan.Halo), int64(1)<<plan.LogB+1
		require.LessOrEqual(t, rows*columns, units+512+sector/width*65, "%+v", plan)
		require.LessOrEqual(t, rows, int64(512+sector))
		require.LessOrEqual(t, columns-1, int64(512))
	}
	assert.Greater(t, planned, 1000)
}

func TestMagicDivides(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 20000 {
		extent := 2 + r.Int64N(int64(1)<<r.IntN(31))
		if extent > math.MaxInt32 {
			continue
		}
		rows := moves.NewRows(layout.Nest{Shape: []int64{extent}, Strides: [][]int64{{8}, {4}}, Offsets: []int64{0, 0}})
		for _, item := range []uint64{0, 1, uint64(extent - 1), uint64(extent), math.MaxInt32, math.MaxInt32 - 1, uint64(r.Int64N(math.MaxInt32))} {
			require.Equal(t, item/uint64(extent), item*uint64(rows.Magic)>>32>>rows.Shift, "%d / %d", item, extent)
		}
	}
}
