package zarr

import (
	"context"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/pack"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// readBatch is the most bytes of decoded chunks that a batch has, but for one chunk more,
// and minReadBatch the least. Several batches are in flight, so that files are read, bytes cross
// the link and kernels run at the same time. Smaller arrays are divided into as many
// batches. Tests make them smaller.
var readBatch, minReadBatch int64 = 64 << 20, 32 << 20

const (
	readInFlight = 10
	// fetchesAtOnce is the number of batches whose chunks are fetched or copied to the GPU
	// at a time: the first should be complete early, for the GPU to begin. Pinned memory of
	// more would exceed what its allocator keeps for reuse.
	fetchesAtOnce = 3
	// fetchedBytes is the size in bytes of decoded chunks of the batches that are fetched at
	// a time, unless it is one, and unsureBytes that of chunks that are fetched before it is
	// known how much pinned memory they take.
	fetchedBytes, unsureBytes = 1 << 30, 32 << 20
	// inOrderChunks is the number of chunks of a batch if the bytes of a chunk are decoded in
	// order, or that of as many bytes.
	inOrderChunks, leastInOrder, mostInOrder = 24, 96 << 20, 384 << 20
	// minDeviceBytes is the size in bytes from which a GPU decodes what is read, and
	// encodes what is written. Less is done sooner by the host.
	minDeviceBytes = 1 << 20
	// inputAlignment makes the kernels' reads of neighboring inputs independent.
	inputAlignment = 16
)

func align(n int64) int64 { return (n + inputAlignment - 1) / inputAlignment * inputAlignment }

// deviceRead reads a box into an array on a GPU, which decodes the chunks: compressed
// bytes cross the link, and chunks go to their places on the device.
type deviceRead struct {
	region
	nd    *ndview.NDBuffer // the shape of the box, C order
	dev   *cudabuf.Device
	chain *codec.Chain // of the first chunk
	// batch is the bytes of decoded chunks per batch, and inFlight the number of batches at
	// a time.
	batch    int64
	inFlight int
	// share is the largest encoded chunk so far, in 1024ths of its decoded size; 0 before
	// it is known.
	share atomic.Int64
}

// deviceChunk is an encoded chunk on the host. Its data is nil if it is not stored.
type deviceChunk struct {
	encodedChunk
	unit
	size int64  // of the decoded chunk, in bytes
	slot []byte // empty, with pinned memory for the encoded chunk
}

// newDeviceRead returns how the device of nd reads a box into it, or nil if the host must
// decode the chunks. The caller must release nd of the result.
func (a *Array) newDeviceRead(nd *ndview.NDBuffer, box grid.Box) (*deviceRead, error) {
	dev, ok := arrowbuf.As[*cudabuf.Device](nd.Device())
	if !ok || nd.NBytes() < minDeviceBytes {
		return nil, nil
	}
	for index := range a.chunkGrid().Chunks(box) {
		chain, err := a.chainFor(index)
		if err != nil {
			return nil, err
		}
		if layout, ok := chain.ShardLayout(); ok {
			chain = layout.ChunkChain()
		}
		if !chain.DecodesOnDevice() {
			return nil, nil
		}
		shaped, err := nd.ReshapeView(box.Shape...)
		if err != nil {
			return nil, err
		}
		return &deviceRead{region: region{array: a, box: box}, nd: shaped, dev: dev, chain: chain}, nil
	}
	return nil, nil // no chunks
}

func (d *deviceRead) read(ctx context.Context, jobs int) error {
	chunks := d.chunks
	if d.mayReadInPlace() {
		rest, err := d.readInPlace(ctx)
		if err != nil || len(rest) == 0 {
			return err
		}
		chunks = slices.Values(rest)
	}
	if err := d.divide(); err != nil {
		return err
	}
	fetches := make(chan struct{}, min(max(fetchedBytes/d.batch, 1), fetchesAtOnce))
	return forEachParallel(ctx, d.inFlight, d.batchesOf(chunks), func(ctx context.Context, chunks []deviceChunk) error {
		// A batch that is fetched holds its place until its bytes are on the device, which
		// bounds the pinned memory.
		fetches <- struct{}{}
		s := d.array.scratch()
		copied := sync.OnceFunc(func() { s.Release(); <-fetches })
		defer copied()
		if err := d.fetch(ctx, s, chunks, jobs); err != nil {
			return err
		}
		return d.decode(chunks, jobs, copied)
	})
}

// divide decides how large a batch is, and how many there are at a time. Decoding takes some
// times the memory of a batch, of which a busy GPU has little.
func (d *deviceRead) divide() error {
	free, _, err := d.dev.MemInfo()
	d.batch = min(max(d.nd.NBytes()/readInFlight, minReadBatch), readBatch)
	if d.chain.DecodesInOrder() {
		d.batch = max(d.batch, min(max(inOrderChunks*d.chain.UsualEncodedSize(), leastInOrder), mostInOrder, free/64))
	}
	d.inFlight = int(min(max(free/(8*d.batch), 2), readInFlight))
	return err
}

// chunks yields the chunks of the box.
func (d *deviceRead) chunks(yield func(deviceChunk) bool) {
	for cell := range d.array.chunkGrid().Chunks(d.box) {
		for c := range d.chunksOf(cell) {
			if !yield(c) {
				return
			}
		}
	}
}

// batchesOf yields chunks in batches. Those of one shard may be in several, since a shard
// may be larger than memory.
func (d *deviceRead) batchesOf(chunks iter.Seq[deviceChunk]) iter.Seq[[]deviceChunk] {
	return func(yield func([]deviceChunk) bool) {
		var batch []deviceChunk
		var bytes int64
		for c := range chunks {
			if batch, bytes = append(batch, c), bytes+c.size; bytes < d.batch {
				continue
			}
			if !yield(batch) {
				return
			}
			batch, bytes = nil, 0
		}
		if len(batch) > 0 {
			yield(batch)
		}
	}
}

// chunksOf yields the chunks of a grid cell in the box. The error of a cell without codecs
// is that of fetching its only chunk.
func (d *deviceRead) chunksOf(cell []int64) iter.Seq[deviceChunk] {
	return func(yield func(deviceChunk) bool) {
		whole := d.array.chunkGrid().Box(cell)
		chunk := func(box grid.Box, chain *codec.Chain, inner []int64) deviceChunk {
			return deviceChunk{encodedChunk: encodedChunk{box: box, chain: chain}, unit: unit{cell, inner}, size: grid.Size(box.Shape) * d.width()}
		}
		chain, err := d.array.chainFor(cell)
		if err != nil {
			yield(chunk(whole, nil, nil))
			return
		}
		layout, sharded := chain.ShardLayout()
		if !sharded {
			yield(chunk(whole, chain, nil))
			return
		}
		part, _ := whole.Intersect(d.box)
		toArray := negate(whole.Origin)
		for inner := range part.RelativeTo(whole.Origin).ChunkIndices(layout.ChunkShape()) {
			box := grid.ChunkBox(inner, layout.ChunkShape()).RelativeTo(toArray)
			if !yield(chunk(box, layout.ChunkChain(), inner)) {
				return
			}
		}
	}
}

// fetch reads the encoded chunks of a batch into pinned memory, as long as they fit. If it
// is not known how large those of a large batch are, it begins with few.
func (d *deviceRead) fetch(ctx context.Context, s *codec.Scratch, chunks []deviceChunk, jobs int) error {
	if d.share.Load() == 0 && d.batch > readBatch {
		n, bytes := 1, chunks[0].size
		for n < len(chunks) && bytes+chunks[n].size <= unsureBytes {
			bytes += chunks[n].size
			n++
		}
		if err := d.fetchAll(ctx, s, chunks[:n], jobs); err != nil {
			return err
		}
		chunks = chunks[n:]
	}
	return d.fetchAll(ctx, s, chunks, jobs)
}

func (d *deviceRead) fetchAll(ctx context.Context, s *codec.Scratch, chunks []deviceChunk, jobs int) error {
	sizes, share := make([]int64, len(chunks)), d.share.Load()
	for i, c := range chunks {
		sizes[i] = c.slotSize(share)
	}
	slots, err := s.HostSlots(d.nd.Device(), sizes)
	if err != nil {
		return err
	}
	for i := range chunks {
		chunks[i].slot = slots[i][:0]
	}
	// Where reading a chunk takes a round trip, chunks of one shard are read together.
	together := func(a, b deviceChunk) bool { return a.inner != nil && slices.Equal(a.cell, b.cell) }
	if store.AsRangeReader(d.array.store) != nil {
		together = func(_, _ deviceChunk) bool { return false }
	}
	if err := forEachParallel(ctx, jobs, runs(chunks, together), d.fetchCell); err != nil {
		return err
	}
	for _, c := range chunks {
		if c.data != nil { // those that are not stored say nothing of the others
			share = max(share, int64(len(c.data))*1024/max(c.size, 1)+1)
		}
	}
	for known := d.share.Load(); known < share && !d.share.CompareAndSwap(known, share); known = d.share.Load() {
	}
	return nil
}

// slotSize returns the bytes of pinned memory for the encoded chunk. share is the largest
// so far, in 1024ths; a chunk that needs more has other memory.
func (c deviceChunk) slotSize(share int64) int64 {
	if c.chain == nil { // the error is that of fetching
		return 0
	}
	n := c.chain.UsualEncodedSize()
	if share > 0 {
		n = min(n, c.size/1024*(share+share/8+8))
	}
	return align(n)
}

// runs yields the longest parts of s of which each neighbor belongs together.
func runs[T any](s []T, together func(a, b T) bool) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		for len(s) > 0 {
			n := 1
			for n < len(s) && together(s[n-1], s[n]) {
				n++
			}
			if !yield(s[:n]) {
				return
			}
			s = s[n:]
		}
	}
}

// fetchCell reads chunks of one cell.
func (d *deviceRead) fetchCell(ctx context.Context, chunks []deviceChunk) error {
	a, u := d.array, chunks[0].unit
	chain, err := a.chainFor(u.cell)
	if err != nil {
		return err
	}
	key := a.chunkKey(u.cell)
	layout, sharded := chain.ShardLayout()
	switch {
	case !sharded:
		chunks[0].data, _, err = a.readValue(ctx, key, extent{}, chunks[0].slot)
	case store.AsRangeReader(a.store) != nil:
		chunks[0].data, err = a.readInner(ctx, layout, key, u.inner, extent{}, chunks[0].slot)
	default:
		inner := make([][]int64, len(chunks))
		for i, c := range chunks {
			inner[i] = c.inner
		}
		return a.visitShard(ctx, layout, u.cell, inner, func(i int, data []byte) error {
			if data != nil {
				chunks[i].data = append(chunks[i].slot, data...) // valid during this call only
			}
			return nil
		})
	}
	if err != nil {
		return u.wrap(err)
	}
	return nil
}

// deviceOutputs are the chunks of a batch that are decoded into one buffer.
type deviceOutputs struct {
	chunks []deviceChunk
	items  []codec.DecodeItem
	bytes  int64
}

func (o *deviceOutputs) add(c deviceChunk, at int64, stats *codec.Stats) {
	o.chunks = append(o.chunks, c)
	o.items = append(o.items, codec.DecodeItem{Chain: c.chain, Encoded: c.data, At: at, Stats: stats})
}

// decode decodes chunks to their places in the array, by way of a buffer of the batch.
// Kernels of several batches that write to one buffer would wait for each other. Chunks
// that are their elements cross the link to their places.
func (d *deviceRead) decode(chunks []deviceChunk, jobs int, copied func()) error {
	var direct, staged deviceOutputs
	for _, c := range chunks {
		if c.data == nil {
			if err := d.fill(c); err != nil {
				return c.wrap(err)
			}
			continue
		}
		if at, whole := d.place(c); whole && c.chain.IsPlain() {
			direct.add(c, at, d.array.Stats)
		} else {
			staged.add(c, staged.bytes, d.array.Stats)
			staged.bytes += align(c.size)
		}
	}
	if err := d.decodeInto(d.nd.Buffer(), &direct, jobs, nil); err != nil || len(staged.chunks) == 0 {
		return err
	}
	buf, err := d.nd.Device().Alloc(staged.bytes)
	if err != nil {
		return err
	}
	defer buf.Release()
	if err := d.decodeInto(buf, &staged, jobs, copied); err != nil {
		return err
	}
	scope := ndview.NewScope()
	defer scope.Release()
	moves := compress.Batch{Src: buf, Dst: d.nd.Buffer()}
	var to, from []*ndview.NDBuffer
	for i, c := range staged.chunks {
		at := staged.items[i].At
		if place, whole := d.place(c); whole {
			moves.In = append(moves.In, compress.Range{Offset: at, Length: c.size})
			moves.Out = append(moves.Out, compress.Range{Offset: place, Length: c.size})
			continue
		}
		decoded, err := scope.Add(ndview.FromBuffer(buf, d.nd.DType(), at, c.box.Shape, nil))
		if err != nil {
			return c.wrap(err)
		}
		part, place, err := d.partOf(scope, c, decoded)
		if err != nil {
			return c.wrap(err)
		}
		to, from = append(to, place), append(from, part)
	}
	if err := ndview.CopyAll(to, from); err != nil {
		return err
	}
	return copyMoves(moves)
}

// copyMoves copies ranges of one buffer to another. Those of more than compress.MaxSize
// bytes are no part of a batch.
func copyMoves(b compress.Batch) error {
	small := compress.Batch{Src: b.Src, Dst: b.Dst}
	for i, in := range b.In {
		if in.Length <= compress.MaxSize {
			small.In, small.Out = append(small.In, in), append(small.Out, b.Out[i])
			continue
		}
		part, err := b.Src.Slice(in.Offset, in.Length)
		if err != nil {
			return err
		}
		_, err = b.Dst.CopyFromDevice(part, b.Out[i].Offset)
		part.Release()
		if err != nil {
			return err
		}
	}
	return pack.Copy(small)
}

// place returns where a chunk begins in the memory of the array, and whether it is whole
// and contiguous there.
func (d *deviceRead) place(c deviceChunk) (at int64, whole bool) {
	part, _ := c.box.Intersect(d.box)
	start, run := part.RelativeTo(d.box.Origin).ContiguousRange(d.box.Shape)
	return d.nd.Offset() + start*d.width(), run && slices.Equal(part.Shape, c.box.Shape)
}

// decodeInto decodes chunks into a buffer. The error is that of the first chunk.
func (d *deviceRead) decodeInto(dst arrowbuf.Buffer, o *deviceOutputs, jobs int, copied func()) error {
	if len(o.chunks) == 0 {
		return nil
	}
	errs, err := codec.DecodeBatch(dst, o.items, codec.BatchOptions{Jobs: jobs, OnCopied: copied})
	if err != nil {
		return err
	}
	for i, err := range errs {
		if err != nil {
			return o.chunks[i].wrap(err)
		}
	}
	return nil
}

// fill sets the part of a chunk that is not stored to the fill value.
func (d *deviceRead) fill(c deviceChunk) error {
	value, err := ndview.FromBytes(d.nd.Device(), d.nd.DType(), c.chain.Fill())
	if err != nil {
		return err
	}
	defer value.Release()
	scope := ndview.NewScope()
	defer scope.Release()
	all, err := scope.Add(value.BroadcastTo(c.box.Shape...))
	if err != nil {
		return err
	}
	part, place, err := d.partOf(scope, c, all)
	if err != nil {
		return err
	}
	return place.CopyFrom(part)
}

// partOf returns the part of a decoded chunk that is in the box, and its place. Both
// belong to the scope.
func (d *deviceRead) partOf(scope *ndview.Scope, c deviceChunk, decoded *ndview.NDBuffer) (part, place *ndview.NDBuffer, err error) {
	box, _ := c.box.Intersect(d.box)
	if part, err = scope.Add(sliceBox(decoded, box.RelativeTo(c.box.Origin))); err != nil {
		return nil, nil, err
	}
	place, err = scope.Add(sliceBox(d.nd, box.RelativeTo(d.box.Origin)))
	return part, place, err
}

// sliceBox returns a view of a box of an array.
func sliceBox(a *ndview.NDBuffer, b grid.Box) (*ndview.NDBuffer, error) {
	keys := make([]ndview.Key, len(b.Shape))
	for i := range keys {
		keys[i] = ndview.Span(b.Origin[i], b.Origin[i]+b.Shape[i])
	}
	return a.Index(keys...)
}
