package columns

import (
	"sort"
	"sync/atomic"
	"unsafe"

	"github.com/quiver-gpu/quiver/internal/launch"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
)

// Work of one thread block: items of most kernels, and words of a bitmap.
const (
	itemsPerBlock = 8 * launch.Threads
	wordsPerBlock = launch.Threads
)

// grain is the least number of items that pays for a goroutine.
const grain = 16 << 10

var indexProgram = newProgram("columns/index", map[string]hostKernel{
	"quiver_resolve_i8":   resolve[int8],
	"quiver_resolve_i16":  resolve[int16],
	"quiver_resolve_i32":  resolve[int32],
	"quiver_resolve_i64":  resolve[int64],
	"quiver_resolve_u8":   resolve[uint8],
	"quiver_resolve_u16":  resolve[uint16],
	"quiver_resolve_u32":  resolve[uint32],
	"quiver_resolve_u64":  resolve[uint64],
	"quiver_take_bits":    takeBits,
	"quiver_expand_fixed": spread,
})

// lowerFlag atomically lowers a flag to item if item is less.
func lowerFlag(flag []uint64, item int64) {
	for {
		old := atomic.LoadUint64(&flag[0])
		if uint64(item) >= old || atomic.CompareAndSwapUint64(&flag[0], old, uint64(item)) {
			return
		}
	}
}

// hostBitmap is a bitmap argument: bytes in argument i, the index of the first bit in
// argument i+1. If bytes is nil, all bits are set.
type hostBitmap struct {
	bytes []byte
	first int64
}

func hostBitmapArg(c kernelArgs, i int, n int64) hostBitmap {
	first := c.Int64(i + 1)
	return hostBitmap{argSlice[uint8](c, i, (first+n+7)/8), first}
}

func (b hostBitmap) at(i int64) bool {
	if b.bytes == nil {
		return true
	}
	i += b.first
	return b.bytes[i>>3]>>(i&7)&1 != 0
}

func resolve[I int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](c kernelArgs) {
	n, extent := c.Int64(3), uint64(c.Int64(4))
	indices, valid, out, flag := argSlice[I](c, 0, n), hostBitmapArg(c, 1, n), argSlice[int64](c, 5, n), argSlice[uint64](c, 6, 1)
	cpu.Parallel(n, grain, func(lo, hi int64) {
		for j := lo; j < hi; j++ {
			i := int64(indices[j])
			switch {
			case !valid.at(j):
				i = -1
			case uint64(i) >= extent:
				lowerFlag(flag, j)
				i = -1
			}
			out[j] = i
		}
	})
}

func takeBits(c kernelArgs) {
	extent, n := c.Int64(2), c.Int64(4)
	from, at, out := hostBitmapArg(c, 0, extent), argSlice[int64](c, 3, n), argSlice[uint32](c, 5, (n+31)/32)
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

func spread(c kernelArgs) {
	n, each := c.Int64(1), c.Int64(2)
	at, out := argSlice[int64](c, 0, n/each), argSlice[int64](c, 3, n)
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

// Work of one thread block: sums of a scan, bytes gathered, and indices expanded.
const (
	scanItems   = 4 * launch.Threads
	gatherItems = 64 * launch.Threads
	expandItems = 8 * launch.Threads
)

var rangeProgram = newProgram("columns/ranges", map[string]hostKernel{
	"quiver_lengths_32":    lengths[int32],
	"quiver_lengths_64":    lengths[int64],
	"quiver_scan":          scan,
	"quiver_offsets_32":    offsets[int32],
	"quiver_offsets_64":    offsets[int64],
	"quiver_gather_ranges": byWidth(4, gatherRanges[int32], gatherRanges[int64]),
	"quiver_expand_ranges": byWidth(2, expandRanges[int32], expandRanges[int64]),
})

type offsetInt interface{ int32 | int64 }

// byWidth returns the host kernel for 32-bit offsets, or for 64-bit ones if argument i
// is not 0.
func byWidth(i int, narrow, wide hostKernel) hostKernel {
	return func(c kernelArgs) {
		if c.Int64(i) != 0 {
			wide(c)
		} else {
			narrow(c)
		}
	}
}

// rangeIndex returns the index of the j-th selected range; nil indices select all.
func rangeIndex(at []int64, j int64) int64 {
	if at == nil {
		return j
	}
	return at[j]
}

func lengths[W offsetInt](c kernelArgs) {
	runs, n, limit := c.Int64(2), c.Int64(6), c.Int64(7)
	at, valid, sizes := argSlice[int64](c, 3, n), hostBitmapArg(c, 4, runs), argSlice[W](c, 1, runs)
	starts := argSlice[W](c, 0, runs)
	if sizes == nil {
		starts = argSlice[W](c, 0, runs+1)
	}
	out, begins := argSlice[int64](c, 8, n), argSlice[int64](c, 9, n)
	sums, flag := argSlice[int64](c, 10, (n+itemsPerBlock-1)/itemsPerBlock), argSlice[uint64](c, 11, 1)
	measure := func(j int64) (from, size int64) {
		i := rangeIndex(at, j)
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
			lowerFlag(flag, j)
			return 0, 0
		}
		return from, size
	}
	cpu.Parallel(int64(len(sums)), grain/itemsPerBlock, func(lo, hi int64) {
		for t := lo; t < hi; t++ {
			sum := int64(0)
			for j := t * itemsPerBlock; j < min((t+1)*itemsPerBlock, n); j++ {
				begins[j], out[j] = measure(j)
				sum += out[j]
			}
			sums[t] = sum
		}
	})
}

func scan(c kernelArgs) {
	tiles := c.Int64(1)
	sums, flag, starts := argSlice[int64](c, 0, tiles), argSlice[int64](c, 2, 1), argSlice[int64](c, 3, tiles+2)
	sum := int64(0)
	for t, s := range sums {
		starts[t] = sum
		sum += s
	}
	starts[tiles], starts[tiles+1] = sum, flag[0]
}

func offsets[W offsetInt](c kernelArgs) {
	n := c.Int64(1)
	tiles := (n + itemsPerBlock - 1) / itemsPerBlock
	each, starts, out := argSlice[int64](c, 0, n), argSlice[int64](c, 2, tiles+1), argSlice[W](c, 3, n+1)
	cpu.Parallel(tiles, grain/itemsPerBlock, func(lo, hi int64) {
		for t := lo; t < hi; t++ {
			sum := starts[t]
			for j := t * itemsPerBlock; j < min((t+1)*itemsPerBlock, n); j++ {
				out[j] = W(sum)
				sum += each[j]
			}
		}
	})
	out[n] = W(starts[tiles])
}

// gatherRanges copies ranges of values that have `each` bytes.
func gatherRanges[W offsetInt](c kernelArgs) {
	size, n, each, total := c.Int64(1), c.Int64(5), c.Int64(6), c.Int64(7)
	mustAlign(c, 8, 16)
	src, out := argSlice[uint8](c, 0, size), argSlice[uint8](c, 8, total)
	from, to := argSlice[int64](c, 2, n), argSlice[W](c, 3, n+1)
	forEachRange(to, total/each, 64<<10/each+1, func(j int64) {
		if length := int64(to[j+1]-to[j]) * each; length > 0 {
			copyBytes(out[int64(to[j])*each:], src[from[j]*each:], length)
		}
	})
}

// copyBytes copies up to 16 bytes with two loads that may overlap, which is faster than
// copy for short ranges.
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

func expandRanges[W offsetInt](c kernelArgs) {
	n, total := c.Int64(3), c.Int64(4)
	from, to, out := argSlice[int64](c, 0, n), argSlice[W](c, 1, n+1), argSlice[int64](c, 5, total)
	forEachRange(to, total, grain, func(j int64) {
		part := out[to[j]:to[j+1]]
		for k := range part {
			part[k] = from[j] + int64(k)
		}
	})
}

// forEachRange calls f for each range, in parallel tasks of about grain values.
func forEachRange[V offsetInt](to []V, total, grain int64, f func(j int64)) {
	n := len(to) - 1
	begin := func(value int64) int {
		if value == total {
			return n
		}
		return sort.Search(n, func(j int) bool { return int64(to[j]) >= value })
	}
	cpu.Parallel(total, grain, func(lo, hi int64) {
		for j, end := begin(lo), begin(hi); j < end; j++ {
			f(int64(j))
		}
	})
}

var nestProgram = newProgram("columns/nested", map[string]hostKernel{
	"quiver_union_ids":    unionIDs,
	"quiver_union_child":  unionChild,
	"quiver_union_ranks":  unionRanks,
	"quiver_find_runs_16": findRunsKernel[int16],
	"quiver_find_runs_32": findRunsKernel[int32],
	"quiver_find_runs_64": findRunsKernel[int64],
	"quiver_run_starts":   runBegins,
	"quiver_run_ends_16":  runEndsKernel[int16],
	"quiver_run_ends_32":  runEndsKernel[int32],
	"quiver_run_ends_64":  runEndsKernel[int64],
})

func unionIDs(c kernelArgs) {
	size, n, first := c.Int64(1), c.Int64(3), int8(c.Int64(4))
	ids, at, out := argSlice[int8](c, 0, size), argSlice[int64](c, 2, n), argSlice[int8](c, 5, n)
	cpu.Parallel(n, grain, func(lo, hi int64) {
		for j := lo; j < hi; j++ {
			if out[j] = first; at[j] >= 0 {
				out[j] = ids[at[j]]
			}
		}
	})
}

func unionChild(c kernelArgs) {
	size, n, code, extent := c.Int64(2), c.Int64(4), int8(c.Int64(5)), c.Int64(6)
	ids, from, at := argSlice[int8](c, 0, n), argSlice[int32](c, 1, size), argSlice[int64](c, 3, n)
	mask, out, flag := argSlice[uint8](c, 7, n), argSlice[int64](c, 8, n), argSlice[uint64](c, 9, 1)
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
				lowerFlag(flag, j)
			}
		}
	})
}

func unionRanks(c kernelArgs) {
	n, size := c.Int64(1), c.Int64(3)
	positions, out := argSlice[int64](c, 0, n), argSlice[int32](c, 2, size)
	cpu.Parallel(n, grain, func(lo, hi int64) {
		for k := lo; k < hi; k++ {
			out[positions[k]] = int32(k)
		}
	})
}

func findRunsKernel[E int16 | int32 | int64](c kernelArgs) {
	runs, offset, n := c.Int64(1), c.Int64(2), c.Int64(4)
	ends, at, out := argSlice[E](c, 0, runs), argSlice[int64](c, 3, n), argSlice[int64](c, 5, n)
	cpu.Parallel(n, grain/8, func(lo, hi int64) {
		for j := lo; j < hi; j++ {
			i := rangeIndex(at, j)
			if i >= 0 {
				position := i + offset
				i = min(int64(sort.Search(len(ends), func(r int) bool { return int64(ends[r]) > position })), runs-1)
			}
			out[j] = i
		}
	})
}

func runBegins(c kernelArgs) {
	n := c.Int64(1)
	at, out := argSlice[int64](c, 0, n), argSlice[uint8](c, 2, n)
	cpu.Parallel(n, grain, func(lo, hi int64) {
		for j := lo; j < hi; j++ {
			out[j] = 0
			if j == 0 || at[j] != at[j-1] {
				out[j] = 1
			}
		}
	})
}

func runEndsKernel[E int16 | int32 | int64](c kernelArgs) {
	n, all := c.Int64(1), c.Int64(2)
	begins, out := argSlice[int64](c, 0, n), argSlice[E](c, 3, n)
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

var joinProgram = newProgram("columns/concatenate", map[string]hostKernel{
	"quiver_copy_bits":      copyBits,
	"quiver_end_offsets_32": ends[int32],
	"quiver_end_offsets_64": ends[int64],
	"quiver_rebase_32_32":   rebase[int32, int32],
	"quiver_rebase_32_64":   rebase[int32, int64],
	"quiver_rebase_64_32":   rebase[int64, int32],
	"quiver_rebase_64_64":   rebase[int64, int64],
	"quiver_shift_views":    shiftViews,
	"quiver_shift_union":    shiftUnion,
	"quiver_shift_ends_16":  shiftEnds[int16],
	"quiver_shift_ends_32":  shiftEnds[int32],
	"quiver_shift_ends_64":  shiftEnds[int64],
})

func copyBits(c kernelArgs) {
	from, n, to := hostBitmap{first: c.Int64(1)}, c.Int64(2), c.Int64(4)
	from.bytes = argSlice[uint8](c, 0, (from.first+n+7)/8)
	words := argSlice[uint32](c, 3, (to+n+31)/32)
	out := unsafe.Slice((*uint8)(unsafe.Pointer(unsafe.SliceData(words))), 4*len(words))
	first := to / 8
	cpu.Parallel((to+n+7)/8-first, grain, func(lo, hi int64) {
		for b := first + lo; b < first+hi; b++ {
			i := b*8 - to // index of the source bit that becomes bit 0 of byte b
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

// byteAt returns the eight bits that start at bit i.
func (b hostBitmap) byteAt(i int64) uint8 {
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

func ends[W offsetInt](c kernelArgs) {
	n := c.Int64(1)
	offsets, out := argSlice[W](c, 0, n+1), argSlice[int64](c, 2, 2)
	out[0], out[1] = int64(offsets[0]), int64(offsets[n])
}

func rebase[I, O offsetInt](c kernelArgs) {
	n, delta := c.Int64(1), c.Int64(2)
	in, out := argSlice[I](c, 0, n), argSlice[O](c, 3, n)
	cpu.Parallel(n, grain, func(lo, hi int64) {
		for i, v := range in[lo:hi] {
			out[lo+int64(i)] = O(int64(v) + delta)
		}
	})
}

func shiftViews(c kernelArgs) {
	const inlined = 12 // longest string that a view stores inline
	n, shift := c.Int64(1), uint32(c.Int64(2))
	mustAlign(c, 0, 16)
	mustAlign(c, 3, 16)
	in, out := argSlice[uint32](c, 0, 4*n), argSlice[uint32](c, 3, 4*n)
	cpu.Parallel(n, grain/4, func(lo, hi int64) {
		copy(out[4*lo:4*hi], in[4*lo:4*hi])
		for i := 4 * lo; i < 4*hi; i += 4 {
			if out[i] > inlined {
				out[i+2] += shift
			}
		}
	})
}

// shifts is an amount to add to the offsets of each child of a union, by type code.
type shifts struct{ of [128]int32 }

func shiftUnion(c kernelArgs) {
	n, shift := c.Int64(2), launch.StructArg[shifts](c, 3)
	ids, in, out := argSlice[int8](c, 0, n), argSlice[int32](c, 1, n), argSlice[int32](c, 4, n)
	cpu.Parallel(n, grain, func(lo, hi int64) {
		for i := lo; i < hi; i++ {
			out[i] = in[i] + shift.of[ids[i]&127]
		}
	})
}

func shiftEnds[E int16 | int32 | int64](c kernelArgs) {
	n, first, elementsOf, before := c.Int64(1), c.Int64(2), c.Int64(3), c.Int64(4)
	in, out := argSlice[E](c, 0, n), argSlice[E](c, 5, n)
	cpu.Parallel(n, grain, func(lo, hi int64) {
		for i := lo; i < hi; i++ {
			out[i] = E(min(int64(in[i])-first, elementsOf) + before)
		}
	})
}
