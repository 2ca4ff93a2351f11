package pool_test

import (
	"encoding/csv"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/pool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRetryRunsWhileMoreReturnsTrue(t *testing.T) {
	forEachKind(t, func(t *testing.T, g *gpu, p accounted) {
		p.Account().SetLimit(1024)
		full := getBlock(t, g, p, 1024, 0)
		var asked []int64
		retry := pool.WithRetry[int](p, func(want int64) bool {
			asked = append(asked, want)
			if len(asked) == 2 {
				putBlock(t, g, p, full)
			}
			return len(asked) <= 2
		})
		putBlock(t, g, retry, getBlock(t, g, retry, 600, 0))
		assert.Equal(t, []int64{600, 600}, asked)
		_, err := retry.Get(2000, 0)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfMemory)
		assert.Equal(t, []int64{600, 600, 2000}, asked)
		_, err = retry.Get(-1, 0)
		assert.Error(t, err)
		assert.Len(t, asked, 3, "no retry after other errors")
	})
}

func withTestLog(p memPool, w *strings.Builder) memPool {
	tick := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	now := func() time.Time { tick = tick.Add(time.Second); return tick }
	return pool.WithLog(p, w, now, func(s int) string { return fmt.Sprintf("s%d", s) })
}

func TestLogHasOneLinePerCall(t *testing.T) {
	c, g := newCaching(t, pool.Config{})
	var text strings.Builder
	l := withTestLog(c, &text)
	b := getBlock(t, g, l, 1000, 1)
	g.use(b, 1)
	putBlock(t, g, l, b)
	_, err := l.Get(1<<40, 0)
	assert.Error(t, err)
	putBlock(t, g, l, getBlock(t, g, l, 0, 0))
	assert.Equal(t, `Time,Action,Address,Size,Stream
2026-01-02T03:04:06.000000006Z,allocate,0x200000,1000,s1
2026-01-02T03:04:07.000000006Z,free,0x200000,1024,s1
2026-01-02T03:04:08.000000006Z,allocate failure,0x0,1099511627776,s0
2026-01-02T03:04:09.000000006Z,allocate,0x0,0,s0
2026-01-02T03:04:10.000000006Z,free,0x0,0,s0
`, text.String())
}

func TestLogNeverHasAddressTwice(t *testing.T) {
	g := newGPU(t, 1<<22)
	c := pool.NewCaching(g.upstream(), pool.Config{Granularity: granule})
	var text strings.Builder
	l := withTestLog(c, &text)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			random := newRand(uint64(i))
			churn(t, g, l, random, 200, func() int { return random.IntN(3) })
		})
	}
	wg.Wait()
	lines, err := csv.NewReader(strings.NewReader(text.String())).ReadAll()
	require.NoError(t, err)
	live := map[string]bool{}
	for _, line := range lines[1:] {
		assert.Equal(t, line[1] == "free", live[line[2]], "%v", line)
		live[line[2]] = line[1] == "allocate"
	}
	assert.NoError(t, c.Close())
}

func allocLeak(t *testing.T, g *gpu, p memPool) *block { return getBlock(t, g, p, 1000, 1) }

func TestLeaksHoldStackOfGet(t *testing.T) {
	c, g := newCaching(t, pool.Config{})
	tracker := pool.Track[int](c)
	assert.Empty(t, tracker.Leaks())
	a, b := allocLeak(t, g, tracker), allocLeak(t, g, tracker)
	_, _ = tracker.Get(0, 0)
	_, err := tracker.Get(-1, 0)
	assert.Error(t, err)
	putBlock(t, g, tracker, getBlock(t, g, tracker, 10, 0))
	leaks := tracker.Leaks()
	require.Len(t, leaks, 2)
	assert.Equal(t, []uintptr{a.Address, b.Address}, []uintptr{leaks[0].Address, leaks[1].Address})
	assert.EqualValues(t, 1000, leaks[0].Size)
	assert.Contains(t, leaks[0].Stack, "pool_test.allocLeak\n\t")
	assert.Contains(t, leaks[0].Stack, "wrap_test.go:")
	assert.Contains(t, leaks[0].String(), fmt.Sprintf("1000 bytes at %#x, got by\n", a.Address))
	putBlock(t, g, tracker, a)
	putBlock(t, g, tracker, b)
	assert.Empty(t, tracker.Leaks())
	assert.ErrorIs(t, tracker.Put(b, nil), arrowbuf.ErrReleased)
}
