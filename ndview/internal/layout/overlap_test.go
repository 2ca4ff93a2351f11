package layout_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// touched returns the number of elements of a run that contain each byte.
func touched(r layout.Run) map[int64]int {
	bytes := map[int64]int{}
	for _, at := range visits(r.Shape, [][]int64{r.Strides}, []int64{r.Offset}) {
		for b := range r.Size {
			bytes[at[0]+b]++
		}
	}
	return bytes
}

func randomRun(r *rand.Rand, axes int, reach, extent, far int64) layout.Run {
	run := layout.Run{Offset: r.Int64N(far), Size: 1 + r.Int64N(4)}
	for range r.IntN(axes + 1) {
		run.Shape = append(run.Shape, r.Int64N(extent))
		run.Strides = append(run.Strides, r.Int64N(2*reach+1)-reach)
	}
	return run
}

func TestOverlapMatchesByteSets(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	seen := map[bool]int{}
	for range 20000 {
		a, b := randomRun(r, 4, 40, 5, 60), randomRun(r, 4, 40, 5, 60)
		switch r.IntN(3) {
		case 0: // long axes
			a, b = randomRun(r, 2, 300, 25, 900), randomRun(r, 2, 300, 25, 900)
		case 1: // multiples, with gaps between elements
			for _, run := range []*layout.Run{&a, &b} {
				for i := range run.Strides {
					run.Strides[i] *= 6
				}
				run.Size = 1 + r.Int64N(2)
			}
		}
		want := false
		inB := touched(b)
		for at := range touched(a) {
			want = want || inB[at] > 0
		}
		seen[want]++
		require.Equal(t, want, layout.Overlap(a, b), "%+v %+v", a, b)
		require.Equal(t, want, layout.Overlap(b, a), "%+v %+v", b, a)
	}
	assert.Greater(t, min(seen[true], seen[false]), 1500)
}

func TestOverlapsMatchesByteSets(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	seen := map[bool]int{}
	for range 20000 {
		run := randomRun(r, 4, 60, 5, 9)
		if r.IntN(2) == 0 {
			run = randomRun(r, 3, 900, 14, 9)
		}
		want := false
		for _, n := range touched(run) {
			want = want || n > 1
		}
		seen[want]++
		require.Equal(t, want, run.Overlaps(), "%+v", run)
	}
	assert.Greater(t, min(seen[true], seen[false]), 1500)
}

func TestOverlapOfLargeArraysIsFast(t *testing.T) {
	const k, m, g = 1 << 10, 1 << 20, 1 << 30
	tests := []struct {
		name string
		a, b layout.Run
		want bool
	}{
		{"even and odd elements", layout.Run{0, 4, []int64{g}, []int64{8}}, layout.Run{4, 4, []int64{g}, []int64{8}}, false},
		{"steps of 2 and 3", layout.Run{0, 8, []int64{g}, []int64{16}}, layout.Run{8, 8, []int64{g}, []int64{24}}, true},
		{"steps that meet beyond the end", layout.Run{0, 1, []int64{k}, []int64{m + 7}}, layout.Run{1, 1, []int64{k}, []int64{m}}, false},
		{"steps of 6 and 10", layout.Run{0, 1, []int64{g}, []int64{6}}, layout.Run{1, 1, []int64{g}, []int64{10}}, false},
		{"columns of a matrix", layout.Run{0, 4, []int64{m, 7}, []int64{4 * k, 8}}, layout.Run{4, 4, []int64{m, 7}, []int64{4 * k, 8}}, false},
		{"rows by steps of 2 and 3, columns apart", layout.Run{0, 4, []int64{m, k}, []int64{32 * k, 4}},
			layout.Run{8 * k, 4, []int64{m, k}, []int64{48 * k, 4}}, false},
		{"rows by steps of 2 and 3, columns by 3 and 2", layout.Run{0, 4, []int64{m, k}, []int64{32 * k, 12}},
			layout.Run{4, 4, []int64{m, k}, []int64{48 * k, 8}}, true},
		{"even and odd in each of 8 axes", nested(0), nested(1), false},
		{"the same in each of 8 axes", nested(0), nested(0), true},
		{"transposed", layout.Run{0, 8, []int64{m, k}, []int64{8 * k, 8}}, layout.Run{8, 8, []int64{k, m}, []int64{8, 8 * k}}, true},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, layout.Overlap(tt.a, tt.b), tt.name)
	}
}

// nested selects every second element along each of 8 axes of extent 32, from index
// first on.
func nested(first int64) layout.Run {
	r := layout.Run{Size: 1}
	stride := int64(1)
	for range 8 {
		r.Shape = append(r.Shape, 16)
		r.Strides = append(r.Strides, 2*stride)
		r.Offset += first * stride
		stride *= 32
	}
	return r
}

func TestOverlapSearchIsBounded(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	knapsack := layout.Run{Size: 1}
	for range 40 {
		knapsack.Shape = append(knapsack.Shape, 2)
		knapsack.Strides = append(knapsack.Strides, 1<<40+2*r.Int64N(1<<39))
	}
	layout.Overlap(knapsack, layout.Run{Offset: 20<<40 + 12345, Size: 1})
	knapsack.Overlaps()
}
