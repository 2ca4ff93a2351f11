package layout_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

func TestUnitsUseTheWidestUnit(t *testing.T) {
	for name, c := range map[string]struct {
		size            int64
		align           uint64
		shape, dst, src []int64
		width           int64
		want            []int64
	}{
		"a gapless run is one of 16 bytes": {4, 0, []int64{3, 8}, []int64{32, 4}, []int64{32, 4}, 16, []int64{6}},
		"so are rows of runs":              {2, 0, []int64{3, 8}, []int64{16, 2}, []int64{64, 2}, 16, []int64{3}},
		"a turned matrix keeps elements":   {4, 0, []int64{3, 8}, []int64{32, 4}, []int64{4, 12}, 4, []int64{3, 8}},
		"an address makes them smaller":    {8, 4, []int64{3, 8}, []int64{64, 8}, []int64{8, 24}, 4, []int64{3, 8, 2}},
		"a stride does too":                {4, 0, []int64{3, 8}, []int64{32, 4}, []int64{1, 6}, 1, []int64{3, 8, 4}},
		"elements of 12 bytes are three":   {12, 0, []int64{3, 8}, []int64{96, 12}, []int64{12, 36}, 4, []int64{3, 8, 3}},
		"elements of 48 are three of 16":   {48, 0, []int64{2, 2}, []int64{96, 48}, []int64{48, 96}, 16, []int64{2, 2, 3}},
		"one value":                        {8, 0, []int64{}, []int64{}, []int64{}, 8, []int64{}},
		"beyond 2^40":                      {2, 0, []int64{1 << 20, 1 << 21}, []int64{1 << 22, 2}, []int64{2, 1 << 21}, 2, []int64{1 << 20, 1 << 21}},
	} {
		width, n := layout.UnitNest(c.size, c.align, c.shape, c.dst, c.src)
		assert.Equal(t, c.width, width, name)
		assert.Equal(t, append([]int64{}, c.want...), append([]int64{}, n.Shape...), name)
	}
}

func TestNestCutCoversTheNest(t *testing.T) {
	for name, c := range map[string]struct {
		shape []int64
		axes  int
		parts int64
	}{
		"few items":            {[]int64{5, 7, 3}, 4, 1},
		"the outermost axis":   {[]int64{100, 11}, 4, 3},
		"the remainder is one": {[]int64{10, 100}, 4, 3 * 3},
		"an inner axis":        {[]int64{3, 1000}, 4, 3 * 3},
		"more axes than fit":   {[]int64{2, 2, 2, 2}, 2, 4},
	} {
		const most = 400
		n := layout.Collapse(c.shape, layout.CStrides(1, c.shape), layout.FStrides(1, c.shape))
		seen := make([]int, layout.Product(c.shape))
		parts := int64(0)
		require.NoError(t, n.Split(most, c.axes, func(part layout.Nest) error {
			parts++
			assert.LessOrEqual(t, layout.Product(part.Shape), int64(most), name)
			assert.LessOrEqual(t, len(part.Shape), c.axes, name)
			assert.NotContains(t, part.Shape, int64(1), name)
			visit(part.Shape, part.Strides[0], part.Offsets[0], func(at int64) { seen[at]++ })
			return nil
		}), name)
		for at, times := range seen {
			require.Equal(t, 1, times, "%s: item %d", name, at)
		}
		assert.GreaterOrEqual(t, c.parts, parts, name)
	}
}

// TestNestCutOfHugeNest counts parts of at least 2^31 units.
func TestNestCutOfHugeNest(t *testing.T) {
	shape := []int64{3, 1 << 20, 1 << 21}
	n := layout.Collapse(shape, layout.CStrides(2, shape), layout.FStrides(2, shape))
	units, last := int64(0), int64(-1)
	require.NoError(t, n.Split(1<<31-1, 16, func(part layout.Nest) error {
		assert.Less(t, layout.Product(part.Shape), int64(1<<31))
		assert.Greater(t, part.Offsets[0], last, "in the order of the destination")
		assert.Equal(t, 2*units, part.Offsets[0])
		units += layout.Product(part.Shape)
		last = part.Offsets[0]
		return nil
	}))
	assert.Equal(t, layout.Product(shape), units)
}

func visit(shape, strides []int64, at int64, do func(at int64)) {
	if len(shape) == 0 {
		do(at)
		return
	}
	for i := range shape[0] {
		visit(shape[1:], strides[1:], at+i*strides[0], do)
	}
}
