package pool_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/pool"
)

func TestTheLimitHoldsForEveryKind(t *testing.T) {
	forEachKind(t, func(t *testing.T, g *gpu, p accounted) {
		assert.EqualValues(t, math.MaxInt64, p.Account().Limit())
		p.Account().SetLimit(10 << 10)
		a := get(t, g, p, 6<<10, 0)
		_, err := p.Get(5<<10, 1)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfMemory)
		assert.ErrorContains(t, err, "5120 bytes wanted, 6144 in use,")
		assert.ErrorContains(t, err, "limit 10240: limit reached")
		b := get(t, g, p, 2<<10, 0)
		p.Account().SetLimit(1)
		_, err = p.Get(4<<10, 0)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfMemory, "below what is held")
		put(t, g, p, a)
		put(t, g, p, b)
		p.Account().SetLimit(10 << 10)
		put(t, g, p, get(t, g, p, 10<<10, 0))
		p.Account().SetLimit(-1)
		assert.Zero(t, p.Account().Limit())
	})
}

func TestIdleMemoryMakesRoomUnderALimit(t *testing.T) {
	c, g := caching(t, pool.Config{})
	c.Account().SetLimit(8 * granule)
	keep := get(t, g, c, 4*granule, 0)
	for _, n := range []int64{1, 3, 2, 4} {
		put(t, g, c, get(t, g, c, n*granule, 0))
		assert.LessOrEqual(t, held(c), int64(8*granule))
	}
	put(t, g, c, keep)
}

// Four pieces fill the limit; two that are free and apart do not serve a request
// for both, two neighbours do.
func TestALimitCountsFragments(t *testing.T) {
	for name, test := range map[string]struct {
		puts []int
		fits bool
	}{"apart": {[]int{0, 2}, false}, "neighbours": {[]int{1, 2}, true}} {
		t.Run(name, func(t *testing.T) {
			c, g := caching(t, pool.Config{})
			c.Account().SetLimit(granule)
			x := map[int]*block{}
			for i := range 4 {
				x[i] = get(t, g, c, granule/4, 0)
			}
			for _, i := range test.puts {
				put(t, g, c, x[i])
				delete(x, i)
			}
			b, err := c.Get(granule/2, 0)
			if test.fits {
				require.NoError(t, err)
				g.lend(b, 0)
				put(t, g, c, b)
			} else {
				assert.ErrorIs(t, err, arrowbuf.ErrOutOfMemory)
			}
			for _, b := range x {
				put(t, g, c, b)
			}
		})
	}
}

func TestTheIdleLimitHolds(t *testing.T) {
	c, g := caching(t, pool.Config{})
	require.NoError(t, c.SetIdleLimit(4*granule))
	for _, n := range []int64{2, 1, 4, 8, 1} {
		b := get(t, g, c, n*granule, 0)
		put(t, g, c, b)
		assert.LessOrEqual(t, held(c), int64(4*granule), "%d", n)
	}
	assert.NotZero(t, held(c))

	pending := get(t, g, c, 8*granule, 1)
	g.use(pending, 1)
	put(t, g, c, pending)
	assert.GreaterOrEqual(t, held(c), int64(8*granule), "a stream may still use it")
	g.progress(1)
	require.NoError(t, c.SetIdleLimit(0))
	assert.Zero(t, held(c))

	small, other := get(t, g, c, 512, 0), get(t, g, c, 512, 0)
	put(t, g, c, small)
	assert.EqualValues(t, 4*granule, held(c), "the other's allocation")
	put(t, g, c, other)
	assert.Zero(t, held(c))
}

func TestTrimLeavesWhatIsInUse(t *testing.T) {
	c, g := caching(t, pool.Config{})
	var x []*block
	for range 16 { // two allocations of small blocks
		x = append(x, get(t, g, c, granule/2, 0))
	}
	large := get(t, g, c, 3*granule, 0)
	require.EqualValues(t, 11*granule, held(c))
	for _, b := range x[:9] {
		put(t, g, c, b)
	}
	put(t, g, c, large)
	require.NoError(t, c.Trim())
	assert.EqualValues(t, 4*granule, held(c))
	for _, b := range x[9:] {
		put(t, g, c, b)
	}
	require.NoError(t, c.Trim())
	assert.Zero(t, held(c))
}

func TestFailuresToGiveMemoryBackAreReported(t *testing.T) {
	g := newGPU(t, 1<<20)
	c := pool.NewCaching(g.upstream(), pool.Config{Granule: granule})
	put(t, g, c, get(t, g, c, 3*granule, 0))
	g.failing = func(call string) error {
		if call == "free" {
			return assert.AnError
		}
		return nil
	}
	assert.ErrorIs(t, c.Trim(), assert.AnError)
	assert.Zero(t, held(c), "and not tried again")
	g.failing = nil
	assert.ErrorIs(t, c.Close(), assert.AnError, "also at the end")
}

func TestLargestIsWhatCanBeHadWithoutTheDriver(t *testing.T) {
	c, g := caching(t, pool.Config{})
	assert.Zero(t, c.Largest())
	put(t, g, c, get(t, g, c, 512, 0))
	assert.EqualValues(t, 4*granule, c.Largest())
	b := get(t, g, c, 9*granule, 1)
	g.use(b, 1)
	put(t, g, c, b)
	assert.EqualValues(t, 4*granule, c.Largest(), "a stream may still use it")
	g.progress(1)
	assert.EqualValues(t, 9*granule, c.Largest())
}
