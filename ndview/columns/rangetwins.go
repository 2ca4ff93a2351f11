package columns

import (
	"sort"

	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
)

// What a block does: sums of a scan, bytes that are gathered, and indices.
const (
	scanTiles  = 4 * launch.Threads
	gatherTile = 64 * launch.Threads
	expandTile = 8 * launch.Threads
)

var rangeProgram = newProgram("columns/ranges", map[string]twin{
	"quiver_lengths_32":    lengths[int32],
	"quiver_lengths_64":    lengths[int64],
	"quiver_scan":          scan,
	"quiver_offsets_32":    offsets[int32],
	"quiver_offsets_64":    offsets[int64],
	"quiver_gather_ranges": byWidth(4, gatherRanges[int32], gatherRanges[int64]),
	"quiver_expand_ranges": byWidth(2, expandRanges[int32], expandRanges[int64]),
})

type offset interface{ int32 | int64 }

// byWidth is the twin for offsets of 32 bits, or where argument i is not 0 of 64.
func byWidth(i int, narrow, wide twin) twin {
	return func(c call) {
		if c.Int64(i) != 0 {
			wide(c)
		} else {
			narrow(c)
		}
	}
}

// runOf is the run of a piece, which is that of its number without indices.
func runOf(at []int64, j int64) int64 {
	if at == nil {
		return j
	}
	return at[j]
}

func lengths[W offset](c call) {
	runs, n, limit := c.Int64(2), c.Int64(6), c.Int64(7)
	at, valid, sizes := elements[int64](c, 3, n), bitmapOf(c, 4, runs), elements[W](c, 1, runs)
	starts := elements[W](c, 0, runs)
	if sizes == nil {
		starts = elements[W](c, 0, runs+1)
	}
	out, begins := elements[int64](c, 8, n), elements[int64](c, 9, n)
	sums, flag := elements[int64](c, 10, (n+perTile-1)/perTile), elements[uint64](c, 11, 1)
	measure := func(j int64) (from, size int64) {
		i := runOf(at, j)
		if i < 0 || !valid.at(i) {
			return 0, 0
		}
		from = int64(starts[i])
		if sizes != nil {
			size = int64(sizes[i])
		} else {
			size = int64(starts[i+1]) - from
		}
		if from < 0 || size < 0 || from > limit-size {
			note(flag, j)
			return 0, 0
		}
		return from, size
	}
	cpu.Parallel(int64(len(sums)), grain/perTile, func(lo, hi int64) {
		for t := lo; t < hi; t++ {
			sum := int64(0)
			for j := t * perTile; j < min((t+1)*perTile, n); j++ {
				begins[j], out[j] = measure(j)
				sum += out[j]
			}
			sums[t] = sum
		}
	})
}

func scan(c call) {
	tiles := c.Int64(1)
	sums, flag, starts := elements[int64](c, 0, tiles), elements[int64](c, 2, 1), elements[int64](c, 3, tiles+2)
	sum := int64(0)
	for t, s := range sums {
		starts[t] = sum
		sum += s
	}
	starts[tiles], starts[tiles+1] = sum, flag[0]
}

func offsets[W offset](c call) {
	n := c.Int64(1)
	tiles := (n + perTile - 1) / perTile
	each, starts, out := elements[int64](c, 0, n), elements[int64](c, 2, tiles+1), elements[W](c, 3, n+1)
	cpu.Parallel(tiles, grain/perTile, func(lo, hi int64) {
		for t := lo; t < hi; t++ {
			sum := starts[t]
			for j := t * perTile; j < min((t+1)*perTile, n); j++ {
				out[j] = W(sum)
				sum += each[j]
			}
		}
	})
	out[n] = W(starts[tiles])
}

// gatherRanges copies pieces of values that have each bytes.
func gatherRanges[W offset](c call) {
	size, n, each, total := c.Int64(1), c.Int64(5), c.Int64(6), c.Int64(7)
	mustAlign(c, 8, 16)
	src, out := elements[uint8](c, 0, size), elements[uint8](c, 8, total)
	from, to := elements[int64](c, 2, n), elements[W](c, 3, n+1)
	eachPiece(to, total/each, 64<<10/each+1, func(j int64) {
		if length := int64(to[j+1]-to[j]) * each; length > 0 {
			copyBytes(out[int64(to[j])*each:], src[from[j]*each:], length)
		}
	})
}

// copyBytes copies few bytes by two words that may overlap.
func copyBytes(to, from []byte, n int64) {
	to, from = to[:n], from[:n]
	switch {
	case n > 16:
		copy(to, from)
	case n < 4:
		to[0], to[n/2], to[n-1] = from[0], from[n/2], from[n-1]
	case n >= 8:
		head, tail := [8]byte(from), [8]byte(from[n-8:])
		copy(to[:8], head[:])
		copy(to[n-8:], tail[:])
	default:
		head, tail := [4]byte(from), [4]byte(from[n-4:])
		copy(to[:4], head[:])
		copy(to[n-4:], tail[:])
	}
}

func expandRanges[W offset](c call) {
	n, total := c.Int64(3), c.Int64(4)
	from, to, out := elements[int64](c, 0, n), elements[W](c, 1, n+1), elements[int64](c, 5, total)
	eachPiece(to, total, grain, func(j int64) {
		part := out[to[j]:to[j+1]]
		for k := range part {
			part[k] = from[j] + int64(k)
		}
	})
}

// eachPiece calls do with each piece, in parts of about as many values.
func eachPiece[V offset](to []V, total, grain int64, do func(j int64)) {
	n := len(to) - 1
	begin := func(value int64) int {
		if value == total {
			return n
		}
		return sort.Search(n, func(j int) bool { return int64(to[j]) >= value })
	}
	cpu.Parallel(total, grain, func(lo, hi int64) {
		for j, end := begin(lo), begin(hi); j < end; j++ {
			do(int64(j))
		}
	})
}
