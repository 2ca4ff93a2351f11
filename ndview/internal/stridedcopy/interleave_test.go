package stridedcopy_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
	"github.com/quiver-gpu/quiver/ndview/internal/stridedcopy"
)

// randomPlanes returns a nest of planes and rows of one unit of each, with other outer
// axes, and whether the planes are in the destination. The planes may be reversed.
func randomPlanes(r *rand.Rand, width, planes, length int64) (n layout.Nest, apart bool) {
	outer := []int64{1 + r.Int64N(3), 1 + r.Int64N(3)}
	shape := []int64{outer[0], outer[1], planes, length}
	planar := layout.CStrides(width, shape)
	for i := range 2 {
		planar[i] += width * r.Int64N(5) * int64(1-i) // a gap between groups of planes
	}
	rows := layout.CStrides(width, []int64{outer[0], outer[1], length, planes})
	rows[2], rows[3] = rows[3], rows[2]
	if apart = r.IntN(2) == 0; apart {
		return layout.Collapse(shape, planar, rows), apart
	}
	if r.IntN(3) == 0 {
		planar[2] = -planar[2]
	}
	return layout.Collapse(shape, rows, planar), apart
}

func TestInterleaveCopiesEachUnitOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 60 {
		width, planes := int64(1+r.IntN(2)), int64(2+r.IntN(7))
		n, apart := randomPlanes(r, width, planes, 1024+r.Int64N(5000))
		w, kernel, ok := stridedcopy.NewInterleave(width, n)
		if apart && planes*width%8 == 0 {
			require.False(t, ok, "rows of %d bytes taken apart", planes*width)
			continue
		}
		require.True(t, ok, "%+v", n)
		require.EqualValues(t, map[bool]string{false: "interleave", true: "deinterleave"}[apart]+fmt.Sprint(planes), kernel)
		require.Contains(t, stridedcopy.Images["copy/interleave"], kernel)
		require.LessOrEqual(t, w.Plan(kernel).Shared, int64(48<<10))

		// What kernels/copy/interleave.cu does, with a number per unit.
		written := map[int64]int64{}
		for id := range w.Blocks() {
			batch := id / int64(w.Chunks)
			first := (id - batch*int64(w.Chunks)) * int64(w.Extent)
			length := min(int64(w.Extent), int64(w.Whole)-first)
			require.Positive(t, length)
			require.GreaterOrEqual(t, int64(w.Pitch), length*width+48)
			require.GreaterOrEqual(t, int64(w.Rows), length*width*planes+48)
			dst, src := offsetsOf(w.Axes[:w.Count], batch)
			for i := range length {
				for k := range planes {
					inRow, inPlane := ((first+i)*planes+k)*width, (first+i)*width+k*w.Plane
					to, from := dst+inRow, src+inPlane
					if apart {
						to, from = dst+inPlane, src+inRow
					}
					if _, twice := written[to]; twice || from < w.Begin || from+width > w.End {
						require.Failf(t, "a unit is written twice, or read beyond the source", "%+v", w)
					}
					written[to] = from
				}
			}
		}
		units := layout.Product(n.Shape)
		require.Len(t, written, int(units))
		for _, nest := range []layout.Nest{n, w.Nest()} {
			for i := range units {
				var d, s int64
				rest := i
				for k := len(nest.Shape) - 1; k >= 0; k-- {
					d += rest % nest.Shape[k] * nest.Strides[0][k]
					s += rest % nest.Shape[k] * nest.Strides[1][k]
					rest /= nest.Shape[k]
				}
				if written[d] != s {
					require.Failf(t, "wrong", "%+v %+v", nest, w)
				}
			}
		}
	}
}

func TestInterleaveRequiresPlanesOfSmallUnits(t *testing.T) {
	nest := func(shape, dst, src []int64) layout.Nest {
		return layout.Nest{Shape: shape, Strides: [][]int64{dst, src}, Offsets: []int64{0, 0}}
	}
	for _, tt := range []struct {
		name  string
		width int64
		n     layout.Nest
	}{
		{"units of 4 bytes", 4, nest([]int64{4096, 3}, []int64{12, 4}, []int64{4, 4 << 12})},
		{"nine planes", 1, nest([]int64{4096, 9}, []int64{9, 1}, []int64{1, 4096})},
		{"short planes", 1, nest([]int64{1000, 3}, []int64{3, 1}, []int64{1, 1000})},
		{"rows with gaps", 1, nest([]int64{4096, 3}, []int64{4, 1}, []int64{1, 4096})},
		{"planes with gaps", 1, nest([]int64{4096, 3}, []int64{3, 1}, []int64{2, 8192})},
		{"one axis", 1, nest([]int64{4096}, []int64{1}, []int64{2})},
	} {
		_, _, ok := stridedcopy.NewInterleave(tt.width, tt.n)
		require.False(t, ok, tt.name)
	}
}
