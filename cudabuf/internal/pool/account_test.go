package pool_test

import (
	"testing"

	"github.com/quiver-gpu/quiver/cudabuf/internal/pool"
	"github.com/stretchr/testify/assert"
)

func TestScopesCountChanges(t *testing.T) {
	forEachKind(t, func(t *testing.T, g *gpu, p accounted) {
		a := p.Account()
		x := []*block{getBlock(t, g, p, 1024, 0), getBlock(t, g, p, 1024, 0)}
		a.Push()
		x = append(x, getBlock(t, g, p, 2048, 0))
		a.Push() // a nested scope with negative changes
		putBlock(t, g, p, x[0])
		putBlock(t, g, p, x[2])
		inner, ok := a.Pop()
		assert.True(t, ok)
		assert.Equal(t, []int64{-3072, 0, 0, -2, 0, 0},
			[]int64{inner.InUse, inner.Peak, inner.Total, inner.Count, inner.PeakCount, inner.TotalCount})
		y := getBlock(t, g, p, 512, 0)
		outer, ok := a.Pop()
		assert.True(t, ok)
		assert.Equal(t, []int64{-512, 2048, 2560, 0, 1, 2},
			[]int64{outer.InUse, outer.Peak, outer.Total, outer.Count, outer.PeakCount, outer.TotalCount})
		all := a.Stats()
		assert.Equal(t, []int64{1536, 4096, 4608, 2, 3, 4},
			[]int64{all.InUse, all.Peak, all.Total, all.Count, all.PeakCount, all.TotalCount})
		_, ok = a.Pop()
		assert.False(t, ok)
		putBlock(t, g, p, x[1])
		putBlock(t, g, p, y)
	})
}

func TestInnerPeakCountsInOuterScope(t *testing.T) {
	c, g := newCaching(t, pool.Config{})
	a := c.Account()
	a.Push()
	a.Push()
	putBlock(t, g, c, getBlock(t, g, c, 4096, 0))
	_, _ = a.Pop()
	putBlock(t, g, c, getBlock(t, g, c, 512, 0))
	outer, _ := a.Pop()
	assert.EqualValues(t, []int64{4096, 4 * granule}, []int64{outer.Peak, outer.PeakHeld})
	assert.EqualValues(t, 4096, a.Stats().Peak)
	a.Push()
	_, _ = a.Pop()
	assert.EqualValues(t, 4096, a.Stats().Peak, "a peak before the scope stays")
}
