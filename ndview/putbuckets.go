package ndview

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
)

// What putbucket.cu has of items in a tile.
const putTile = 4096

// putByBuckets does the work of settling places and of writing values to them,
// one each, where it pays to do so bucket by bucket (putbucket.cu). It answers
// whether it did.
func (s *selection) putByBuckets(values *NDBuffer, where *places) (bool, error) {
	b, width, n := buckets, s.from.dtype.Size(), where.indices.Size()
	to := where.extent * width
	if _, onHost := where.indices.hostAt(); onHost || width != 4 && width != 8 || where.step != width || values.Size() < n || n < b.indices ||
		n > math.MaxInt32 || where.extent > math.MaxUint32 || to < b.source || to > 2*mostBuckets*b.bucket || n/b.reads < to/sectorBytes ||
		n > 1 && values.strides[0] != width || (uint64(s.from.buf.Address())+uint64(where.offset)|values.address())%uint64(width) != 0 {
		return false, nil
	}
	if many, err := scattered(where.indices, "i64", n, b.far/width); !many || err != nil {
		return false, err
	}
	if to > mostBuckets*b.bucket {
		b.bucket *= 2
	}
	shift := int32(bits.TrailingZeros64(uint64(b.bucket / width)))
	tiles, many := (n-1)/putTile+1, (where.extent-1)>>shift+1
	sorting := [...]struct {
		dtype DType
		n     int64
	}{{Uint32, n}, {Uint16, n}, {s.from.dtype, n}, {Uint16, tiles * many}, {Uint32, where.extent}}
	var parts [len(sorting)]*NDBuffer
	for i, p := range sorting {
		part, err := Empty(s.from.Device(), p.dtype, p.n)
		if errors.Is(err, arrowbuf.ErrOutOfMemory) {
			return false, nil // which the other way needs less of
		} else if err != nil {
			return false, err
		}
		defer part.Release()
		parts[i] = part
	}
	keys, origins, sorted, starts, claims := parts[0], parts[1], parts[2], parts[3], parts[4]
	if err := claims.Zero(); err != nil {
		return false, err
	}
	dev, blocks := s.from.Device(), (tiles+fetchTiles-1)/fetchTiles
	err := launch.Queue(dev, putBucketProgram, fmt.Sprintf("quiver_put_sort_%d", width), cudabuf.Dim3{X: uint32(tiles)}, cudabuf.Dim3{X: bucketThreads},
		where.indices.in(), values.in(), keys.inOut(), origins.inOut(), sorted.inOut(), starts.inOut(), n, shift, int32(many))
	if err != nil {
		return false, err
	}
	eachPart, block := cudabuf.Dim3{X: uint32(blocks * many)}, cudabuf.Dim3{X: fetchThreads}
	err = launch.Queue(dev, putBucketProgram, "quiver_put_claim", eachPart, block,
		keys.in(), origins.in(), claims.inOut(), starts.in(), n, int32(tiles), int32(many), int32(blocks))
	if err != nil {
		return false, err
	}
	return true, launch.Queue(dev, putBucketProgram, fmt.Sprintf("quiver_put_write_%d", width), eachPart, block,
		launch.InOut(s.from.buf, where.offset), keys.in(), origins.in(), sorted.in(), claims.in(), starts.in(), n, int32(tiles), int32(many), int32(blocks))
}

var putBucketProgram = launch.Program("index/put_bucket", map[string]cudabuf.HostKernel{
	"quiver_put_sort_4": putSortTwin[uint32], "quiver_put_sort_8": putSortTwin[uint64],
	"quiver_put_write_4": putWriteTwin[uint32], "quiver_put_write_8": putWriteTwin[uint64],
	"quiver_put_claim": func(l *cudabuf.HostLaunch) {
		n := l.Int64(4)
		keys, origins := cudabuf.Elements[uint32](l, l.Pointer(0), n), cudabuf.Elements[uint16](l, l.Pointer(1), n)
		for i, key := range keys {
			claim := cudabuf.Elements[uint32](l, l.Pointer(2)+4*uintptr(key), 1)
			claim[0] = max(claim[0], uint32(i/putTile*putTile)+uint32(origins[i])+1)
		}
	},
})

func putSortTwin[T uint32 | uint64](l *cudabuf.HostLaunch) {
	n, shift, many := l.Int64(6), l.Int32(7), int64(l.Int32(8))
	pos, values := cudabuf.Elements[int64](l, l.Pointer(0), n), cudabuf.Elements[T](l, l.Pointer(1), n)
	keys, origins := cudabuf.Elements[uint32](l, l.Pointer(2), n), cudabuf.Elements[uint16](l, l.Pointer(3), n)
	sorted := cudabuf.Elements[T](l, l.Pointer(4), n)
	starts := cudabuf.Elements[uint16](l, l.Pointer(5), ((n-1)/putTile+1)*many)
	for base := int64(0); base < n; base += putTile {
		part, next := pos[base:min(base+putTile, n)], make([]int64, many+1)
		for _, k := range part {
			next[k>>shift+1]++
		}
		for b := range many {
			starts[base/putTile*many+b] = uint16(next[b])
			next[b+1] += next[b]
		}
		for i, k := range part {
			to := base + next[k>>shift]
			next[k>>shift]++
			keys[to], origins[to], sorted[to] = uint32(k), uint16(i), values[base+int64(i)]
		}
	}
}

func putWriteTwin[T uint32 | uint64](l *cudabuf.HostLaunch) {
	n := l.Int64(6)
	keys, origins := cudabuf.Elements[uint32](l, l.Pointer(1), n), cudabuf.Elements[uint16](l, l.Pointer(2), n)
	sorted := cudabuf.Elements[T](l, l.Pointer(3), n)
	var one T
	for i, key := range keys {
		claim := cudabuf.Elements[uint32](l, l.Pointer(4)+4*uintptr(key), 1)
		if claim[0] == uint32(i/putTile*putTile)+uint32(origins[i])+1 {
			cudabuf.Elements[T](l, l.Pointer(0)+uintptr(key)*unsafe.Sizeof(one), 1)[0] = sorted[i]
		}
	}
}
