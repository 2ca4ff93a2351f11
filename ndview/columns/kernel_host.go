package columns

import (
	"sort"
	"sync/atomic"
	"unsafe"

	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
)

// perTile is how many items a block does, and bitWords how many words of a bitmap.
const (
	perTile  = 8 * launch.Threads
	bitWords = launch.Threads
)

// grain is how many items are worth a goroutine.
const grain = 16 << 10

var indexProgram = newProgram("columns_index", map[string]twin{
	"quiver_resolve_i8":  resolve[int8],
	"quiver_resolve_i16": resolve[int16],
	"quiver_resolve_i32": resolve[int32],
	"quiver_resolve_i64": resolve[int64],
	"quiver_resolve_u8":  resolve[uint8],
	"quiver_resolve_u16": resolve[uint16],
	"quiver_resolve_u32": resolve[uint32],
	"quiver_resolve_u64": resolve[uint64],
	"quiver_take_bits":   takeBits,
	"quiver_spread":      spread,
})

// note lowers a flag to an item.
func note(flag []uint64, item int64) {
	for {
		old := atomic.LoadUint64(&flag[0])
		if uint64(item) >= old || atomic.CompareAndSwapUint64(&flag[0], old, uint64(item)) {
			return
		}
	}
}

// bitmap are the bits of a call: bytes of argument i, the first bit of i+1.
// Without bytes all are set.
type bitmap struct {
	bytes []byte
	first int64
}

func bitmapOf(c call, i int, n int64) bitmap {
	first := c.Int64(i + 1)
	return bitmap{elements[uint8](c, i, (first+n+7)/8), first}
}

func (b bitmap) at(i int64) bool {
	if b.bytes == nil {
		return true
	}
	i += b.first
	return b.bytes[i>>3]>>(i&7)&1 != 0
}

func resolve[I int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](c call) {
	n, extent := c.Int64(3), uint64(c.Int64(4))
	indices, valid, out, flag := elements[I](c, 0, n), bitmapOf(c, 1, n), elements[int64](c, 5, n), elements[uint64](c, 6, 1)
	cpu.Parallel(n, grain, func(lo, hi int64) {
		for j := lo; j < hi; j++ {
			i := int64(indices[j])
			switch {
			case !valid.at(j):
				i = -1
			case uint64(i) >= extent:
				note(flag, j)
				i = -1
			}
			out[j] = i
		}
	})
}

func takeBits(c call) {
	extent, n := c.Int64(2), c.Int64(4)
	from, at, out := bitmapOf(c, 0, extent), elements[int64](c, 3, n), elements[uint32](c, 5, (n+31)/32)
	cpu.Parallel(int64(len(out)), grain/32, func(lo, hi int64) {
		for word := lo; word < hi; word++ {
			var set uint32
			for b, i := range at[word*32 : min(word*32+32, n)] {
				if i >= 0 && from.at(i) {
					set |= 1 << b
				}
			}
			out[word] = set
		}
	})
}

func spread(c call) {
	n, each := c.Int64(1), c.Int64(2)
	at, out := elements[int64](c, 0, n/each), elements[int64](c, 3, n)
	cpu.Parallel(n/each, grain/each+1, func(lo, hi int64) {
		for j := lo; j < hi; j++ {
			for k := range each {
				if out[j*each+k] = -1; at[j] >= 0 {
					out[j*each+k] = at[j]*each + k
				}
			}
		}
	})
}

// What a block does: sums of a scan, bytes that are gathered, and indices.
const (
	scanTiles  = 4 * launch.Threads
	gatherTile = 64 * launch.Threads
	expandTile = 8 * launch.Threads
)

var rangeProgram = newProgram("columns_range", map[string]twin{
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

var nestProgram = newProgram("columns_nest", map[string]twin{
	"quiver_union_ids":    unionIDs,
	"quiver_union_child":  unionChild,
	"quiver_union_ranks":  unionRanks,
	"quiver_find_runs_16": findRuns[int16],
	"quiver_find_runs_32": findRuns[int32],
	"quiver_find_runs_64": findRuns[int64],
	"quiver_run_begins":   runBegins,
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

var joinProgram = newProgram("columns_join", map[string]twin{
	"quiver_copy_bits":     copyBits,
	"quiver_ends_32":       ends[int32],
	"quiver_ends_64":       ends[int64],
	"quiver_rebase_32_32":  rebase[int32, int32],
	"quiver_rebase_32_64":  rebase[int32, int64],
	"quiver_rebase_64_32":  rebase[int64, int32],
	"quiver_rebase_64_64":  rebase[int64, int64],
	"quiver_shift_views":   shiftViews,
	"quiver_shift_union":   shiftUnion,
	"quiver_shift_ends_16": shiftEnds[int16],
	"quiver_shift_ends_32": shiftEnds[int32],
	"quiver_shift_ends_64": shiftEnds[int64],
})

func copyBits(c call) {
	from, n, to := bitmap{first: c.Int64(1)}, c.Int64(2), c.Int64(4)
	from.bytes = elements[uint8](c, 0, (from.first+n+7)/8)
	words := elements[uint32](c, 3, (to+n+31)/32)
	out := unsafe.Slice((*uint8)(unsafe.Pointer(unsafe.SliceData(words))), 4*len(words))
	first := to / 8
	cpu.Parallel((to+n+7)/8-first, grain, func(lo, hi int64) {
		for b := first + lo; b < first+hi; b++ {
			i := b*8 - to // of the bits is bit 0 of the byte
			if i >= 0 && i+8 <= n {
				out[b] = from.byteAt(i)
				continue
			}
			for bit := range int64(8) {
				if i+bit < 0 || i+bit >= n {
					continue
				}
				out[b] &^= 1 << bit
				if from.at(i + bit) {
					out[b] |= 1 << bit
				}
			}
		}
	})
}

// byteAt are the eight bits from bit i on.
func (b bitmap) byteAt(i int64) uint8 {
	if b.bytes == nil {
		return 0xff
	}
	i += b.first
	v := b.bytes[i>>3] >> (i & 7)
	if i&7 != 0 {
		v |= b.bytes[i>>3+1] << (8 - i&7)
	}
	return v
}

func ends[W offset](c call) {
	n := c.Int64(1)
	offsets, out := elements[W](c, 0, n+1), elements[int64](c, 2, 2)
	out[0], out[1] = int64(offsets[0]), int64(offsets[n])
}

func rebase[I, O offset](c call) {
	n, delta := c.Int64(1), c.Int64(2)
	in, out := elements[I](c, 0, n), elements[O](c, 3, n)
	cpu.Parallel(n, grain, func(lo, hi int64) {
		for i, v := range in[lo:hi] {
			out[lo+int64(i)] = O(int64(v) + delta)
		}
	})
}

func shiftViews(c call) {
	const inlined = 12 // bytes at most
	n, shift := c.Int64(1), uint32(c.Int64(2))
	mustAlign(c, 0, 16)
	mustAlign(c, 3, 16)
	in, out := elements[uint32](c, 0, 4*n), elements[uint32](c, 3, 4*n)
	cpu.Parallel(n, grain/4, func(lo, hi int64) {
		copy(out[4*lo:4*hi], in[4*lo:4*hi])
		for i := 4 * lo; i < 4*hi; i += 4 {
			if out[i] > inlined {
				out[i+2] += shift
			}
		}
	})
}

// shifts are of the children of a union, by type code.
type shifts struct{ of [128]int32 }

func shiftUnion(c call) {
	n, shift := c.Int64(2), launch.Parameters[shifts](c, 3)
	ids, in, out := elements[int8](c, 0, n), elements[int32](c, 1, n), elements[int32](c, 4, n)
	cpu.Parallel(n, grain, func(lo, hi int64) {
		for i := lo; i < hi; i++ {
			out[i] = in[i] + shift.of[ids[i]&127]
		}
	})
}

func shiftEnds[E int16 | int32 | int64](c call) {
	n, first, elementsOf, before := c.Int64(1), c.Int64(2), c.Int64(3), c.Int64(4)
	in, out := elements[E](c, 0, n), elements[E](c, 5, n)
	cpu.Parallel(n, grain, func(lo, hi int64) {
		for i := lo; i < hi; i++ {
			out[i] = E(min(int64(in[i])-first, elementsOf) + before)
		}
	})
}
