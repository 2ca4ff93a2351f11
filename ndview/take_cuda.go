package ndview

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
)

// gatherUnits copies units of width bytes from places of a buffer to out.
func gatherUnits(out *NDBuffer, from arrowbuf.Buffer, where *positions, width int64, walk *cpu.Walk, flags *badIndexFlags) error {
	size := where.indices.dtype.Size()
	if to, ok := out.hostAt(); ok {
		src, _ := hostAt(from, where.offset)
		indices, _ := where.indices.hostAt()
		word, _ := flags.array.hostAt()
		cpu.Gather(to, src, indices, width, size, walk, where.extent, where.step, cpu.Report{Flag: (*cpu.Flag)(word)})
		return nil
	}
	kernel := fmt.Sprintf("%d_i%d", width, 8*size)
	gapless := walk.Axes == 1 && walk.Data[0] == 0 && walk.Index[0] == size && where.step == width
	if gapless {
		if done, err := takeBucketed(out, from, where, width, walk.Items, flags); done || err != nil {
			return err
		}
	}
	return walk.Cut(maxItems, func(part *cpu.Walk, first int64, at cpu.Offset) error {
		src, indices, to := launch.In(from, where.offset+at.Data), where.indices.at(at.Index), out.atOut(width*first)
		if gapless {
			return launch.Items(out.Device(), takeProgram, "quiver_take_"+kernel, part.Items, perThread,
				src, indices, to, part.Items, where.extent, first, flags.array.inOut())
		}
		return launch.Items(out.Device(), takeProgram, "quiver_gather_"+kernel, part.Items, perThread,
			src, indices, to, launch.StructOf(part), where.extent, where.step, first, flags.array.inOut())
	})
}

// scatterUnits writes values, units of width bytes, to places of a buffer.
func scatterUnits(to arrowbuf.Buffer, where *positions, values *NDBuffer, width int64, walk *cpu.Walk, apart bool) error {
	if dst, ok := hostAt(to, where.offset); ok {
		pos, _ := where.indices.hostAt()
		from, _ := values.hostAt()
		cpu.Scatter(dst, pos, from, width, walk, where.extent, where.step, apart)
		return nil
	}
	return walk.Cut(maxItems, func(part *cpu.Walk, _ int64, at cpu.Offset) error {
		return launch.Items(to.Device(), putProgram, fmt.Sprintf("quiver_scatter_%d", width), part.Items, perThread,
			launch.InOut(to, where.offset+at.Data), where.indices.at(at.Index), values.at(at.Value), launch.StructOf(part), where.extent, where.step)
	})
}

// discardRepeats strikes out all but the last of equal places, where scatterUnits would
// write in no order. It answers whether places are apart then.
func (w *positions) discardRepeats() (apart bool, err error) {
	pos := w.indices
	n := pos.Size()
	if _, onHost := pos.hostAt(); onHost || n < 2 {
		return n < 2, nil
	}
	// A table of all elements, unless it were much larger than one of those that
	// are chosen.
	slots, hashed := w.extent, false
	if few := int64(1) << bits.Len64(uint64(2*n-1)); w.extent > max(4*few, 1<<20) {
		slots, hashed = few, true
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
	for _, kernel := range []string{"quiver_claim", "quiver_settle"} {
		name := fmt.Sprintf("%s_%d", kernel, 8*size.Size())
		if err := launch.Items(pos.Device(), putProgram, name, n, perThread, pos.inOut(), n, claims.inOut(), keys, uint64(slots)); err != nil {
			return false, err
		}
	}
	return true, nil
}

// bucketLimits says when indices are followed bucket by bucket of the source, which
// pays where they are many, at random, and the source is larger than a GPU's
// cache (bucket.cu).
type bucketLimits struct {
	minIndices int64 // how many there are at least
	minSource  int64 // bytes it has at least
	bucketSize int64 // bytes of one, a power of two that fits the cache a few times
	minReads   int64 // how often a sector of the source is wanted at least, on average
	farApart   int64 // bytes between neighbours that are not in the cache together
}

// Measured on an H200: 2^28 random indices take 4.2 ms so, and 7.0 ms else. It is
// even where each sector is read twice.
var bucketing = bucketLimits{minIndices: 1 << 22, minSource: 128 << 20, bucketSize: 8 << 20, minReads: 3, farApart: 1 << 20}

// What bucket.cu has of threads, of buckets, and of bytes of a tile of a result.
const (
	bucketThreads      = 512
	maxBuckets         = 256
	takeTileBytes      = 32 << 10
	sectorBytes        = 32
	fetchThreads       = 256
	tilesPerFetchBlock = fetchThreads / 32 // a warp does one
)

// takeBucketed does the work of quiver_take where that pays. It answers whether
// it did.
func takeBucketed(out *NDBuffer, from arrowbuf.Buffer, where *positions, width, n int64, flags *badIndexFlags) (bool, error) {
	dev, b := out.Device(), bucketing
	source := where.extent * width
	if width != 4 && width != 8 || n < b.minIndices || n > math.MaxInt32 || where.extent > math.MaxUint32 ||
		source < b.minSource || source > 2*maxBuckets*b.bucketSize || n/b.minReads < source/sectorBytes ||
		(out.address()|where.indices.address())%16 != 0 {
		return false, nil
	}
	kind := fmt.Sprintf("i%d", 8*where.indices.dtype.Size())
	if scattered, err := areScattered(where.indices, kind, n, b.farApart/width); !scattered || err != nil {
		return false, err
	}
	if source > maxBuckets*b.bucketSize {
		b.bucketSize *= 2
	}
	shift := int32(bits.TrailingZeros64(uint64(b.bucketSize / width)))
	tiles := (n*width + takeTileBytes - 1) / takeTileBytes
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
	err = launch.Queue(dev, takeBucketProgram, fmt.Sprintf("quiver_bucket_sort_%d_%s", width, kind), eachTile, block,
		where.indices.in(), out.inOut(), ranks.inOut(), starts.inOut(), n, where.extent, shift, int32(many), int64(0), flags.array.inOut())
	if err != nil {
		return false, err
	}
	blocks := (tiles + tilesPerFetchBlock - 1) / tilesPerFetchBlock
	err = launch.Queue(dev, takeBucketProgram, fmt.Sprintf("quiver_bucket_fetch_%d", width), cudabuf.Dim3{X: uint32(blocks * many)}, cudabuf.Dim3{X: fetchThreads},
		launch.In(from, where.offset), out.inOut(), starts.in(), n, int32(tiles), int32(many), int32(blocks))
	if err != nil {
		return false, err
	}
	return true, launch.Queue(dev, takeBucketProgram, fmt.Sprintf("quiver_bucket_place_%d", width), eachTile, block, out.inOut(), ranks.in(), n)
}

// areScattered tells whether most neighbours among indices, of which there are many,
// are further apart than far.
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
	many, err := ToHost[int32](count)
	return err == nil && many[0] > bucketThreads/2, err
}

// What putbucket.cu has of items in a tile.
const putTileItems = 4096

// putBucketed does the work of settling places and of writing values to them,
// one each, where it pays to do so bucket by bucket (putbucket.cu). It answers
// whether it did.
func (s *selection) putBucketed(values *NDBuffer, where *positions) (bool, error) {
	b, width, n := bucketing, s.array.dtype.Size(), where.indices.Size()
	to := where.extent * width
	if _, onHost := where.indices.hostAt(); onHost || width != 4 && width != 8 || where.step != width || values.Size() < n || n < b.minIndices ||
		n > math.MaxInt32 || where.extent > math.MaxUint32 || to < b.minSource || to > 2*maxBuckets*b.bucketSize || n/b.minReads < to/sectorBytes ||
		n > 1 && values.strides[0] != width || (uint64(s.array.buf.Address())+uint64(where.offset)|values.address())%uint64(width) != 0 {
		return false, nil
	}
	if many, err := areScattered(where.indices, "i64", n, b.farApart/width); !many || err != nil {
		return false, err
	}
	if to > maxBuckets*b.bucketSize {
		b.bucketSize *= 2
	}
	shift := int32(bits.TrailingZeros64(uint64(b.bucketSize / width)))
	tiles, many := (n-1)/putTileItems+1, (where.extent-1)>>shift+1
	sorting := [...]struct {
		dtype DType
		n     int64
	}{{Uint32, n}, {Uint16, n}, {s.array.dtype, n}, {Uint16, tiles * many}, {Uint32, where.extent}}
	var parts [len(sorting)]*NDBuffer
	for i, p := range sorting {
		part, err := Empty(s.array.Device(), p.dtype, p.n)
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
	dev, blocks := s.array.Device(), (tiles+tilesPerFetchBlock-1)/tilesPerFetchBlock
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
		launch.InOut(s.array.buf, where.offset), keys.in(), origins.in(), sorted.in(), claims.in(), starts.in(), n, int32(tiles), int32(many), int32(blocks))
}

// putPositions writes values, one axis of them, round and round to the chosen elements.
func (s *selection) putPositions(values *NDBuffer) error {
	flags, err := newBadIndexFlags(s)
	if err != nil {
		return err
	}
	defer flags.array.Release()
	where, err := s.resolve(flags)
	if err != nil {
		return err
	}
	defer where.indices.Release()
	if done, err := s.putBucketed(values, where); done || err != nil {
		return err
	}
	apart, err := where.discardRepeats()
	if err != nil {
		return err
	}
	n, m := where.indices.Size(), values.Size()
	rounds := n / m
	for _, part := range [...]struct{ first, rounds, n int64 }{{0, rounds, m}, {rounds * m, 1, n % m}} {
		if part.rounds == 0 || part.n == 0 {
			continue
		}
		turn := *s
		turn.shape, turn.strides, turn.indexShape = []int64{part.rounds, part.n}, []int64{0, 0}, []int64{part.rounds, part.n}
		pos, err := where.indices.view(Int64, where.indices.offset+8*part.first, turn.shape, []int64{8 * m, 8})
		if err != nil {
			return err
		}
		at := *where
		at.indices, at.strides = pos, pos.strides
		err = turn.scatter(values, []int64{0, values.strides[0]}, &at, apart)
		pos.Release()
		if err != nil {
			return err
		}
	}
	return nil
}
