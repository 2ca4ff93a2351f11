package pool_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quiver-gpu/quiver/cudabuf/internal/pool"
)

const granule = 1 << 13

// caching is a caching pool over 1 MiB whose every step is known: with one
// processor there is one shard. The end of the test looks for leaks.
func caching(t testing.TB, config pool.Config) (*pool.Caching[int], *gpu) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	g := newGPU(t, 1<<20)
	config.Granule = granule
	c := pool.NewCaching(g.upstream(), config)
	t.Cleanup(func() {
		assert.NoError(t, c.Close())
		assert.Empty(t, g.live, "leaked")
	})
	return c, g
}

func held(c *pool.Caching[int]) int64 { return c.Account().Stats().Held }

func TestSmallRequestsShareAnAllocation(t *testing.T) {
	c, g := caching(t, pool.Config{})
	a := get(t, g, c, 100, 0)
	b := get(t, g, c, 1000, 1)
	d := get(t, g, c, granule-512, 0)
	assert.Equal(t, a.Address+512, b.Address)
	assert.Equal(t, b.Address+1024, d.Address)
	assert.EqualValues(t, 1, g.allocs)
	assert.EqualValues(t, 4*granule, held(c))
	for _, x := range []*block{a, b, d} {
		put(t, g, c, x)
	}
	assert.NoError(t, c.Trim(), "merged to one piece")
	assert.Zero(t, held(c))
}

func TestFreeNeighboursMerge(t *testing.T) {
	for name, order := range map[string][3]int{"upwards": {0, 1, 2}, "downwards": {2, 1, 0}, "the middle last": {0, 2, 1}, "the middle first": {1, 0, 2}} {
		t.Run(name, func(t *testing.T) {
			c, g := caching(t, pool.Config{})
			var x [3]*block
			for i := range x {
				x[i] = get(t, g, c, 2048, 0)
			}
			first := x[0].Address
			rest := get(t, g, c, granule-512, 0) // keeps the allocation from going
			for _, i := range order {
				put(t, g, c, x[i])
			}
			all := get(t, g, c, 3*2048, 0)
			assert.Equal(t, first, all.Address)
			put(t, g, c, all)
			put(t, g, c, rest)
		})
	}
}

func TestBestFitTakesTheSmallestThenTheLowest(t *testing.T) {
	c, g := caching(t, pool.Config{})
	sizes := []int64{4096, 512, 1024, 512, 2048, 512, 1024, 512}
	var x []*block
	for _, n := range sizes {
		x = append(x, get(t, g, c, n, 0))
	}
	for _, i := range []int{6, 0, 4, 2} { // holes of 1024, 4096, 2048, 1024
		put(t, g, c, x[i])
	}
	assert.NoError(t, c.Trim()) // merges; there is nothing to give back
	want := []*block{x[2], x[6], x[4], x[0]}
	for i, n := range []int64{1024, 513, 1025, 4096} {
		assert.Equal(t, want[i].Address, got(t, g, c, n))
	}
	assert.EqualValues(t, 1, g.allocs)
	for i, n := range sizes {
		if n == 512 {
			put(t, g, c, x[i])
		}
	}
}

func TestLargeRequestsHaveAllocationsOfTheirOwn(t *testing.T) {
	c, g := caching(t, pool.Config{})
	b := get(t, g, c, 10*granule-100, 0)
	address := b.Address
	assert.EqualValues(t, 10*granule, b.Size)
	assert.EqualValues(t, 10*granule, held(c))
	put(t, g, c, b)

	small := get(t, g, c, 512, 0)
	assert.NotEqual(t, address, small.Address, "small ones do not pin it")
	b = get(t, g, c, 9*granule, 0)
	assert.Equal(t, address, b.Address, "a tenth unused")
	assert.EqualValues(t, 10*granule, b.Size, "all of it is usable")
	put(t, g, c, b)
	b = get(t, g, c, 8*granule, 0)
	assert.NotEqual(t, address, b.Address, "a fifth unused")
	put(t, g, c, b)
	b = get(t, g, c, granule, 0)
	put(t, g, c, b)
	again := get(t, g, c, granule+1-512, 0)
	assert.Equal(t, b.Address, again.Address, "one granule serves any request that needs one")
	put(t, g, c, again)
	put(t, g, c, small)
}

func TestOddSizesAreRoundedUp(t *testing.T) {
	c, g := caching(t, pool.Config{})
	for n := int64(1); n < 4*granule; n += 97 {
		b := get(t, g, c, n, 0)
		assert.Zero(t, b.Address%pool.Align)
		assert.Zero(t, b.Size%pool.Align)
		assert.EqualValues(t, (n+511)/512*512, c.Account().Stats().InUse)
		put(t, g, c, b)
	}
}

// Whichever goroutine put a block, every other one finds it before more is taken
// from the driver.
func TestBlocksInOtherShardsAreFound(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	g := newGPU(t, 12*granule)
	c := pool.NewCaching(g.upstream(), pool.Config{Granule: granule})
	var x []*block
	for range 4 {
		x = append(x, get(t, g, c, 3*granule, 0))
	}
	for _, b := range x {
		runtime.GC() // a second time empties a sync.Pool: the next shard's turn
		runtime.GC()
		put(t, g, c, b)
	}
	b := get(t, g, c, 12*granule, 0)
	assert.Equal(t, 4, g.frees)
	put(t, g, c, b)
	assert.NoError(t, c.Close())
}

func TestGrowthTakesSmallerStepsWhenTheDeviceIsNearlyFull(t *testing.T) {
	c, g := caching(t, pool.Config{})
	g.capacity = 4*granule + granule + 1024
	a := get(t, g, c, granule-512, 0)
	full := []*block{a}
	for range 3 {
		full = append(full, get(t, g, c, granule-512, 0))
	}
	assert.EqualValues(t, 4*granule, held(c))
	full = append(full, get(t, g, c, granule-512, 0))
	assert.EqualValues(t, 5*granule, held(c), "a granule where four do not fit")
	full = append(full, get(t, g, c, 3*512, 0), get(t, g, c, 512, 0), get(t, g, c, 512, 0), get(t, g, c, 1024, 0))
	assert.EqualValues(t, 5*granule+1024, held(c), "just the request where no granule fits")
	for _, b := range full {
		put(t, g, c, b)
	}
}

func TestIdleAllocationsGoBackBeforeMoreIsTaken(t *testing.T) {
	c, g := caching(t, pool.Config{Slack: 0.25})
	g.capacity = 1 << 30
	used := get(t, g, c, 2000*granule, 0)
	for n := int64(100); n < 800; n += 130 { // none serves for the next
		put(t, g, c, get(t, g, c, n*granule, 0))
		s := c.Account().Stats()
		assert.LessOrEqual(t, s.Held, s.Peak*5/4)
	}
	assert.NotZero(t, g.frees)
	assert.Greater(t, held(c), int64(2100*granule), "the slack is used")
	put(t, g, c, used)

	kept, free := caching(t, pool.Config{Slack: -1})
	free.capacity = 1 << 30
	for n := int64(100); n < 800; n += 130 {
		put(t, free, kept, get(t, free, kept, n*granule, 0))
	}
	assert.Zero(t, free.frees, "without a bound")
}

// What pygpu's allocator does with the same calls (fact M5): offset+size of the
// free blocks, H where a block begins an allocation. It differs in three ways:
// it rounds to 64 bytes, where CUDA aligns to 256 and copies like 512; it takes
// 4 MiB at a time, here 8 MiB; and it merges at once, here when a Get needs it.
// Places in the allocation, and what merges, are the same.
func TestPygpusGoldenTrace(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	g := newGPU(t, 64<<20)
	c := pool.NewCaching(g.upstream(), pool.Config{})
	base := uintptr(2 << 20)
	place := func(b *block) int { return int(b.Address - base) }

	a := get(t, g, c, 100, 0)
	b := get(t, g, c, 200, 0)
	d := get(t, g, c, 1, 0)
	assert.Equal(t, []int{0, 512, 1024}, []int{place(a), place(b), place(d)}) // 0, 128, 384
	put(t, g, c, a)                                                           // [0 H][...]
	put(t, g, c, d)                                                           // merges with the rest
	e := get(t, g, c, 64, 0)
	assert.Contains(t, []int{0, 1024}, place(e)) // 0 there; here what was put last, if it has that size
	put(t, g, c, b)
	put(t, g, c, e) // one block, 0 H
	big := get(t, g, c, 5<<20, 0)
	s := c.Account().Stats()
	assert.EqualValues(t, 8<<20+6<<20, s.Held) // 4 + 5 MiB there
	put(t, g, c, big)
	assert.NoError(t, c.Trim()) // pygpu never gives memory back
	assert.Zero(t, held(c))
	assert.Equal(t, 2, g.frees, "allocations never merge with each other")

	c.Account().SetLimit(5 << 20)
	keep := get(t, g, c, 100, 0)
	_, err := c.Get(5<<20, 0)
	assert.ErrorContains(t, err, "5242880 bytes wanted, 512 in use, 2097152 held, limit 5242880: limit reached") // GA_VALUE_ERROR
	put(t, g, c, keep)
	assert.NoError(t, c.Close())
}
