package pool_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/cudabuf/internal/pool"
	"github.com/quiver-gpu/quiver/cudabuf/internal/pool/trace"
)

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
