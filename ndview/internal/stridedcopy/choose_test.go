package stridedcopy_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
	"github.com/quiver-gpu/quiver/ndview/internal/stridedcopy"
)

// measuredCase is a permuted copy and the rate of each kernel, in GB/s.
type measuredCase struct {
	name  string
	width int64
	nest  layout.Nest
	rates map[stridedcopy.Kernel]float64
}

// measuredCases reads the newest record of BenchmarkCopyKernels.
func measuredCases(t *testing.T) []*measuredCase {
	files, err := filepath.Glob("../../../bench/results/*-h200-copykernels.json")
	require.NoError(t, err)
	require.NotEmpty(t, files, "no record of the topic copykernels")
	text, err := os.ReadFile(files[len(files)-1])
	require.NoError(t, err)
	var result struct {
		Records []struct {
			Name  string
			Value float64
		}
	}
	require.NoError(t, json.Unmarshal(text, &result))
	sizes := map[string]int64{"uint8": 1, "int16": 2, "float32": 4, "float64": 8, "complex128": 16}
	var cases []*measuredCase
	for _, r := range result.Records { // copykernel-permute-uint8-1024x512x2048-021-word-tiles
		parts := strings.Split(r.Name, "-")
		require.Greater(t, len(parts), 5, r.Name)
		name, kernel := strings.Join(parts[1:5], "-"), strings.Join(parts[5:], "_")
		if len(cases) == 0 || cases[len(cases)-1].name != name {
			size := sizes[parts[2]]
			require.NotZero(t, size, r.Name)
			var shape []int64
			for text := range strings.SplitSeq(parts[3], "x") {
				extent, err := strconv.ParseInt(text, 10, 64)
				require.NoError(t, err, r.Name)
				shape = append(shape, extent)
			}
			src := layout.CStrides(size, shape)
			var permuted, strides []int64
			for _, axis := range parts[4] {
				permuted, strides = append(permuted, shape[axis-'0']), append(strides, src[axis-'0'])
			}
			width, n := layout.UnitNest(size, 0, permuted, layout.CStrides(size, permuted), strides)
			n.Offsets = []int64{0, 0}
			cases = append(cases, &measuredCase{name, width, n, map[stridedcopy.Kernel]float64{}})
		}
		cases[len(cases)-1].rates[stridedcopy.Kernel(kernel)] = r.Value
	}
	return cases
}

// The rules of boxTileRules, with every other choice of New, cost at most 1% of the rate
// of the fastest kernel at the geometric mean of all measured cases, and never half of it.
func TestBoxTileRulesAreNearTheFastestKernel(t *testing.T) {
	cases := measuredCases(t)
	require.Greater(t, len(cases), 300)
	total := 0.0
	for _, c := range cases {
		chosen := c.rates[stridedcopy.New(c.width, 0, 0, c.nest, memory).Kernel]
		require.NotZero(t, chosen, "%s: the chosen kernel was not measured", c.name)
		fastest := 0.0
		for _, rate := range c.rates {
			fastest = max(fastest, rate)
		}
		require.Greater(t, chosen, fastest/2, "%s: %v", c.name, c.rates)
		total += math.Log(chosen / fastest)
	}
	mean := math.Exp(total / float64(len(cases)))
	t.Logf("%d cases: the chosen kernel has %.4f of the fastest one's rate", len(cases), mean)
	require.Greater(t, mean, 0.99)
	if os.Getenv("QUIVER_FIT") != "" {
		printFit(t, cases)
	}
}

// printFit logs, per kernel and unit, the least run of box tiles from which it is best on
// the whole to replace the kernel.
func printFit(t *testing.T, cases []*measuredCase) {
	type choice struct{ run, gain float64 }
	groups := map[string][]choice{}
	for _, c := range cases {
		kernel, run, ok := stridedcopy.BoxTileChoice(c.width, c.nest, memory)
		box, other := c.rates["box_tiles"], c.rates[kernel]
		if ok && box > 0 && other > 0 {
			key := fmt.Sprintf("%s, units of %d bytes", kernel, c.width)
			groups[key] = append(groups[key], choice{run, math.Log(box / other)})
		}
	}
	keys := make([]string, 0, len(groups))
	for key := range groups {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		group := groups[key]
		slices.SortFunc(group, func(a, b choice) int { return -int(math.Copysign(1, a.run-b.run)) })
		best, sum, from := 0.0, 0.0, math.Inf(1) // the longest runs first
		for _, c := range group {
			if sum += c.gain; sum > best {
				best, from = sum, c.run
			}
		}
		t.Logf("%-36s %2d cases: from runs of %.0f bytes, %+.3f per case", key, len(group), from, best/float64(len(group)))
	}
}

func TestCandidatesAreDifferentKernels(t *testing.T) {
	for _, width := range []int64{1, 2, 4, 8, 16} {
		shape := []int64{3000, 5000, 7}
		src := layout.CStrides(width, shape)
		permuted := []int64{7, 5000, 3000}
		n := layout.Nest{Shape: permuted, Strides: [][]int64{layout.CStrides(width, permuted), {src[2], src[1], src[0]}}, Offsets: []int64{0, 0}}
		plans := stridedcopy.Candidates(width, 0, 0, n, memory)
		require.Greater(t, len(plans), 2)
		require.Equal(t, stridedcopy.New(width, 0, 0, n, memory), plans[0])
		seen := map[stridedcopy.Kernel]bool{}
		for _, p := range plans {
			require.False(t, seen[p.Kernel], p.Kernel)
			seen[p.Kernel] = true
		}
		require.True(t, seen["rows"] && seen["box_tiles"], "%v", seen)
	}
}

func TestBoxTilesNeedContiguousUnits(t *testing.T) {
	nest := func(shape, dst, src []int64) layout.Nest {
		return layout.Nest{Shape: shape, Strides: [][]int64{dst, src}, Offsets: []int64{0, 0}}
	}
	for _, tt := range []struct {
		name    string
		n       layout.Nest
		instead stridedcopy.Kernel
		want    bool
	}{
		{"an axis of 3 items", nest([]int64{3, 1 << 20}, []int64{4 << 20, 4}, []int64{4, 12}), "narrow_tiles", true},
		{"a kernel at the speed of memory", nest([]int64{3, 1 << 20}, []int64{4 << 20, 4}, []int64{4, 12}), "joined_rows", false},
		{"a reversed source", nest([]int64{3, 1 << 20}, []int64{4 << 20, 4}, []int64{-4, 12}), "narrow_tiles", false},
		{"every second unit of the source", nest([]int64{3, 1 << 20}, []int64{4 << 20, 4}, []int64{8, 24}), "narrow_tiles", false},
		{"short rows of a long run", nest([]int64{64, 1 << 14, 3}, []int64{12 << 14, 12, 4}, []int64{12, 12 << 6, 4}), "rows", true},
		{"short rows with gaps", nest([]int64{1 << 20, 3}, []int64{12, 4}, []int64{400, 4}), "rows", false},
		{"long rows", nest([]int64{64, 1 << 14, 32}, []int64{128 << 14, 128, 4}, []int64{128, 128 << 6, 4}), "rows", false},
	} {
		_, ok := stridedcopy.NewBoxTiles(4, 0, 0, tt.n, 46<<10, tt.instead, nil)
		require.Equal(t, tt.want, ok, tt.name)
	}
}
