package pool_test

import (
	"runtime"
	"testing"

	"github.com/quiver-gpu/quiver/cudabuf/internal/pool"
	"github.com/quiver-gpu/quiver/cudabuf/internal/pool/trace"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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

// A block of which stream 1 is not yet done, and who gets it.
func TestPendingMemoryIsLentAgain(t *testing.T) {
	for _, size := range []int64{1024, 3 * granule} {
		for name, test := range map[string]struct {
			done          bool // stream 1 is, before the Get
			on            int
			same          bool // the Get answers that block
			orders, waits int
		}{
			"to the same stream":                      {on: 1, same: true},
			"to another, which waits":                 {on: 2, same: true, orders: 1},
			"not without a stream":                    {on: 0},
			"to anybody when the stream is done":      {done: true, on: 0, same: true},
			"to another when the stream is done":      {done: true, on: 2, same: true},
			"to the same stream also when it is done": {done: true, on: 1, same: true},
		} {
			t.Run(name, func(t *testing.T) {
				c, g := caching(t, pool.Config{})
				b := get(t, g, c, size, 1)
				g.use(b, 1)
				var rest []*block // of the allocation that small blocks share
				for size < granule && c.Account().Stats().InUse < 4*granule {
					rest = append(rest, get(t, g, c, min(granule-512, 4*granule-c.Account().Stats().InUse), 0))
				}
				address := b.Address
				put(t, g, c, b)
				if test.done {
					g.progress(1)
				}
				again := get(t, g, c, size, test.on)
				assert.Equal(t, test.same, again.Address == address)
				assert.Equal(t, test.orders, g.orders)
				assert.Zero(t, g.waits, "the host never waits while the driver has more")
				for _, b := range append(rest, again) {
					put(t, g, c, b)
				}
			})
		}
	}
}

func TestTheOwnStreamsMemoryComesFirst(t *testing.T) {
	c, g := caching(t, pool.Config{})
	var x []*block
	for s := range 3 { // idle, pending on 1, pending on 2
		x = append(x, get(t, g, c, 3*granule, s))
		if s > 0 {
			g.use(x[s], s)
		}
	}
	addresses := []uintptr{x[0].Address, x[1].Address, x[2].Address}
	for _, i := range []int{1, 0, 2} {
		put(t, g, c, x[i])
	}
	for i := range x {
		x[i] = get(t, g, c, 3*granule-512, 1) // what the shards do not have
	}
	assert.Equal(t, []uintptr{addresses[1], addresses[0], addresses[2]}, []uintptr{x[0].Address, x[1].Address, x[2].Address})
	assert.Equal(t, 1, g.orders)
	for _, b := range x {
		put(t, g, c, b)
	}
}

func TestTheBetterFitBeatsTheOwnStream(t *testing.T) {
	c, g := caching(t, pool.Config{})
	own, idle := get(t, g, c, 9*granule, 1), get(t, g, c, 8*granule, 0)
	g.use(own, 1)
	put(t, g, c, own)
	put(t, g, c, idle)
	b := get(t, g, c, 8*granule-512, 1)
	assert.Equal(t, idle.Address, b.Address)
	put(t, g, c, b)
}

func TestMemoryOfSeveralStreamsIsOrderedBehindAll(t *testing.T) {
	for name, test := range map[string]struct{ on, orders int }{"one of them": {1, 2}, "another": {4, 3}} {
		t.Run(name, func(t *testing.T) {
			c, g := caching(t, pool.Config{})
			b := get(t, g, c, 3*granule, 0)
			for s := 1; s <= 3; s++ {
				g.use(b, s)
			}
			put(t, g, c, b)
			again := get(t, g, c, 3*granule, test.on)
			assert.Equal(t, b.Address, again.Address)
			assert.Equal(t, test.orders, g.orders)
			put(t, g, c, again)
		})
	}
	t.Run("one by one done", func(t *testing.T) {
		c, g := caching(t, pool.Config{})
		b := get(t, g, c, 3*granule, 0)
		for s := 1; s <= 3; s++ {
			g.use(b, s)
		}
		put(t, g, c, b)
		g.progress(1)
		g.progress(3)
		other := get(t, g, c, 3*granule, 0)
		assert.NotEqual(t, b.Address, other.Address, "stream 2 is not done")
		again := get(t, g, c, 3*granule, 2)
		assert.Equal(t, b.Address, again.Address)
		assert.Zero(t, g.orders)
		put(t, g, c, other)
		put(t, g, c, again)
	})
}

func TestNeighboursMergeWhenTheirStreamsAreDone(t *testing.T) {
	c, g := caching(t, pool.Config{})
	var x []*block
	for i := range 8 { // all of an allocation
		x = append(x, get(t, g, c, granule/2, 1+i%2))
		g.use(x[i], 1+i%2)
	}
	for _, b := range x {
		put(t, g, c, b)
	}
	b := get(t, g, c, granule-512, 1)
	assert.EqualValues(t, 2, g.allocs, "no two neighbours are pending on one stream")
	put(t, g, c, b)
	for range 4 {
		g.progress(1)
		g.progress(2)
	}
	assert.NoError(t, c.Trim())
	assert.Zero(t, held(c))
}

func TestOutOfMemoryWaitsForStreamsAndMerges(t *testing.T) {
	c, g := caching(t, pool.Config{})
	g.capacity = 4 * granule
	var x []*block
	for i := range 8 {
		x = append(x, get(t, g, c, granule/2, 1+i%2))
		g.use(x[i], 1+i%2)
	}
	for _, b := range x {
		put(t, g, c, b)
	}
	b := get(t, g, c, granule-512, 0)
	assert.Equal(t, 2, g.waits)
	assert.EqualValues(t, 1, g.allocs, "merged, not taken")
	put(t, g, c, b)
	large := get(t, g, c, 4*granule, 0)
	assert.Equal(t, 1, g.frees, "given back for what does not fit into it")
	put(t, g, c, large)
}

func TestIdleMemoryGoesBackBeforeAStreamIsWaitedFor(t *testing.T) {
	c, g := caching(t, pool.Config{})
	g.capacity = 7 * granule
	pending, idle := get(t, g, c, 3*granule, 1), get(t, g, c, 3*granule, 0)
	g.use(pending, 1)
	put(t, g, c, pending)
	put(t, g, c, idle)
	b := get(t, g, c, 4*granule, 0)
	assert.Equal(t, []int{1, 0}, []int{g.frees, g.waits})
	put(t, g, c, b)
}

func TestPendingMemoryCountsAsInUseWhereIdleMemoryGoesBack(t *testing.T) {
	c, g := caching(t, pool.Config{Slack: 0.25})
	g.capacity = 1 << 30
	pending := get(t, g, c, 1000*granule, 1)
	g.use(pending, 1)
	put(t, g, c, pending)
	put(t, g, c, get(t, g, c, 200*granule, 0))
	put(t, g, c, get(t, g, c, 400*granule, 0))
	assert.Zero(t, g.frees)
	g.progress(1)
	put(t, g, c, get(t, g, c, 600*granule, 0))
	assert.NotZero(t, g.frees)
}

func TestAForgottenStreamIsDone(t *testing.T) {
	c, g := caching(t, pool.Config{})
	a, b := get(t, g, c, 3*granule, 1), get(t, g, c, 5*granule, 1)
	g.use(a, 1)
	g.use(b, 1)
	g.use(b, 2)
	put(t, g, c, a)
	put(t, g, c, b)
	assert.NoError(t, g.Wait(1)) // as who destroys a stream does
	g.streams[1].gone = true
	c.Forget(1)
	again := get(t, g, c, 3*granule, 0)
	assert.Equal(t, a.Address, again.Address)
	put(t, g, c, again)
	again = get(t, g, c, 5*granule, 2)
	assert.Equal(t, b.Address, again.Address)
	assert.Zero(t, g.orders)
	put(t, g, c, again)
}

func TestTrimWaitsForNoStream(t *testing.T) {
	c, g := caching(t, pool.Config{})
	a, b := get(t, g, c, 3*granule, 1), get(t, g, c, 3*granule, 2)
	g.use(a, 1)
	g.use(b, 2)
	put(t, g, c, a)
	put(t, g, c, b)
	g.progress(1)
	assert.NoError(t, c.Trim())
	assert.EqualValues(t, 3*granule, held(c))
	assert.Zero(t, g.waits)
	g.progress(2)
	assert.NoError(t, c.Trim())
	assert.Zero(t, held(c))
}

func TestErrorsOfStreamsComeBack(t *testing.T) {
	c, g := caching(t, pool.Config{})
	b := get(t, g, c, 3*granule, 1)
	g.use(b, 1)
	put(t, g, c, b)
	g.failing = func(call string) error {
		if call == "order" || call == "wait" {
			return assert.AnError
		}
		return nil
	}
	_, err := c.Get(3*granule, 2)
	assert.ErrorIs(t, err, assert.AnError)
	g.capacity = 0
	_, err = c.Get(3*granule, 0)
	assert.ErrorIs(t, err, assert.AnError)
	assert.ErrorIs(t, c.Close(), assert.AnError)
	g.failing = nil
}

// fast is an upstream that costs nothing.
func fast() pool.Upstream[int] {
	next := uintptr(1 << 21)
	return pool.Upstream[int]{
		Alloc: func(n int64) (uintptr, error) { a := next; next += uintptr(n+1<<21) &^ (1<<21 - 1); return a, nil },
		Free:  func(uintptr) error { return nil },
	}
}

// BenchmarkGetPut is pool-alloc-free without what a device adds; run it with
// -cpu 1,16.
func BenchmarkGetPut(b *testing.B) {
	c := pool.NewCaching(fast(), pool.Config{})
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			block, err := c.Get(1<<20, 0)
			if err != nil {
				b.Error(err)
				return
			}
			_ = c.Put(block, nil)
		}
	})
}

// play runs a trace of 4 GiB on a caching pool, and answers what the pool held
// at most over what was in use at most, and how often it asked the driver.
func play(t testing.TB, sizes trace.Sizes, allocations int) (ratio float64, calls int) {
	up := fast()
	alloc := up.Alloc
	up.Alloc = func(n int64) (uintptr, error) { calls++; return alloc(n) }
	c := pool.NewCaching(up, pool.Config{})
	blocks := make([]*pool.Block[int], allocations)
	err := trace.Trace{Seed: 1, Sizes: sizes, Allocations: allocations, Live: 4 << 30}.Run(
		func(i int, size int64) (err error) { blocks[i], err = c.Get(size, 0); return err },
		func(i int) error { return c.Put(blocks[i], nil) },
	)
	require.NoError(t, err)
	s := c.Account().Stats()
	require.NoError(t, c.Close())
	return float64(s.PeakHeld) / float64(s.Peak), calls
}

// BenchmarkTrace is pool-fragmentation without a driver: an operation is an
// allocation and its free.
func BenchmarkTrace(b *testing.B) {
	for _, sizes := range []trace.Sizes{trace.Uniform, trace.Mixed} {
		b.Run(sizes.String(), func(b *testing.B) {
			ratio, calls := play(b, sizes, b.N)
			b.ReportMetric(ratio, "held/used")
			b.ReportMetric(float64(calls)/float64(b.N), "calls/op")
		})
	}
}

func TestARandomTraceHoldsATenthMoreThanItUsesAtMost(t *testing.T) {
	for _, sizes := range []trace.Sizes{trace.Uniform, trace.Mixed} {
		ratio, calls := play(t, sizes, 200_000)
		assert.LessOrEqual(t, ratio, 1.1, "%v", sizes)
		assert.Less(t, calls, 200_000/5, "%v", sizes)
	}
}
