package ndview

import (
	"fmt"
	"unsafe"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
)

// resolveProgram maps indices to positions; resolveIndices launches it.
var resolveProgram = launch.Program("index/resolve", map[string]cudabuf.HostKernel{"quiver_resolve_indices": func(l *cudabuf.HostLaunch) {
	walk, f := launch.StructArg[cpu.Walk](l, 2), launch.StructArg[cpu.IndexMap](l, 3)
	low, high := walk.ByteBounds(&walk.Index, int64(f.Size))
	launch.MustAlign(l, 1, 8)
	cpu.ResolveIndices(launch.PointerArg(l, 1, 0, 8*walk.Items), launch.PointerArg(l, 0, low, high), &walk, &f, badIndexReport(l, 4))
}})

// badIndexReport returns the number of a launch's first item and the flag for bad
// indices, which are arguments i and i+1.
func badIndexReport(l *cudabuf.HostLaunch, i int) cpu.BadIndexReport {
	return cpu.BadIndexReport{First: l.Int64(i), Flag: (*cpu.FirstBadIndex)(launch.PointerArg(l, i+1, 0, 8))}
}

// compactProgram selects by masks; the methods of maskScan and unravelPositions
// launch it.
var compactProgram = launch.Program("index/compact", compactHostKernels())

func compactHostKernels() map[string]cudabuf.HostKernel {
	kernels := map[string]cudabuf.HostKernel{
		"quiver_mask_count": func(l *cudabuf.HostLaunch) {
			n := l.Int64(1)
			cpu.CountTiles(l.Memory(l.Pointer(0), n), cudabuf.Elements[uint32](l, l.Pointer(2), cpu.Tiles(n)))
		},
		"quiver_mask_scan": func(l *cudabuf.HostLaunch) {
			tiles := l.Int64(1)
			launch.MustAlign(l, 0, 16)
			cpu.ScanTiles(cudabuf.Elements[uint32](l, l.Pointer(0), tiles), cudabuf.Elements[int64](l, l.Pointer(2), tiles+1))
		},
		"quiver_true_positions": func(l *cudabuf.HostLaunch) {
			mask, starts := maskArgs(l)
			cpu.TruePositions(mask, starts, cudabuf.Elements[uint64](l, l.Pointer(3), starts[len(starts)-1]))
		},
		"quiver_unravel": func(l *cudabuf.HostLaunch) {
			n, shape := l.Int64(1), launch.StructArg[shapeArg](l, 2)
			pos := cudabuf.Elements[int64](l, l.Pointer(0), n)
			cpu.Unravel(pos, shape.Extent[:shape.Axes], cudabuf.Elements[int64](l, l.Pointer(3), n*shape.Axes))
		},
	}
	for _, width := range []int64{1, 2, 4, 8, 16} {
		kernels[fmt.Sprintf("quiver_compact_%d", width)] = func(l *cudabuf.HostLaunch) {
			mask, starts := maskArgs(l)
			launch.MustAlign(l, 3, width)
			launch.MustAlign(l, 4, width)
			cpu.Compact(mask, starts, launch.PointerArg(l, 3, 0, width*int64(len(mask))), launch.PointerArg(l, 4, 0, width*starts[len(starts)-1]), width)
		}
		kernels[fmt.Sprintf("quiver_expand_%d", width)] = func(l *cudabuf.HostLaunch) {
			mask, starts := maskArgs(l)
			step := l.Int64(4)
			launch.MustAlign(l, 3, width)
			launch.MustAlign(l, 5, width)
			values := (starts[len(starts)-1]-1)*step + 1
			cpu.Expand(mask, starts, launch.PointerArg(l, 3, 0, width*values), step, launch.PointerArg(l, 5, 0, width*int64(len(mask))), width)
		}
	}
	return kernels
}

// maskArgs returns the mask of a launch by launchTiles, and its tile starts.
func maskArgs(l *cudabuf.HostLaunch) (mask []byte, starts []int64) {
	n := l.Int64(1)
	return l.Memory(l.Pointer(0), n), cudabuf.Elements[int64](l, l.Pointer(2), cpu.Tiles(n)+1)
}

// takeProgram gathers elements; gatherUnits launches it.
var takeProgram = launch.Program("index/take", takeHostKernels())

func takeHostKernels() map[string]cudabuf.HostKernel {
	kernels := map[string]cudabuf.HostKernel{}
	for _, width := range []int64{1, 2, 4, 8, 16} {
		for _, size := range []int64{4, 8} {
			kernel := fmt.Sprintf("%d_i%d", width, 8*size)
			kernels["quiver_take_"+kernel] = func(l *cudabuf.HostLaunch) {
				n, extent := l.Int64(3), l.Int64(4)
				walk := cpu.Walk{Items: n, Axes: 1}
				walk.Extent[0], walk.Index[0] = n, size
				launch.MustAlign(l, 0, width)
				launch.MustAlign(l, 1, size)
				launch.MustAlign(l, 2, width)
				cpu.Gather(launch.PointerArg(l, 2, 0, width*n), launch.PointerArg(l, 0, 0, width*extent), launch.PointerArg(l, 1, 0, size*n),
					width, size, &walk, extent, width, badIndexReport(l, 5))
			}
			kernels["quiver_gather_"+kernel] = func(l *cudabuf.HostLaunch) {
				walk, extent, step := launch.StructArg[cpu.Walk](l, 3), l.Int64(4), l.Int64(5)
				low, high := walk.ByteBounds(&walk.Data, width)
				indexLow, indexHigh := walk.ByteBounds(&walk.Index, size)
				reach := (extent - 1) * step
				launch.MustAlign(l, 0, width, append(walk.Data[:walk.Axes:walk.Axes], step)...)
				launch.MustAlign(l, 1, size, walk.Index[:walk.Axes]...)
				launch.MustAlign(l, 2, width)
				cpu.Gather(launch.PointerArg(l, 2, 0, width*walk.Items), launch.PointerArg(l, 0, low+min(reach, 0), high+max(reach, 0)),
					launch.PointerArg(l, 1, indexLow, indexHigh), width, size, &walk, extent, step, badIndexReport(l, 6))
			}
		}
	}
	return kernels
}

// takeBucketProgram gathers elements by buckets; takeBucketed launches it.
var takeBucketProgram = launch.Program("index/take_bucket", takeBucketHostKernels())

func takeBucketHostKernels() map[string]cudabuf.HostKernel {
	kernels := map[string]cudabuf.HostKernel{
		"quiver_sample_i32":       countFarNeighbours[int32],
		"quiver_sample_i64":       countFarNeighbours[int64],
		"quiver_bucket_fetch_4":   fetchElements[uint32],
		"quiver_bucket_fetch_8":   fetchElements[uint64],
		"quiver_bucket_reorder_4": reorderTiles[uint32],
		"quiver_bucket_reorder_8": reorderTiles[uint64],
	}
	for _, width := range []int64{4, 8} {
		kernels[fmt.Sprintf("quiver_bucket_sort_%d_i32", width)] = sortIndicesByBucket[int32](width)
		kernels[fmt.Sprintf("quiver_bucket_sort_%d_i64", width)] = sortIndicesByBucket[int64](width)
	}
	return kernels
}

// countFarNeighbours counts the sampled neighbours that are more than far apart.
func countFarNeighbours[I int32 | int64](l *cudabuf.HostLaunch) {
	n, far := l.Int64(1), l.Int64(2)
	indices, farPairs := cudabuf.Elements[I](l, l.Pointer(0), n), int32(0)
	for t := range int64(bucketThreads) {
		j := (n - 2) / (bucketThreads - 1) * t
		if step := int64(indices[j+1]) - int64(indices[j]); max(step, -step) > far {
			farPairs++
		}
	}
	cudabuf.Elements[int32](l, l.Pointer(3), 1)[0] = farPairs
}

// sortIndicesByBucket sorts the indices of each tile by bucket, in the memory of the
// result.
func sortIndicesByBucket[I int32 | int64](width int64) cudabuf.HostKernel {
	return func(l *cudabuf.HostLaunch) {
		n, extent, shift, buckets := l.Int64(4), l.Int64(5), l.Int32(6), int64(l.Int32(7))
		r := badIndexReport(l, 8)
		launch.MustAlign(l, 0, 16)
		launch.MustAlign(l, 1, width)
		launch.MustAlign(l, 2, 16)
		indices := cudabuf.Elements[I](l, l.Pointer(0), n)
		sorted := l.Memory(l.Pointer(1), n*width)
		ranks := cudabuf.Elements[uint16](l, l.Pointer(2), (n+3)/4*4)
		tile := takeTileBytes / width
		starts := cudabuf.Elements[uint16](l, l.Pointer(3), (n+tile-1)/tile*buckets)
		for base := int64(0); base < n; base += tile {
			part := indices[base:min(base+tile, n)]
			keys, next := make([]int64, len(part)), make([]int64, buckets+1)
			for j, i := range part {
				k := int64(i)
				if k < 0 {
					k += extent
				}
				if uint64(k) >= uint64(extent) {
					r.Record(base + int64(j))
					k = 0
				}
				keys[j] = k
				next[k>>shift+1]++
			}
			for b := range buckets {
				starts[base/tile*buckets+b] = uint16(next[b])
				next[b+1] += next[b]
			}
			for j, k := range keys {
				to := next[k>>shift]
				next[k>>shift]++
				ranks[base+int64(j)] = uint16(to)
				*(*uint32)(unsafe.Pointer(&sorted[(base+to)*width])) = uint32(k)
			}
		}
	}
}

// fetchElements replaces each sorted index by its element.
func fetchElements[T uint32 | uint64](l *cudabuf.HostLaunch) {
	n := l.Int64(3)
	sorted := cudabuf.Elements[T](l, l.Pointer(1), n)
	for j, k := range sorted {
		address := l.Pointer(0) + uintptr(uint32(k))*unsafe.Sizeof(k)
		sorted[j] = cudabuf.Elements[T](l, address, 1)[0]
	}
}

// reorderTiles puts the elements of each tile in the order of its indices.
func reorderTiles[T uint32 | uint64](l *cudabuf.HostLaunch) {
	n := l.Int64(2)
	launch.MustAlign(l, 0, 16)
	launch.MustAlign(l, 1, 8)
	out, ranks := cudabuf.Elements[T](l, l.Pointer(0), n), cudabuf.Elements[uint16](l, l.Pointer(1), n)
	var one T
	tile := takeTileBytes / int64(unsafe.Sizeof(one))
	for base := int64(0); base < n; base += tile {
		part := out[base:min(base+tile, n)]
		before := append([]T(nil), part...)
		for j := range part {
			part[j] = before[ranks[base+int64(j)]]
		}
	}
}

// putProgram scatters values; scatterUnits and discardRepeats launch it.
var putProgram = launch.Program("index/put", putHostKernels())

func putHostKernels() map[string]cudabuf.HostKernel {
	kernels := map[string]cudabuf.HostKernel{}
	for _, width := range []int64{1, 2, 4, 8, 16} {
		kernels[fmt.Sprintf("quiver_scatter_%d", width)] = func(l *cudabuf.HostLaunch) {
			walk, extent, step := launch.StructArg[cpu.Walk](l, 3), l.Int64(4), l.Int64(5)
			valueLow, valueHigh := walk.ByteBounds(&walk.Value, width)
			indexLow, indexHigh := walk.ByteBounds(&walk.Index, 8)
			low, high := walk.ByteBounds(&walk.Data, width)
			launch.MustAlign(l, 0, width, append(walk.Data[:walk.Axes:walk.Axes], step)...)
			launch.MustAlign(l, 1, 8, walk.Index[:walk.Axes]...)
			launch.MustAlign(l, 2, width, walk.Value[:walk.Axes]...)
			cpu.Scatter(launch.PointerArg(l, 0, low, high+(extent-1)*step), launch.PointerArg(l, 1, indexLow, indexHigh),
				launch.PointerArg(l, 2, valueLow, valueHigh), width, &walk, extent, step, true)
		}
	}
	kernels["quiver_claim_32"] = claimPositions[uint32]
	kernels["quiver_claim_64"] = claimPositions[uint64]
	kernels["quiver_discard_32"] = discardRepeatedPositions[uint32]
	kernels["quiver_discard_64"] = discardRepeatedPositions[uint64]
	return kernels
}

// claimArgs returns the positions of a launch, its claims, and the slot of a position
// in the claims. The table is a hash table with linear probing if it has keys.
func claimArgs[Claim uint32 | uint64](l *cudabuf.HostLaunch) (pos []int64, claims []Claim, slot func(at int64) int64) {
	slots := int64(l.Uint64(4))
	pos = cudabuf.Elements[int64](l, l.Pointer(0), l.Int64(1))
	claims = cudabuf.Elements[Claim](l, l.Pointer(2), slots)
	if l.Pointer(3) == 0 {
		return pos, claims, func(at int64) int64 { return at }
	}
	keys := cudabuf.Elements[uint64](l, l.Pointer(3), slots)
	return pos, claims, func(at int64) int64 {
		for s := at % slots; ; s = (s + 1) % slots {
			if keys[s] == 0 {
				keys[s] = uint64(at) + 1
			}
			if keys[s] == uint64(at)+1 {
				return s
			}
		}
	}
}

// claimPositions writes the number of the last item of each position to its slot.
func claimPositions[Claim uint32 | uint64](l *cudabuf.HostLaunch) {
	pos, claims, slot := claimArgs[Claim](l)
	for j, at := range pos {
		claims[slot(at)] = Claim(j) + 1
	}
}

// discardRepeatedPositions discards the position of each item that is not the last of
// its position.
func discardRepeatedPositions[Claim uint32 | uint64](l *cudabuf.HostLaunch) {
	pos, claims, slot := claimArgs[Claim](l)
	for j, at := range pos {
		if claims[slot(at)] != Claim(j)+1 {
			pos[j] = cpu.Discarded
		}
	}
}

// putBucketProgram scatters values by buckets; putBucketed launches it.
var putBucketProgram = launch.Program("index/put_bucket", map[string]cudabuf.HostKernel{
	"quiver_put_sort_4": sortPutsByBucket[uint32], "quiver_put_sort_8": sortPutsByBucket[uint64],
	"quiver_put_write_4": writePuts[uint32], "quiver_put_write_8": writePuts[uint64],
	"quiver_put_claim": func(l *cudabuf.HostLaunch) {
		n := l.Int64(4)
		keys, origins := cudabuf.Elements[uint32](l, l.Pointer(0), n), cudabuf.Elements[uint16](l, l.Pointer(1), n)
		for i, key := range keys {
			claim := cudabuf.Elements[uint32](l, l.Pointer(2)+4*uintptr(key), 1)
			claim[0] = max(claim[0], uint32(i/putTileItems*putTileItems)+uint32(origins[i])+1)
		}
	},
})

// sortPutsByBucket sorts the positions of each tile by bucket, and their values with
// them. origins are the places of the values in the tile before.
func sortPutsByBucket[T uint32 | uint64](l *cudabuf.HostLaunch) {
	n, shift, buckets := l.Int64(6), l.Int32(7), int64(l.Int32(8))
	pos, values := cudabuf.Elements[int64](l, l.Pointer(0), n), cudabuf.Elements[T](l, l.Pointer(1), n)
	keys, origins := cudabuf.Elements[uint32](l, l.Pointer(2), n), cudabuf.Elements[uint16](l, l.Pointer(3), n)
	sorted := cudabuf.Elements[T](l, l.Pointer(4), n)
	starts := cudabuf.Elements[uint16](l, l.Pointer(5), ((n-1)/putTileItems+1)*buckets)
	for base := int64(0); base < n; base += putTileItems {
		part, next := pos[base:min(base+putTileItems, n)], make([]int64, buckets+1)
		for _, k := range part {
			next[k>>shift+1]++
		}
		for b := range buckets {
			starts[base/putTileItems*buckets+b] = uint16(next[b])
			next[b+1] += next[b]
		}
		for i, k := range part {
			to := base + next[k>>shift]
			next[k>>shift]++
			keys[to], origins[to], sorted[to] = uint32(k), uint16(i), values[base+int64(i)]
		}
	}
}

// writePuts writes the value of the last item of each position.
func writePuts[T uint32 | uint64](l *cudabuf.HostLaunch) {
	n := l.Int64(6)
	keys, origins := cudabuf.Elements[uint32](l, l.Pointer(1), n), cudabuf.Elements[uint16](l, l.Pointer(2), n)
	sorted := cudabuf.Elements[T](l, l.Pointer(3), n)
	var one T
	for i, key := range keys {
		claim := cudabuf.Elements[uint32](l, l.Pointer(4)+4*uintptr(key), 1)
		if claim[0] == uint32(i/putTileItems*putTileItems)+uint32(origins[i])+1 {
			cudabuf.Elements[T](l, l.Pointer(0)+uintptr(key)*unsafe.Sizeof(one), 1)[0] = sorted[i]
		}
	}
}
