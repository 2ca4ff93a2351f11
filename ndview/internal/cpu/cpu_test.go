package cpu

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func withProcessors(t *testing.T, n int) {
	before := runtime.GOMAXPROCS(n)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

func TestParallelCoversEachItemOnce(t *testing.T) {
	for _, processors := range []int{1, 2, 3, 8} {
		withProcessors(t, processors)
		for _, n := range []int64{0, 1, 2, 7, 64, 1000, 1001, 4096} {
			for _, grain := range []int64{0, 1, 3, 100, 5000} {
				times := make([]int32, n)
				Parallel(n, grain, func(lo, hi int64) {
					assert.True(t, hi-lo >= min(grain, n) && lo < hi, "%d to %d of %d, grain %d", lo, hi, n, grain)
					for i := lo; i < hi; i++ {
						atomic.AddInt32(&times[i], 1)
					}
				})
				for i, k := range times {
					require.EqualValues(t, 1, k, "item %d of %d, grain %d, %d processors", i, n, grain, processors)
				}
			}
		}
	}
}

// TestParallelIsNotDelayedByASlowPart has the first part wait for all others.
func TestParallelIsNotDelayedByASlowPart(t *testing.T) {
	withProcessors(t, 2)
	const n, parts = 1 << 20, 2 * partsPerProc
	var done atomic.Int64
	others := make(chan struct{})
	Parallel(n, 1, func(lo, _ int64) {
		if lo == 0 {
			select {
			case <-others:
			case <-time.After(time.Minute):
				t.Error("a part waits for the first")
			}
		} else if done.Add(1) == parts-1 {
			close(others)
		}
	})
}
