package zarr

import (
	"context"
	"fmt"
	"iter"
	"math/bits"
	"slices"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
	"github.com/quiver-gpu/quiver/zarr/store"
)

const (
	// deviceBatch is how many bytes of decoded chunks one batch has, at most by one
	// unit more. Some batches are in flight, so that files are read, bytes cross the
	// link and kernels run at the same time.
	deviceBatch    = 128 << 20
	deviceInFlight = 3
	slabUnit       = 48 << 20
	// minDeviceRead is the size in bytes from which a GPU decodes what is read. Less is
	// decoded sooner by the host.
	minDeviceRead = 1 << 20
	// inputAlignment makes the kernels' reads of neighboring inputs independent.
	inputAlignment = 16
)

func align(n int64) int64 { return (n + inputAlignment - 1) / inputAlignment * inputAlignment }

// deviceRead reads a box into an array on a GPU, which decodes the chunks: compressed
// bytes cross the link, and chunks go to their places on the device.
type deviceRead struct {
	region
	nd    *ndview.NDBuffer // the shape of the box, C order
	codec *codec.DeviceCodec
}

// deviceChunk is an encoded chunk on the host. Its data is nil if it is not stored.
type deviceChunk struct {
	encodedChunk
	unit
	size int64  // of the decoded chunk, in bytes
	slot []byte // empty, with pinned memory for the encoded chunk
}

// onDevice returns how the device of nd reads a box into it, or nil if the host must
// decode the chunks. The caller must release nd of the result.
func (a *Array) onDevice(nd *ndview.NDBuffer, box grid.Box) (*deviceRead, error) {
	if _, ok := arrowbuf.As[*cudabuf.Device](nd.Device()); !ok || nd.NBytes() < minDeviceRead {
		return nil, nil
	}
	for index := range a.grid.Chunks(box) {
		chain, err := a.chainFor(index)
		if err != nil {
			return nil, err
		}
		if layout, ok := chain.ShardLayout(); ok {
			chain = layout.ChunkChain()
		}
		decoder := chain.DeviceCodec()
		if decoder == nil {
			return nil, nil
		}
		shaped, err := nd.ReshapeView(box.Shape...)
		if err != nil {
			return nil, err
		}
		return &deviceRead{region{array: a, box: box}, shaped, decoder}, nil
	}
	return nil, nil // no chunks
}

func (d *deviceRead) read(ctx context.Context, jobs int) error {
	return forEachParallel(ctx, deviceInFlight, d.batches, func(ctx context.Context, chunks []deviceChunk) error {
		s := d.array.scratch()
		defer s.Release()
		if err := d.fetch(ctx, s, chunks, jobs); err != nil {
			return err
		}
		return d.decode(chunks)
	})
}

// batches yields the chunks of the box in batches. Those of one unit are in one batch.
func (d *deviceRead) batches(yield func([]deviceChunk) bool) {
	var chunks []deviceChunk
	var bytes int64
	for u := range d.units {
		for c := range d.chunksOf(u) {
			chunks = append(chunks, c)
			bytes += c.size
		}
		if bytes >= deviceBatch {
			if !yield(chunks) {
				return
			}
			chunks, bytes = nil, 0
		}
	}
	if len(chunks) > 0 {
		yield(chunks)
	}
}

// chunksOf yields the chunks of a unit in the box. The error of a cell without codecs is
// that of fetching its first chunk.
func (d *deviceRead) chunksOf(u unit) iter.Seq[deviceChunk] {
	return func(yield func(deviceChunk) bool) {
		whole := d.array.grid.Box(u.cell)
		chunk := func(box grid.Box, chain *codec.Chain, u unit) deviceChunk {
			return deviceChunk{encodedChunk: encodedChunk{box: box, chain: chain}, unit: u, size: grid.Size(box.Shape) * d.width()}
		}
		chain, err := d.array.chainFor(u.cell)
		if err != nil {
			yield(chunk(whole, nil, u))
			return
		}
		layout, sharded := chain.ShardLayout()
		if !sharded {
			yield(chunk(whole, chain, u))
			return
		}
		part, _ := whole.Intersect(d.box)
		inner := part.RelativeTo(whole.Origin).ChunkIndices(layout.ChunkShape())
		if u.inner != nil {
			inner = slices.Values([][]int64{u.inner})
		}
		for at := range inner {
			box := grid.ChunkBox(at, layout.ChunkShape()).RelativeTo(negate(whole.Origin))
			if !yield(chunk(box, layout.ChunkChain(), unit{u.cell, slices.Clone(at)})) {
				return
			}
		}
	}
}

// fetch reads the encoded chunks of a batch into pinned memory, as long as they fit.
func (d *deviceRead) fetch(ctx context.Context, s *codec.Scratch, chunks []deviceChunk, jobs int) error {
	var n int64
	for _, c := range chunks {
		n += align(d.codec.EncodedSize(c.size))
	}
	slab, err := s.HostBytes(d.nd.Device(), slabSize(n))
	if err != nil {
		return err
	}
	for i := range chunks {
		size := align(d.codec.EncodedSize(chunks[i].size))
		chunks[i].slot, slab = slab[:0:size], slab[size:]
	}
	// Where reading a chunk takes a round trip, chunks of one shard are read together.
	together := func(a, b deviceChunk) bool { return a.inner != nil && slices.Equal(a.cell, b.cell) }
	if store.AsRangeReader(d.array.store) != nil {
		together = func(_, _ deviceChunk) bool { return false }
	}
	return forEachParallel(ctx, jobs, runs(chunks, together), d.fetchCell)
}

// slabSize rounds n up to one of few sizes. Allocating pinned memory takes longer than
// reading a batch, so the allocator should find memory of earlier batches.
func slabSize(n int64) int64 {
	if n <= slabUnit/2 {
		return 1 << bits.Len64(uint64(n))
	}
	return (n + slabUnit - 1) / slabUnit * slabUnit
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
	compress.Batch
	chunks   []deviceChunk
	payloads [][]byte
	bytes    int64
}

func (o *deviceOutputs) add(c deviceChunk, payload []byte, out int64) {
	o.chunks, o.payloads = append(o.chunks, c), append(o.payloads, payload)
	o.Out = append(o.Out, compress.Range{Offset: out, Length: c.size})
}

// decode decodes chunks to their places in the array. A chunk that is contiguous there is
// decoded in place, others by way of a buffer of their own.
func (d *deviceRead) decode(chunks []deviceChunk) error {
	var direct, staged deviceOutputs
	for _, c := range chunks {
		if c.data == nil {
			if err := d.fill(c); err != nil {
				return c.wrap(err)
			}
			continue
		}
		payload, err := d.codec.Payload(c.data, c.size)
		if err != nil {
			payload = nil // the host has the error
		}
		part, _ := c.box.Intersect(d.box)
		start, run := part.RelativeTo(d.box.Origin).ContiguousRange(d.box.Shape)
		if run && slices.Equal(part.Shape, c.box.Shape) {
			direct.add(c, payload, d.nd.Offset()+start*d.width())
		} else {
			staged.add(c, payload, staged.bytes)
			staged.bytes += align(c.size)
		}
	}
	if len(direct.chunks) > 0 {
		direct.Dst = d.nd.Buffer()
		if err := d.run(&direct, nil); err != nil {
			return err
		}
	}
	if len(staged.chunks) == 0 {
		return nil
	}
	var err error
	if staged.Dst, err = d.nd.Device().Alloc(staged.bytes); err != nil {
		return err
	}
	defer staged.Dst.Release()
	return d.run(&staged, func(c deviceChunk, at int64) error {
		whole, err := ndview.FromBuffer(staged.Dst, d.nd.DType(), at, c.box.Shape, nil)
		if err != nil {
			return err
		}
		defer whole.Release()
		return d.placePart(c, whole)
	})
}

// run decodes a batch and calls then, if that is not nil, with each chunk and its place
// in Dst. What the device cannot decode is decoded on the host, which has the error of a
// corrupt chunk.
func (d *deviceRead) run(o *deviceOutputs, then func(c deviceChunk, at int64) error) error {
	decode := d.runKernels
	if d.codec.Decode == nil {
		decode = d.copyPlain
	}
	decoded, err := decode(o)
	if err != nil {
		return err
	}
	for i, c := range o.chunks {
		switch {
		case !decoded[i]:
			err = d.decodeOnHost(c)
		case then != nil:
			err = then(c, o.Out[i].Offset)
		}
		if err != nil {
			return c.wrap(err)
		}
	}
	return nil
}

// copyPlain copies chunks that are their elements. It reports which of them have the
// right size.
func (d *deviceRead) copyPlain(o *deviceOutputs) (copied []bool, err error) {
	copied = make([]bool, len(o.chunks))
	var ranges []arrowbuf.HostRange
	for i, payload := range o.payloads {
		if copied[i] = int64(len(payload)) == o.Out[i].Length; copied[i] {
			ranges = append(ranges, arrowbuf.HostRange{Bytes: payload, Pos: o.Out[i].Offset})
		}
	}
	return copied, copyRanges(o.Dst, ranges)
}

// runKernels decodes the payloads. It reports which of them were decoded.
func (d *deviceRead) runKernels(o *deviceOutputs) (decoded []bool, err error) {
	var n int64
	ranges := make([]arrowbuf.HostRange, len(o.payloads))
	for i, payload := range o.payloads {
		ranges[i] = arrowbuf.HostRange{Bytes: payload, Pos: n}
		o.In = append(o.In, compress.Range{Offset: n, Length: int64(len(payload))})
		n += align(int64(len(payload)))
	}
	if o.Src, err = d.nd.Device().Alloc(n); err != nil {
		return nil, err
	}
	defer o.Src.Release()
	if err := copyRanges(o.Src, ranges); err != nil {
		return nil, err
	}
	results, err := d.codec.Decode(o.Batch, compress.Options{})
	if err != nil {
		return nil, err
	}
	decoded = make([]bool, len(results))
	for i, r := range results {
		decoded[i] = o.payloads[i] != nil && r.Err == nil && r.Length == o.Out[i].Length
	}
	return decoded, nil
}

func copyRanges(dst arrowbuf.Buffer, ranges []arrowbuf.HostRange) error {
	cuda, ok := arrowbuf.As[*cudabuf.Buffer](dst)
	if !ok {
		return fmt.Errorf("%v: %w", dst.Device(), arrowbuf.ErrDevice)
	}
	return cuda.CopyRangesFromHost(ranges)
}

// decodeOnHost decodes one chunk on the host.
func (d *deviceRead) decodeOnHost(c deviceChunk) error {
	if err := arrowbuf.CheckHostMemory(c.size); err != nil { // a chunk may be much larger than its array
		return err
	}
	s := d.array.scratch()
	defer s.Release()
	raw := make([]byte, c.size)
	if err := c.chain.DecodeFixed(s, raw, c.data); err != nil {
		return err
	}
	whole, err := ndview.FromBytes(arrowbuf.CPU(), d.nd.DType(), raw, c.box.Shape...)
	if err != nil {
		return err
	}
	defer whole.Release()
	return d.placePart(c, whole)
}

// fill sets the part of a chunk that is not stored to the fill value.
func (d *deviceRead) fill(c deviceChunk) error {
	value, err := ndview.FromBytes(d.nd.Device(), d.nd.DType(), c.chain.Fill())
	if err != nil {
		return err
	}
	defer value.Release()
	all, err := value.BroadcastTo(c.box.Shape...)
	if err != nil {
		return err
	}
	defer all.Release()
	return d.placePart(c, all)
}

// placePart copies the part of a decoded chunk that is in the box to its place.
func (d *deviceRead) placePart(c deviceChunk, whole *ndview.NDBuffer) error {
	part, _ := c.box.Intersect(d.box)
	from, err := sliceBox(whole, part.RelativeTo(c.box.Origin))
	if err != nil {
		return err
	}
	defer from.Release()
	to, err := sliceBox(d.nd, part.RelativeTo(d.box.Origin))
	if err != nil {
		return err
	}
	defer to.Release()
	return to.CopyFrom(from)
}

// sliceBox returns a view of a box of an array.
func sliceBox(a *ndview.NDBuffer, b grid.Box) (*ndview.NDBuffer, error) {
	keys := make([]ndview.Key, len(b.Shape))
	for i := range keys {
		keys[i] = ndview.Span(b.Origin[i], b.Origin[i]+b.Shape[i])
	}
	return a.Index(keys...)
}
