package ndview

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
)

// bucketing says when indices are followed bucket by bucket of the source, which
// pays where they are many, at random, and the source is larger than a GPU's
// cache (bucket.cu).
type bucketing struct {
	indices int64 // how many there are at least
	source  int64 // bytes it has at least
	bucket  int64 // bytes of one, a power of two that fits the cache a few times
	reads   int64 // how often a sector of the source is wanted at least, on average
	far     int64 // bytes between neighbours that are not in the cache together
}

// Measured on an H200: 2^28 random indices take 4.2 ms so, and 7.0 ms else. It is
// even where each sector is read twice.
var buckets = bucketing{indices: 1 << 22, source: 128 << 20, bucket: 8 << 20, reads: 3, far: 1 << 20}

// What bucket.cu has of threads, of buckets, and of bytes of a tile of a result.
const (
	bucketThreads = 512
	mostBuckets   = 256
	bucketTile    = 32 << 10
	sectorBytes   = 32
	fetchThreads  = 256
	fetchTiles    = fetchThreads / 32 // a warp does one
)

// takeByBuckets does the work of quiver_take where that pays. It answers whether
// it did.
func takeByBuckets(out *NDBuffer, from arrowbuf.Buffer, where *places, width, n int64, flags *flags) (bool, error) {
	dev, b := out.Device(), buckets
	source := where.extent * width
	if width != 4 && width != 8 || n < b.indices || n > math.MaxInt32 || where.extent > math.MaxUint32 ||
		source < b.source || source > 2*mostBuckets*b.bucket || n/b.reads < source/sectorBytes ||
		(out.address()|where.indices.address())%16 != 0 {
		return false, nil
	}
	kind := fmt.Sprintf("i%d", 8*where.indices.dtype.size)
	if scattered, err := scattered(where.indices, kind, n, b.far/width); !scattered || err != nil {
		return false, err
	}
	if source > mostBuckets*b.bucket {
		b.bucket *= 2
	}
	shift := int32(bits.TrailingZeros64(uint64(b.bucket / width)))
	tiles := (n*width + bucketTile - 1) / bucketTile
	many := (where.extent-1)>>shift + 1
	ranks, err := Empty(dev, Uint16, (n+3)/4*4)
	if errors.Is(err, arrowbuf.ErrOutOfMemory) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	defer ranks.Release()
	starts, err := Empty(dev, Uint16, tiles*many)
	if err != nil {
		return false, err
	}
	defer starts.Release()
	eachTile, block := cudabuf.Dim3{X: uint32(tiles)}, cudabuf.Dim3{X: bucketThreads}
	err = launch.Queue(dev, bucketProgram, fmt.Sprintf("quiver_bucket_sort_%d_%s", width, kind), eachTile, block,
		where.indices.in(), out.inOut(), ranks.inOut(), starts.inOut(), n, where.extent, shift, int32(many), int64(0), flags.array.inOut())
	if err != nil {
		return false, err
	}
	blocks := (tiles + fetchTiles - 1) / fetchTiles
	err = launch.Queue(dev, bucketProgram, fmt.Sprintf("quiver_bucket_fetch_%d", width), cudabuf.Dim3{X: uint32(blocks * many)}, cudabuf.Dim3{X: fetchThreads},
		launch.In(from, where.offset), out.inOut(), starts.in(), n, int32(tiles), int32(many), int32(blocks))
	if err != nil {
		return false, err
	}
	return true, launch.Queue(dev, bucketProgram, fmt.Sprintf("quiver_bucket_reorder_%d", width), eachTile, block, out.inOut(), ranks.in(), n)
}

// scattered tells whether most neighbours among indices, of which there are many,
// are further apart than far.
func scattered(indices *NDBuffer, kind string, n, far int64) (bool, error) {
	count, err := Empty(indices.Device(), Int32, 1)
	if err != nil {
		return false, err
	}
	defer count.Release()
	err = launch.Queue(indices.Device(), bucketProgram, "quiver_sample_"+kind, cudabuf.Dim3{X: 1}, cudabuf.Dim3{X: bucketThreads},
		indices.in(), n, far, count.inOut())
	if err != nil {
		return false, err
	}
	many, err := ToHost[int32](count)
	return err == nil && many[0] > bucketThreads/2, err
}
