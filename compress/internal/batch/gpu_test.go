package batch

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// Steps have all items in order, at least one each, and no step could have one more.
func TestStepsFitTheLimit(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		needs := make([]int64, r.IntN(20))
		for i := range needs {
			needs[i] = r.Int64N(100)
		}
		limit := 1 + r.Int64N(200)
		next := 0
		require.NoError(t, InSteps(len(needs), limit, func(i int) int64 { return needs[i] }, func(first, end int) error {
			require.Equal(t, next, first)
			require.Greater(t, end, first)
			used := int64(0)
			for _, n := range needs[first:end] {
				used += n
			}
			assert.True(t, used <= limit || end == first+1)
			assert.True(t, end == len(needs) || used+needs[end] > limit)
			next = end
			return nil
		}))
		require.Equal(t, len(needs), next)
	}
	failure := errors.New("failure")
	calls := 0
	err := InSteps(3, 1, func(int) int64 { return 1 }, func(int, int) error { calls++; return failure })
	assert.ErrorIs(t, err, failure)
	assert.Equal(t, 1, calls)
}

func TestDefaultLimitGrowsWithTheMemory(t *testing.T) {
	for memory, want := range map[int64]int64{1 << 30: 1 << 30, 16 << 30: 1 << 30, 80 << 30: 80 << 30 / 32} {
		dev, err := cudatest.Start(t, cudatest.Config{MemoryBytes: memory}).Device(0)
		require.NoError(t, err)
		assert.Equal(t, want, Limit(dev, 0))
		assert.EqualValues(t, 5, Limit(dev, 5))
	}
}

// Large steps have parts, all of which are enqueued before the first one is fetched. They are
// fetched after a failure, too.
func TestPartsOfAStepOverlap(t *testing.T) {
	failure := errors.New("failure")
	for _, c := range []struct {
		items, fails int
		each         int64
		want         string
	}{
		{items: 3, fails: -1, each: partBytes / 4, want: "0-3, fetch"},
		{items: 8, fails: -1, each: partBytes / 2, want: "0-2, 2-4, 4-6, 6-8, fetch, fetch, fetch, fetch"},
		{items: 3, fails: -1, each: 5 * partBytes, want: "0-1, 1-2, fetch, fetch, 2-3, fetch"},
		{items: 8, fails: 4, each: partBytes / 2, want: "0-2, 2-4, 4-6, fetch, fetch"},
	} {
		var calls []string
		next := 0
		err := Overlap(cudatest.NewDevice(t), c.items, 10*partBytes, func(int) int64 { return c.each }, func(w *Work, first, end int) (func() error, error) {
			calls = append(calls, fmt.Sprintf("%d-%d", first, end))
			if first == c.fails {
				return nil, failure
			}
			require.NotNil(t, w.Buffer(1000))
			next = end
			return func() error { calls = append(calls, "fetch"); return nil }, nil
		})
		assert.Equal(t, c.want, strings.Join(calls, ", "))
		if c.fails < 0 {
			require.NoError(t, err)
			assert.Equal(t, c.items, next)
		} else {
			assert.ErrorIs(t, err, failure)
		}
	}
}

func TestPartsInParallelHaveAllItems(t *testing.T) {
	for _, c := range []struct {
		items int
		size  int64
		parts int
	}{{0, 1, 0}, {5, 1, 1}, {8, parallelPartBytes / 4, 2}, {100, parallelPartBytes, 4}} {
		var taken [100]atomic.Int32
		var parts atomic.Int32
		require.NoError(t, InParallel(c.items, func(int) int64 { return c.size }, func(first, end, all int) error {
			assert.Equal(t, c.parts, all)
			parts.Add(1)
			for i := first; i < end; i++ {
				taken[i].Add(1)
			}
			return nil
		}))
		assert.EqualValues(t, c.parts, parts.Load())
		for i := range taken {
			assert.Equal(t, i < c.items, taken[i].Load() == 1, "item %d of %d", i, c.items)
		}
	}
	failure := errors.New("failure")
	err := InParallel(100, func(int) int64 { return parallelPartBytes }, func(first, _, _ int) error {
		if first > 0 {
			return failure
		}
		return nil
	})
	assert.ErrorIs(t, err, failure)
}
