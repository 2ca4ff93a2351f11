package trace_test

import (
	"fmt"
	"hash/crc64"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/cudabuf/internal/pool/trace"
)

// bench/gpu/alloctrace.py generates traces with the same checksums.
func TestTracesMatchPython(t *testing.T) {
	for sizes, want := range map[trace.Sizes]string{trace.Uniform: "81e65c90ff593096", trace.Mixed: "07d9774c5dca70e9"} {
		table := crc64.MakeTable(crc64.ECMA)
		var sum uint64
		var lines []string
		line := func(format string, args ...any) {
			s := fmt.Sprintf(format+"\n", args...)
			sum = crc64.Update(sum, table, []byte(s))
			if len(lines) < 4 {
				lines = append(lines, s)
			}
		}
		tr := trace.Trace{Seed: 1, Sizes: sizes, Allocations: 100_000, Live: 1 << 30}
		require.NoError(t, tr.Run(
			func(i int, size int64) error { line("a %d %d", i, size); return nil },
			func(i int) error { line("f %d", i); return nil },
		))
		assert.Equal(t, want, fmt.Sprintf("%016x", sum), "%q", lines)
	}
}

func TestTraceStaysWithinBounds(t *testing.T) {
	for _, sizes := range []trace.Sizes{trace.Uniform, trace.Mixed} {
		live := map[int]int64{}
		var used, peak, lowest, highest int64
		lowest = 1 << 62
		tr := trace.Trace{Seed: 7, Sizes: sizes, Allocations: 200_000, Live: 1 << 30}
		require.NoError(t, tr.Run(
			func(i int, size int64) error {
				live[i] = size
				used += size
				peak, lowest, highest = max(peak, used), min(lowest, size), max(highest, size)
				return nil
			},
			func(i int) error {
				if _, ok := live[i]; !ok {
					return fmt.Errorf("%d is not live", i)
				}
				used -= live[i]
				delete(live, i)
				return nil
			},
		))
		assert.Empty(t, live)
		assert.LessOrEqual(t, peak, int64(1<<30))
		assert.GreaterOrEqual(t, peak, int64(1<<29))
		assert.GreaterOrEqual(t, lowest, int64(512))
		assert.Less(t, highest, int64(64<<20))
		assert.Greater(t, highest, int64(60<<20))
	}
}

func TestTraceStopsAtFirstError(t *testing.T) {
	tr := trace.Trace{Allocations: 10, Live: 1 << 20}
	calls := 0
	err := tr.Run(func(int, int64) error { calls++; return assert.AnError }, func(int) error { return nil })
	assert.ErrorIs(t, err, assert.AnError)
	assert.Equal(t, 1, calls)
	assert.ErrorIs(t, tr.Run(func(int, int64) error { return nil }, func(int) error { return assert.AnError }), assert.AnError)
}
