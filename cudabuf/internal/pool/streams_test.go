package pool_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/quiver-gpu/quiver/cudabuf/internal/pool"
)

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
