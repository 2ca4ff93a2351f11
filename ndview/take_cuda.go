package ndview

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
)

// gatherUnits copies units of width bytes at positions of a buffer to out and flags
// bad indices. A unit is an element or a run of elements that the walk merged. The
// host kernels are in takeProgram.
func gatherUnits(out *NDBuffer, from arrowbuf.Buffer, pos *positions, width int64, walk *cpu.Walk, flags *badIndexFlags) error {
	size := pos.indices.dtype.Size()
	if to, ok := out.hostAt(); ok {
		src, _ := hostAt(from, pos.offset)
		indices, _ := pos.indices.hostAt()
		word, _ := flags.words.hostAt()
		cpu.Gather(to, src, indices, width, size, walk, pos.extent, pos.step, cpu.BadIndexReport{Flag: (*cpu.FirstBadIndex)(word)})
		return nil
	}
	kernel := fmt.Sprintf("%d_i%d", width, 8*size)
	contiguous := walk.Axes == 1 && walk.Data[0] == 0 && walk.Index[0] == size && pos.step == width
	if contiguous {
		if done, err := takeBucketed(out, from, pos, width, walk.Items, flags); done || err != nil {
			return err
		}
	}
	return walk.Split(maxItems, func(part *cpu.Walk, first int64, at cpu.Offset) error {
		src, indices, to := launch.In(from, pos.offset+at.Data), pos.indices.at(at.Index), out.atOut(width*first)
		if contiguous {
			return launch.QueueItems(out.Device(), takeProgram, "quiver_take_"+kernel, part.Items, perThread,
				src, indices, to, part.Items, pos.extent, first, flags.words.inOut())
		}
		return launch.QueueItems(out.Device(), takeProgram, "quiver_gather_"+kernel, part.Items, perThread,
			src, indices, to, launch.StructBytes(part), pos.extent, pos.step, first, flags.words.inOut())
	})
}

// scatterUnits writes values, units of width bytes, to positions of a buffer. On the
// host the last value of equal positions wins, unless the caller promises by distinct
// that their values are equal. On a GPU they must be equal, see discardRepeats. The
// host kernels are in putProgram.
func scatterUnits(to arrowbuf.Buffer, pos *positions, values *NDBuffer, width int64, walk *cpu.Walk, distinct bool) error {
	if dst, ok := hostAt(to, pos.offset); ok {
		indices, _ := pos.indices.hostAt()
		from, _ := values.hostAt()
		cpu.Scatter(dst, indices, from, width, walk, pos.extent, pos.step, distinct)
		return nil
	}
	return walk.Split(maxItems, func(part *cpu.Walk, _ int64, at cpu.Offset) error {
		return launch.QueueItems(to.Device(), putProgram, fmt.Sprintf("quiver_scatter_%d", width), part.Items, perThread,
			launch.InOut(to, pos.offset+at.Data), pos.indices.at(at.Index), values.at(at.Value), launch.StructBytes(part), pos.extent, pos.step)
	})
}

// discardRepeats replaces all but the last of equal positions by a number that
// scatterUnits skips, because a GPU writes in no particular order. It returns whether
// the positions are distinct afterwards; on the host it changes nothing. The host
// kernels are in putProgram.
func (p *positions) discardRepeats() (distinct bool, err error) {
	pos := p.indices
	n := pos.Size()
	if _, onHost := pos.hostAt(); onHost || n < 2 {
		return n < 2, nil
	}
	// The table of claims has a slot per element. It is a hash table of the positions
	// if that is much smaller.
	slots, hashed := p.extent, false
	if hashSlots := int64(1) << bits.Len64(uint64(2*n-1)); p.extent > max(4*hashSlots, 1<<20) {
		slots, hashed = hashSlots, true
	}
	size := Uint32
	if n >= 1<<32-1 {
		size = Uint64
	}
	claims, err := Zeros(pos.Device(), size, slots)
	if err != nil {
		return false, err
	}
	defer claims.Release()
	var keys any = uintptr(0)
	if hashed {
		table, err := Zeros(pos.Device(), Uint64, slots)
		if err != nil {
			return false, err
		}
		defer table.Release()
		keys = table.inOut()
	}
	for _, kernel := range []string{"quiver_claim", "quiver_discard"} {
		name := fmt.Sprintf("%s_%d", kernel, 8*size.Size())
		if err := launch.QueueItems(pos.Device(), putProgram, name, n, perThread, pos.inOut(), n, claims.inOut(), keys, uint64(slots)); err != nil {
			return false, err
		}
	}
	return true, nil
}

// bucketLimits says when indices are sorted into buckets of the array. Then all
// accesses to a bucket happen while it is in the GPU's cache. This is faster for many
// random indices into an array larger than the cache.
type bucketLimits struct {
	minIndices int64
	minSource  int64 // bytes of the array
	bucketSize int64 // bytes, a power of two of which the cache holds a few
	minReads   int64 // accesses per sector of the array, on average
	farApart   int64 // bytes between neighbours that are not in the cache together
}

// bucketing was measured on an H200: 2^28 random indices take 4.2 ms with buckets
// and 7.0 ms without. At two reads per sector both take the same time.
var bucketing = bucketLimits{minIndices: 1 << 22, minSource: 128 << 20, bucketSize: 8 << 20, minReads: 3, farApart: 1 << 20}

// Constants of the bucket kernels' source, except sectorBytes.
const (
	bucketThreads      = 512
	maxBuckets         = 256
	takeTileBytes      = 32 << 10 // of the result
	putTileItems       = 4096
	fetchThreads       = 256
	tilesPerFetchBlock = fetchThreads / 32 // one per warp
	sectorBytes        = 32                // of GPU memory, the least that is read
)

// takeBucketed gathers elements by buckets if bucketLimits allow it, and returns
// whether it did. n is the number of indices; width is the size of an element. The
// host kernels are in takeBucketProgram.
func takeBucketed(out *NDBuffer, from arrowbuf.Buffer, pos *positions, width, n int64, flags *badIndexFlags) (bool, error) {
	dev, b := out.Device(), bucketing
	source := pos.extent * width
	if width != 4 && width != 8 || n < b.minIndices || n > math.MaxInt32 || pos.extent > math.MaxUint32 ||
		source < b.minSource || source > 2*maxBuckets*b.bucketSize || n/b.minReads < source/sectorBytes ||
		(out.address()|pos.indices.address())%16 != 0 {
		return false, nil
	}
	kind := fmt.Sprintf("i%d", 8*pos.indices.dtype.Size())
	if scattered, err := areScattered(pos.indices, kind, n, b.farApart/width); !scattered || err != nil {
		return false, err
	}
	if source > maxBuckets*b.bucketSize {
		b.bucketSize *= 2
	}
	shift := int32(bits.TrailingZeros64(uint64(b.bucketSize / width)))
	tiles := (n*width + takeTileBytes - 1) / takeTileBytes
	count := (pos.extent-1)>>shift + 1 // of buckets
	ranks, err := Empty(dev, Uint16, (n+3)/4*4)
	if errors.Is(err, arrowbuf.ErrOutOfMemory) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	defer ranks.Release()
	starts, err := Empty(dev, Uint16, tiles*count)
	if err != nil {
		return false, err
	}
	defer starts.Release()
	eachTile, block := cudabuf.Dim3{X: uint32(tiles)}, cudabuf.Dim3{X: bucketThreads}
	err = launch.Queue(dev, takeBucketProgram, fmt.Sprintf("quiver_bucket_sort_%d_%s", width, kind), eachTile, block,
		pos.indices.in(), out.inOut(), ranks.inOut(), starts.inOut(), n, pos.extent, shift, int32(count), int64(0), flags.words.inOut())
	if err != nil {
		return false, err
	}
	blocks := (tiles + tilesPerFetchBlock - 1) / tilesPerFetchBlock
	err = launch.Queue(dev, takeBucketProgram, fmt.Sprintf("quiver_bucket_fetch_%d", width), cudabuf.Dim3{X: uint32(blocks * count)}, cudabuf.Dim3{X: fetchThreads},
		launch.In(from, pos.offset), out.inOut(), starts.in(), n, int32(tiles), int32(count), int32(blocks))
	if err != nil {
		return false, err
	}
	return true, launch.Queue(dev, takeBucketProgram, fmt.Sprintf("quiver_bucket_reorder_%d", width), eachTile, block, out.inOut(), ranks.in(), n)
}

// areScattered reports whether most neighbours in a sample of n indices are more than
// far elements apart. It waits for the GPU.
func areScattered(indices *NDBuffer, kind string, n, far int64) (bool, error) {
	count, err := Empty(indices.Device(), Int32, 1)
	if err != nil {
		return false, err
	}
	defer count.Release()
	err = launch.Queue(indices.Device(), takeBucketProgram, "quiver_sample_"+kind, cudabuf.Dim3{X: 1}, cudabuf.Dim3{X: bucketThreads},
		indices.in(), n, far, count.inOut())
	if err != nil {
		return false, err
	}
	farPairs, err := ToHost[int32](count)
	return err == nil && farPairs[0] > bucketThreads/2, err
}

// putBucketed scatters values to positions by buckets if bucketLimits allow it and
// each position has a value of its own. It returns whether it did. It discards
// repeated positions itself. The host kernels are in putBucketProgram.
func (s *selection) putBucketed(values *NDBuffer, pos *positions) (bool, error) {
	b, width, n := bucketing, s.array.dtype.Size(), pos.indices.Size()
	size := pos.extent * width
	if _, onHost := pos.indices.hostAt(); onHost || width != 4 && width != 8 || pos.step != width || values.Size() < n || n < b.minIndices ||
		n > math.MaxInt32 || pos.extent > math.MaxUint32 || size < b.minSource || size > 2*maxBuckets*b.bucketSize || n/b.minReads < size/sectorBytes ||
		n > 1 && values.strides[0] != width || (uint64(s.array.buf.Address())+uint64(pos.offset)|values.address())%uint64(width) != 0 {
		return false, nil
	}
	if scattered, err := areScattered(pos.indices, "i64", n, b.farApart/width); !scattered || err != nil {
		return false, err
	}
	if size > maxBuckets*b.bucketSize {
		b.bucketSize *= 2
	}
	shift := int32(bits.TrailingZeros64(uint64(b.bucketSize / width)))
	tiles, count := (n-1)/putTileItems+1, (pos.extent-1)>>shift+1
	sizes := [...]struct {
		dtype DType
		n     int64
	}{{Uint32, n}, {Uint16, n}, {s.array.dtype, n}, {Uint16, tiles * count}, {Uint32, pos.extent}}
	var temporary [len(sizes)]*NDBuffer
	for i, z := range sizes {
		array, err := Empty(s.array.Device(), z.dtype, z.n)
		if errors.Is(err, arrowbuf.ErrOutOfMemory) {
			return false, nil // discardRepeats and scatter need less memory
		} else if err != nil {
			return false, err
		}
		defer array.Release()
		temporary[i] = array
	}
	keys, origins, sorted, starts, claims := temporary[0], temporary[1], temporary[2], temporary[3], temporary[4]
	if err := claims.Zero(); err != nil {
		return false, err
	}
	dev, blocks := s.array.Device(), (tiles+tilesPerFetchBlock-1)/tilesPerFetchBlock
	err := launch.Queue(dev, putBucketProgram, fmt.Sprintf("quiver_put_sort_%d", width), cudabuf.Dim3{X: uint32(tiles)}, cudabuf.Dim3{X: bucketThreads},
		pos.indices.in(), values.in(), keys.inOut(), origins.inOut(), sorted.inOut(), starts.inOut(), n, shift, int32(count))
	if err != nil {
		return false, err
	}
	eachBucket, block := cudabuf.Dim3{X: uint32(blocks * count)}, cudabuf.Dim3{X: fetchThreads}
	err = launch.Queue(dev, putBucketProgram, "quiver_put_claim", eachBucket, block,
		keys.in(), origins.in(), claims.inOut(), starts.in(), n, int32(tiles), int32(count), int32(blocks))
	if err != nil {
		return false, err
	}
	return true, launch.Queue(dev, putBucketProgram, fmt.Sprintf("quiver_put_write_%d", width), eachBucket, block,
		launch.InOut(s.array.buf, pos.offset), keys.in(), origins.in(), sorted.in(), claims.in(), starts.in(), n, int32(tiles), int32(count), int32(blocks))
}
