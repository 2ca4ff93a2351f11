package zarr

import (
	"math"

	"github.com/quiver-gpu/quiver/zarr/element"
)

// Sizes of chunks in bytes. The target grows with the array: by a factor of two where
// the array grows by a factor of ten.
const (
	targetAtMiB     = 256 << 10 // the target for an array of 1 MiB
	minTarget       = 128 << 10
	maxChunk        = 64 << 20
	maxChunkOfShard = 1 << 20
)

// AutoChunks returns a chunk shape for an array: that which zarr-python 3.4 chooses.
// Chunks have at least 128 KiB, if the array has, and at most 64 MiB unless one element
// is larger. The array is halved along its axes in turn until the chunk has about the
// size that suits the array.
func AutoChunks(shape []int64, t element.Type) []int64 { return autoChunks(shape, t, maxChunk) }

// AutoShards returns the shapes of the shards and of the chunks within them for an
// array: those which zarr-python 3.4 chooses for shards="auto". Chunks have at most
// 1 MiB. A shard has two of them along every axis with more than eight chunks.
func AutoShards(shape []int64, t element.Type) (shard, chunk []int64) {
	chunk = autoChunks(shape, t, maxChunkOfShard)
	shard = make([]int64, len(chunk))
	for i, n := range chunk {
		shard[i] = n
		if shape[i]/n > 8 {
			shard[i] = 2 * n
		}
	}
	return shard, chunk
}

// AutoShardsOf is [AutoShards] with shards of at most some bytes, but at least one chunk:
// those which zarr-python 3.4 chooses with its setting array.target_shard_size_bytes. A
// shard has the same number of chunks along each axis, and does not exceed the array.
func AutoShardsOf(shape []int64, t element.Type, most int64) (shard, chunk []int64) {
	chunk = autoChunks(shape, t, maxChunkOfShard)
	size := float64(max(t.Size(), 1))
	for _, n := range chunk {
		size *= float64(n)
	}
	fits := func(n int64) bool {
		for i, extent := range chunk {
			if extent > shape[i]/n {
				return false
			}
		}
		return size*math.Pow(float64(n), float64(len(chunk))) <= float64(most)
	}
	n := int64(1)
	if len(chunk) > 0 {
		// A shard may have 2^60 chunks, too many to try one number after the other.
		for step := int64(1) << 62; step > 0; step /= 2 {
			if n <= math.MaxInt64-step && fits(n+step) {
				n += step
			}
		}
	}
	shard = make([]int64, len(chunk))
	for i, extent := range chunk {
		shard[i] = n * extent
	}
	return shard, chunk
}

func autoChunks(shape []int64, t element.Type, most float64) []int64 {
	chunk := make([]int64, len(shape))
	for i, n := range shape {
		chunk[i] = max(n, 1)
	}
	width := float64(max(t.Size(), 1)) // of strings, too
	elements := func() float64 {
		n := 1.0
		for _, extent := range chunk {
			n *= float64(extent)
		}
		return n
	}
	target := targetAtMiB * math.Exp2(math.Log10(elements()*width/(1<<20)))
	target = max(min(target, most), minTarget)
	for axis := 0; ; axis++ {
		n := elements()
		size := n * width
		if small := size < target || math.Abs(size-target)/target < 0.5; small && size < most || n == 1 {
			return chunk
		}
		i := axis % len(chunk)
		chunk[i] = chunk[i]/2 + chunk[i]%2
	}
}
