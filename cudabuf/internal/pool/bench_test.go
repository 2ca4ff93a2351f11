package pool_test

import (
	"fmt"
	"testing"

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

// pool-alloc-free-1 and pool-alloc-free-16, without what a device adds: run
// with -cpu 1,16.
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

// pool-fragmentation: one operation is an allocation and its free.
func BenchmarkTrace(b *testing.B) {
	for _, sizes := range []trace.Sizes{trace.Uniform, trace.Mixed} {
		b.Run(fmt.Sprint(sizes), func(b *testing.B) {
			calls := 0
			up := fast()
			alloc := up.Alloc
			up.Alloc = func(n int64) (uintptr, error) { calls++; return alloc(n) }
			c := pool.NewCaching(up, pool.Config{})
			n := max(b.N, 1)
			blocks := make([]*pool.Block[int], n)
			b.ResetTimer()
			err := trace.Trace{Seed: 1, Sizes: sizes, Allocations: n, Live: 4 << 30}.Run(
				func(i int, size int64) (err error) { blocks[i], err = c.Get(size, 0); return err },
				func(i int) error { return c.Put(blocks[i], nil) },
			)
			b.StopTimer()
			require.NoError(b, err)
			s := c.Account().Stats()
			b.ReportMetric(float64(s.PeakHeld)/float64(s.Peak), "held/used")
			b.ReportMetric(float64(calls)/float64(n), "calls/op")
		})
	}
}
