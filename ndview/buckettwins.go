package ndview

import (
	"fmt"
	"unsafe"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
)

var bucketProgram = launch.Program("index/take_bucket", bucketTwins())

func bucketTwins() map[string]cudabuf.HostKernel {
	twins := map[string]cudabuf.HostKernel{
		"quiver_sample_i32":       sampleTwin[int32],
		"quiver_sample_i64":       sampleTwin[int64],
		"quiver_bucket_fetch_4":   fetchTwin[uint32],
		"quiver_bucket_fetch_8":   fetchTwin[uint64],
		"quiver_bucket_reorder_4": placeTwin[uint32],
		"quiver_bucket_reorder_8": placeTwin[uint64],
	}
	for _, width := range []int64{4, 8} {
		twins[fmt.Sprintf("quiver_bucket_sort_%d_i32", width)] = sortTwin[int32](width)
		twins[fmt.Sprintf("quiver_bucket_sort_%d_i64", width)] = sortTwin[int64](width)
	}
	return twins
}

func sampleTwin[I int32 | int64](l *cudabuf.HostLaunch) {
	n, far := l.Int64(1), l.Int64(2)
	indices, many := cudabuf.Elements[I](l, l.Pointer(0), n), int32(0)
	for t := range int64(bucketThreads) {
		j := (n - 2) / (bucketThreads - 1) * t
		if step := int64(indices[j+1]) - int64(indices[j]); max(step, -step) > far {
			many++
		}
	}
	cudabuf.Elements[int32](l, l.Pointer(3), 1)[0] = many
}

func sortTwin[I int32 | int64](width int64) cudabuf.HostKernel {
	return func(l *cudabuf.HostLaunch) {
		n, extent, shift, many := l.Int64(4), l.Int64(5), l.Int32(6), int64(l.Int32(7))
		r := report(l, 8)
		launch.MustAlign(l, 0, 16)
		launch.MustAlign(l, 1, width)
		launch.MustAlign(l, 2, 16)
		indices := cudabuf.Elements[I](l, l.Pointer(0), n)
		sorted := l.Memory(l.Pointer(1), n*width)
		ranks := cudabuf.Elements[uint16](l, l.Pointer(2), (n+3)/4*4)
		tile := bucketTile / width
		starts := cudabuf.Elements[uint16](l, l.Pointer(3), (n+tile-1)/tile*many)
		for base := int64(0); base < n; base += tile {
			part := indices[base:min(base+tile, n)]
			keys, next := make([]int64, len(part)), make([]int64, many+1)
			for j, i := range part {
				k := int64(i)
				if k < 0 {
					k += extent
				}
				if uint64(k) >= uint64(extent) {
					r.Bad(base + int64(j))
					k = 0
				}
				keys[j] = k
				next[k>>shift+1]++
			}
			for b := range many {
				starts[base/tile*many+b] = uint16(next[b])
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

func fetchTwin[T uint32 | uint64](l *cudabuf.HostLaunch) {
	n := l.Int64(3)
	sorted := cudabuf.Elements[T](l, l.Pointer(1), n)
	for j, k := range sorted {
		address := l.Pointer(0) + uintptr(uint32(k))*unsafe.Sizeof(k)
		sorted[j] = cudabuf.Elements[T](l, address, 1)[0]
	}
}

func placeTwin[T uint32 | uint64](l *cudabuf.HostLaunch) {
	n := l.Int64(2)
	launch.MustAlign(l, 0, 16)
	launch.MustAlign(l, 1, 8)
	out, ranks := cudabuf.Elements[T](l, l.Pointer(0), n), cudabuf.Elements[uint16](l, l.Pointer(1), n)
	var one T
	tile := bucketTile / int64(unsafe.Sizeof(one))
	for base := int64(0); base < n; base += tile {
		part := out[base:min(base+tile, n)]
		before := append([]T(nil), part...)
		for j := range part {
			part[j] = before[ranks[base+int64(j)]]
		}
	}
}
