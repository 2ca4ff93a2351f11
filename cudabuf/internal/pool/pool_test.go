package pool_test

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestGetReturnsRequestedSize(t *testing.T) {
	forEachKind(t, func(t *testing.T, g *gpu, p accounted) {
		for _, s := range []int{0, 1} {
			for _, n := range []int64{1, 511, 512, 513, 8191, 8192, 8193, 100_000, 1 << 20} {
				b := getBlock(t, g, p, n, s)
				putBlock(t, g, p, b)
			}
		}
	})
}

func TestGetZeroBytesAllocatesNothing(t *testing.T) {
	forEachKind(t, func(t *testing.T, g *gpu, p accounted) {
		b, err := p.Get(0, 0)
		require.NoError(t, err)
		assert.Zero(t, b.Address)
		assert.Zero(t, b.Size)
		assert.NoError(t, p.Put(b, nil))
		assert.Zero(t, g.allocs)
		assert.Zero(t, p.Account().Stats())
	})
}

func TestInvalidSizesAreErrors(t *testing.T) {
	forEachKind(t, func(t *testing.T, g *gpu, p accounted) {
		_, err := p.Get(-1, 0)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
		for _, n := range []int64{1<<22 + 1, 1 << 60, math.MaxInt64 - 1, math.MaxInt64} {
			_, err = p.Get(n, 1)
			assert.ErrorIs(t, err, arrowbuf.ErrOutOfMemory, "%d", n)
		}
		assert.Zero(t, p.Account().Stats().InUse)
	})
}

func TestWholeDeviceCanBeAllocated(t *testing.T) {
	forEachKind(t, func(t *testing.T, g *gpu, p accounted) {
		ninety := getBlock(t, g, p, g.capacity/10*9, 0)
		putBlock(t, g, p, ninety)
		one := getBlock(t, g, p, g.capacity/2, 0)
		two := getBlock(t, g, p, g.capacity/2, 1)
		_, err := p.Get(1, 0)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfMemory)
		assert.ErrorContains(t, err, "512 bytes wanted, 4194304 in use, 4194304 held: ")
		g.use(two, 1)
		putBlock(t, g, p, one)
		putBlock(t, g, p, two)
		putBlock(t, g, p, getBlock(t, g, p, g.capacity, 0))
	})
}

func TestPutTwiceIsAnError(t *testing.T) {
	forEachKind(t, func(t *testing.T, g *gpu, p accounted) {
		other := getBlock(t, g, p, 1000, 0)
		b := getBlock(t, g, p, 1000, 0)
		putBlock(t, g, p, b)
		before := p.Account().Stats()
		assert.ErrorIs(t, p.Put(b, nil), arrowbuf.ErrReleased)
		putBlock(t, g, p, other)
		assert.NoError(t, p.Trim())
		assert.ErrorIs(t, p.Put(b, nil), arrowbuf.ErrReleased, "merged into another block")
		assert.Equal(t, before.InUse-1024, p.Account().Stats().InUse)
	})
}

func TestCloseFailsWhileBlockIsAllocated(t *testing.T) {
	forEachKind(t, func(t *testing.T, g *gpu, p accounted) {
		b := getBlock(t, g, p, 1000, 1)
		assert.EqualError(t, p.Close(), "1024 bytes still in use")
		g.use(b, 1)
		putBlock(t, g, p, b)
	})
}

func TestGetReturnsDriverErrors(t *testing.T) {
	forEachKind(t, func(t *testing.T, g *gpu, p accounted) {
		g.failing = func(call string) error {
			if call == "alloc" {
				return assert.AnError
			}
			return nil
		}
		_, err := p.Get(100, 0)
		assert.ErrorIs(t, err, assert.AnError)
		assert.NotErrorIs(t, err, arrowbuf.ErrOutOfMemory)
		g.failing = nil
		putBlock(t, g, p, getBlock(t, g, p, 100, 0))
	})
}

func TestStatsCountPeaksAndTotals(t *testing.T) {
	forEachKind(t, func(t *testing.T, g *gpu, p accounted) {
		var blocks []*block
		for range 10 {
			blocks = append(blocks, getBlock(t, g, p, 1024, 0))
		}
		for _, b := range blocks[:5] {
			putBlock(t, g, p, b)
		}
		s := p.Account().Stats()
		assert.EqualValues(t, []int64{5 << 10, 10 << 10, 10 << 10}, []int64{s.InUse, s.Peak, s.Total})
		assert.EqualValues(t, []int64{5, 10, 10}, []int64{s.Count, s.PeakCount, s.TotalCount})
		p.Account().ResetPeak()
		putBlock(t, g, p, getBlock(t, g, p, 1, 0))
		s = p.Account().Stats()
		assert.EqualValues(t, []int64{5<<10 + 512, 10<<10 + 512}, []int64{s.Peak, s.Total})
		for _, b := range blocks[5:] {
			putBlock(t, g, p, b)
		}
	})
}

// churn allocates, uses and frees blocks of random sizes, at most 16 at a time.
// on returns the stream of each.
func churn(t *testing.T, g *gpu, p memPool, random *rand.Rand, rounds int, on func() int) {
	type allocation struct {
		b *block
		s int
	}
	var live []allocation
	for range rounds {
		if len(live) < 16 && random.IntN(2) == 0 {
			s := on()
			b := getBlock(t, g, p, 1+random.Int64N(1<<(1+random.IntN(16))), s)
			live = append(live, allocation{b, s})
			if s != 0 {
				g.use(b, s)
			}
		} else if len(live) > 0 {
			i := random.IntN(len(live))
			if s := live[i].s; s != 0 && random.IntN(3) == 0 { // another stream uses it
				other := 1 + s%4
				assert.NoError(t, g.Order(s, other))
				g.use(live[i].b, other)
			}
			putBlock(t, g, p, live[i].b)
			live[i] = live[len(live)-1]
			live = live[:len(live)-1]
		}
		g.progress(1 + random.IntN(4))
	}
	for _, l := range live {
		putBlock(t, g, p, l.b)
	}
}

func TestRandomBlocksDoNotOverlap(t *testing.T) {
	for name, on := range map[string]func(r *rand.Rand) int{
		"without a stream": func(*rand.Rand) int { return 0 },
		"on a stream":      func(*rand.Rand) int { return 1 },
		"on all":           func(r *rand.Rand) int { return r.IntN(5) },
	} {
		t.Run(name, func(t *testing.T) {
			forEachKind(t, func(t *testing.T, g *gpu, p accounted) {
				random := newRand(1)
				churn(t, g, p, random, 2000, func() int { return on(random) })
			})
		})
		t.Run(name+", many goroutines", func(t *testing.T) {
			forEachKind(t, func(t *testing.T, g *gpu, p accounted) {
				var wg sync.WaitGroup
				for i := range 4 {
					wg.Go(func() {
						random := newRand(uint64(i))
						// each goroutine orders only streams that use its own blocks
						churn(t, g, p, random, 400, func() int { return on(random) })
					})
				}
				wg.Wait()
			})
		})
	}
}

func TestBlocksMoveBetweenGoroutines(t *testing.T) {
	for name, streams := range map[string][2]int{"same stream": {1, 1}, "different streams": {1, 2}} {
		t.Run(name, func(t *testing.T) {
			forEachKind(t, func(t *testing.T, g *gpu, p accounted) {
				blocks := make(chan *block, 8)
				var wg sync.WaitGroup
				wg.Go(func() {
					defer close(blocks)
					random := newRand(3)
					for range 300 {
						b := getBlock(t, g, p, 1+random.Int64N(20_000), streams[0])
						g.use(b, streams[0])
						blocks <- b
					}
				})
				wg.Go(func() {
					for b := range blocks {
						if streams[1] != streams[0] {
							assert.NoError(t, g.Order(streams[0], streams[1]))
						}
						g.use(b, streams[1])
						putBlock(t, g, p, b)
						g.progress(streams[1])
					}
				})
				wg.Wait()
			})
		})
	}
}

func TestLimitHoldsForEachKind(t *testing.T) {
	forEachKind(t, func(t *testing.T, g *gpu, p accounted) {
		assert.EqualValues(t, math.MaxInt64, p.Account().Limit())
		p.Account().SetLimit(10 << 10)
		a := getBlock(t, g, p, 6<<10, 0)
		_, err := p.Get(5<<10, 1)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfMemory)
		assert.ErrorContains(t, err, "5120 bytes wanted, 6144 in use,")
		assert.ErrorContains(t, err, "limit 10240: limit reached")
		b := getBlock(t, g, p, 2<<10, 0)
		p.Account().SetLimit(1)
		_, err = p.Get(4<<10, 0)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfMemory, "below what is held")
		putBlock(t, g, p, a)
		putBlock(t, g, p, b)
		p.Account().SetLimit(10 << 10)
		putBlock(t, g, p, getBlock(t, g, p, 10<<10, 0))
		p.Account().SetLimit(-1)
		assert.Zero(t, p.Account().Limit())
	})
}
