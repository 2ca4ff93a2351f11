package ndview

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
)

func report(l *cudabuf.HostLaunch, i int) cpu.Report {
	return cpu.Report{First: l.Int64(i), Flag: (*cpu.Flag)(launch.Reached(l, i+1, 0, 8))}
}

// fold resolves indices into pos.
func fold(pos, indices *NDBuffer, walk *cpu.Walk, f *cpu.Folding, flags *flags, flag int) error {
	if to, ok := pos.hostAt(); ok {
		from, _ := indices.hostAt()
		word, _ := hostAt(flags.array.buf, 8*int64(flag))
		cpu.Fold(to, from, walk, f, cpu.Report{Flag: (*cpu.Flag)(word)})
		return nil
	}
	return walk.Cut(maxItems, func(part *cpu.Walk, first int64, at cpu.Offset) error {
		return launch.Items(pos.Device(), foldProgram, "quiver_fold", part.Items, perThread,
			indices.at(at.Index), pos.atOut(8*first), launch.StructOf(part), launch.StructOf(f), first, flags.array.atOut(8*int64(flag)))
	})
}

var foldProgram = launch.Program("fold", map[string]cudabuf.HostKernel{"quiver_fold": func(l *cudabuf.HostLaunch) {
	walk, f := launch.Parameters[cpu.Walk](l, 2), launch.Parameters[cpu.Folding](l, 3)
	low, high := walk.Reach(&walk.Index, int64(f.Size))
	launch.MustAlign(l, 1, 8)
	cpu.Fold(launch.Reached(l, 1, 0, 8*walk.Items), launch.Reached(l, 0, low, high), &walk, &f, report(l, 4))
}})

// gatherUnits copies units of width bytes from places of a buffer to out.
func gatherUnits(out *NDBuffer, from arrowbuf.Buffer, where *places, width int64, walk *cpu.Walk, flags *flags) error {
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
		if done, err := takeByBuckets(out, from, where, width, walk.Items, flags); done || err != nil {
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

var takeProgram = launch.Program("take", takeTwins())

func takeTwins() map[string]cudabuf.HostKernel {
	twins := map[string]cudabuf.HostKernel{}
	for _, width := range []int64{1, 2, 4, 8, 16} {
		for _, size := range []int64{4, 8} {
			kernel := fmt.Sprintf("%d_i%d", width, 8*size)
			twins["quiver_take_"+kernel] = func(l *cudabuf.HostLaunch) {
				n, extent := l.Int64(3), l.Int64(4)
				walk := cpu.Walk{Items: n, Axes: 1}
				walk.Extent[0], walk.Index[0] = n, size
				launch.MustAlign(l, 0, width)
				launch.MustAlign(l, 1, size)
				launch.MustAlign(l, 2, width)
				cpu.Gather(launch.Reached(l, 2, 0, width*n), launch.Reached(l, 0, 0, width*extent), launch.Reached(l, 1, 0, size*n),
					width, size, &walk, extent, width, report(l, 5))
			}
			twins["quiver_gather_"+kernel] = func(l *cudabuf.HostLaunch) {
				walk, extent, step := launch.Parameters[cpu.Walk](l, 3), l.Int64(4), l.Int64(5)
				low, high := walk.Reach(&walk.Data, width)
				indexLow, indexHigh := walk.Reach(&walk.Index, size)
				reach := (extent - 1) * step
				launch.MustAlign(l, 0, width, append(walk.Data[:walk.Axes:walk.Axes], step)...)
				launch.MustAlign(l, 1, size, walk.Index[:walk.Axes]...)
				launch.MustAlign(l, 2, width)
				cpu.Gather(launch.Reached(l, 2, 0, width*walk.Items), launch.Reached(l, 0, low+min(reach, 0), high+max(reach, 0)),
					launch.Reached(l, 1, indexLow, indexHigh), width, size, &walk, extent, step, report(l, 6))
			}
		}
	}
	return twins
}

// scatterUnits writes values, units of width bytes, to places of a buffer.
func scatterUnits(to arrowbuf.Buffer, where *places, values *NDBuffer, width int64, walk *cpu.Walk, apart bool) error {
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

// settle strikes out all but the last of equal places, where scatterUnits would
// write in no order. It answers whether places are apart then.
func (w *places) settle() (apart bool, err error) {
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

var putProgram = launch.Program("put", putTwins())

func putTwins() map[string]cudabuf.HostKernel {
	twins := map[string]cudabuf.HostKernel{}
	for _, width := range []int64{1, 2, 4, 8, 16} {
		twins[fmt.Sprintf("quiver_scatter_%d", width)] = func(l *cudabuf.HostLaunch) {
			walk, extent, step := launch.Parameters[cpu.Walk](l, 3), l.Int64(4), l.Int64(5)
			valueLow, valueHigh := walk.Reach(&walk.Value, width)
			indexLow, indexHigh := walk.Reach(&walk.Index, 8)
			low, high := walk.Reach(&walk.Data, width)
			launch.MustAlign(l, 0, width, append(walk.Data[:walk.Axes:walk.Axes], step)...)
			launch.MustAlign(l, 1, 8, walk.Index[:walk.Axes]...)
			launch.MustAlign(l, 2, width, walk.Value[:walk.Axes]...)
			cpu.Scatter(launch.Reached(l, 0, low, high+(extent-1)*step), launch.Reached(l, 1, indexLow, indexHigh),
				launch.Reached(l, 2, valueLow, valueHigh), width, &walk, extent, step, true)
		}
	}
	twins["quiver_claim_32"] = claimTwin[uint32]
	twins["quiver_claim_64"] = claimTwin[uint64]
	twins["quiver_settle_32"] = settleTwin[uint32]
	twins["quiver_settle_64"] = settleTwin[uint64]
	return twins
}

// claimsOf are a launch's positions, its claims, and where those to a position
// are.
func claimsOf[Claim uint32 | uint64](l *cudabuf.HostLaunch) (pos []int64, claims []Claim, slot func(at int64) int64) {
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

func claimTwin[Claim uint32 | uint64](l *cudabuf.HostLaunch) {
	pos, claims, slot := claimsOf[Claim](l)
	for j, at := range pos {
		claims[slot(at)] = Claim(j) + 1
	}
}

func settleTwin[Claim uint32 | uint64](l *cudabuf.HostLaunch) {
	pos, claims, slot := claimsOf[Claim](l)
	for j, at := range pos {
		if claims[slot(at)] != Claim(j)+1 {
			pos[j] = cpu.StruckOut
		}
	}
}

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
	kind := fmt.Sprintf("i%d", 8*where.indices.dtype.Size())
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
	return true, launch.Queue(dev, bucketProgram, fmt.Sprintf("quiver_bucket_place_%d", width), eachTile, block, out.inOut(), ranks.in(), n)
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

var putBucketProgram = launch.Program("putbucket", map[string]cudabuf.HostKernel{
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
