package columns

import (
	"sort"

	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
)

var nestProgram = newProgram("columns/nested", map[string]twin{
	"quiver_union_ids":    unionIDs,
	"quiver_union_child":  unionChild,
	"quiver_union_ranks":  unionRanks,
	"quiver_find_runs_16": findRuns[int16],
	"quiver_find_runs_32": findRuns[int32],
	"quiver_find_runs_64": findRuns[int64],
	"quiver_run_starts":   runBegins,
	"quiver_run_ends_16":  runEnds[int16],
	"quiver_run_ends_32":  runEnds[int32],
	"quiver_run_ends_64":  runEnds[int64],
})

func unionIDs(c call) {
	size, n, first := c.Int64(1), c.Int64(3), int8(c.Int64(4))
	ids, at, out := elements[int8](c, 0, size), elements[int64](c, 2, n), elements[int8](c, 5, n)
	cpu.Parallel(n, grain, func(lo, hi int64) {
		for j := lo; j < hi; j++ {
			if out[j] = first; at[j] >= 0 {
				out[j] = ids[at[j]]
			}
		}
	})
}

func unionChild(c call) {
	size, n, code, extent := c.Int64(2), c.Int64(4), int8(c.Int64(5)), c.Int64(6)
	ids, from, at := elements[int8](c, 0, n), elements[int32](c, 1, size), elements[int64](c, 3, n)
	mask, out, flag := elements[uint8](c, 7, n), elements[int64](c, 8, n), elements[uint64](c, 9, 1)
	cpu.Parallel(n, grain, func(lo, hi int64) {
		for j := lo; j < hi; j++ {
			mask[j], out[j] = 0, -1
			if ids[j] != code {
				continue
			}
			if mask[j] = 1; at[j] < 0 {
				continue
			}
			if out[j] = int64(from[at[j]]); uint64(out[j]) >= uint64(extent) {
				note(flag, j)
			}
		}
	})
}

func unionRanks(c call) {
	n, size := c.Int64(1), c.Int64(3)
	places, out := elements[int64](c, 0, n), elements[int32](c, 2, size)
	cpu.Parallel(n, grain, func(lo, hi int64) {
		for k := lo; k < hi; k++ {
			out[places[k]] = int32(k)
		}
	})
}

func findRuns[E int16 | int32 | int64](c call) {
	runs, offset, n := c.Int64(1), c.Int64(2), c.Int64(4)
	ends, at, out := elements[E](c, 0, runs), elements[int64](c, 3, n), elements[int64](c, 5, n)
	cpu.Parallel(n, grain/8, func(lo, hi int64) {
		for j := lo; j < hi; j++ {
			i := runOf(at, j)
			if i >= 0 {
				place := i + offset
				i = min(int64(sort.Search(len(ends), func(r int) bool { return int64(ends[r]) > place })), runs-1)
			}
			out[j] = i
		}
	})
}

func runBegins(c call) {
	n := c.Int64(1)
	at, out := elements[int64](c, 0, n), elements[uint8](c, 2, n)
	cpu.Parallel(n, grain, func(lo, hi int64) {
		for j := lo; j < hi; j++ {
			out[j] = 0
			if j == 0 || at[j] != at[j-1] {
				out[j] = 1
			}
		}
	})
}

func runEnds[E int16 | int32 | int64](c call) {
	n, all := c.Int64(1), c.Int64(2)
	begins, out := elements[int64](c, 0, n), elements[E](c, 3, n)
	cpu.Parallel(n, grain, func(lo, hi int64) {
		for k := lo; k < hi; k++ {
			end := all
			if k+1 < n {
				end = begins[k+1]
			}
			out[k] = E(end)
		}
	})
}
