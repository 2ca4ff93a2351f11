package zarr

import (
	"context"
	"runtime"
	"slices"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
)

const (
	// deviceBatch is how many bytes of decoded chunks one batch has, at most by one
	// unit more. Two batches are in flight: one is read while the other is decoded.
	deviceBatch    = 256 << 20
	deviceInFlight = 2
	// minDeviceRead is the size in bytes from which a GPU decodes what is read. Less is
	// decoded sooner by the host.
	minDeviceRead = 1 << 20
)

// deviceRead reads a box into an array on a GPU, which decodes the chunks: compressed
// bytes cross the link, and chunks go to their places on the device.
type deviceRead struct {
	region
	nd    *ndview.NDBuffer // the shape of the box, C order
	codec codec.DeviceCodec
}

// deviceChunk is an encoded chunk on the host.
type deviceChunk struct {
	encodedChunk
	unit
}

// onDevice returns how to read a box into nd by its device, or false if the host must
// decode the chunks. The caller must release nd of the result.
func (a *Array) onDevice(nd *ndview.NDBuffer, box grid.Box) (*deviceRead, bool, error) {
	if _, ok := arrowbuf.As[*cudabuf.Device](nd.Device()); !ok || nd.NBytes() < minDeviceRead {
		return nil, false, nil
	}
	for index := range a.grid.Chunks(box) {
		chain, err := a.chainFor(index)
		if err != nil {
			return nil, false, err
		}
		if layout, ok := chain.ShardLayout(); ok {
			chain = layout.ChunkChain()
		}
		decoder, ok := chain.DeviceCodec()
		if !ok {
			return nil, false, nil
		}
		shaped, err := nd.ReshapeView(box.Shape...)
		if err != nil {
			return nil, false, err
		}
		return &deviceRead{region{array: a, box: box}, shaped, decoder}, true, nil
	}
	return nil, false, nil // no chunks
}

func (d *deviceRead) read(ctx context.Context, jobs int) error {
	return forEachParallel(ctx, deviceInFlight, d.batches, func(ctx context.Context, units []unit) error {
		chunks := make([][]deviceChunk, len(units))
		err := forEachParallel(ctx, jobs, upTo(len(units)), func(ctx context.Context, i int) (err error) {
			chunks[i], err = d.fetch(ctx, units[i])
			return err
		})
		if err != nil {
			return err
		}
		return d.decode(slices.Concat(chunks...))
	})
}

// upTo yields 0 to n-1.
func upTo(n int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for i := 0; i < n && yield(i); i++ {
		}
	}
}

// batches yields the units of the box in batches.
func (d *deviceRead) batches(yield func([]unit) bool) {
	var units []unit
	var bytes int64
	for u := range d.units {
		units = append(units, u)
		bytes += d.unitBytes(u)
		if bytes >= deviceBatch {
			if !yield(units) {
				return
			}
			units, bytes = nil, 0
		}
	}
	if len(units) > 0 {
		yield(units)
	}
}

// unitBytes returns the size of the decoded chunks of a unit.
func (d *deviceRead) unitBytes(u unit) int64 {
	shape := d.array.grid.Box(u.cell).Shape
	if chain, err := d.array.chainFor(u.cell); err == nil && u.inner != nil {
		if layout, ok := chain.ShardLayout(); ok {
			shape = layout.ChunkShape()
		}
	}
	return grid.Size(shape) * d.width()
}

// fetch reads the encoded chunks of a unit.
func (d *deviceRead) fetch(ctx context.Context, u unit) (chunks []deviceChunk, err error) {
	a := d.array
	chain, err := a.chainFor(u.cell)
	if err != nil {
		return nil, err
	}
	whole, key := a.grid.Box(u.cell), a.chunkKey(u.cell)
	layout, sharded := chain.ShardLayout()
	if !sharded {
		data, _, err := a.readValue(ctx, key, extent{}, nil)
		if err != nil {
			return nil, u.wrap(err)
		}
		return []deviceChunk{{encodedChunk{whole, chain, data}, u}}, nil
	}
	inner := [][]int64{u.inner}
	if u.inner == nil {
		part, _ := whole.Intersect(d.box)
		inner = slices.Collect(part.RelativeTo(whole.Origin).ChunkIndices(layout.ChunkShape()))
	}
	err = a.visitShard(ctx, layout, u.cell, inner, func(i int, data []byte) error {
		if data != nil {
			data = slices.Clone(data) // it is valid during this call only
		}
		box := grid.ChunkBox(inner[i], layout.ChunkShape()).RelativeTo(negate(whole.Origin))
		chunks = append(chunks, deviceChunk{encodedChunk{box, layout.ChunkChain(), data}, unit{u.cell, inner[i]}})
		return nil
	})
	return chunks, err
}

// deviceOutputs are the chunks of a batch that are decoded into one buffer.
type deviceOutputs struct {
	compress.Batch
	chunks []deviceChunk
}

func (o *deviceOutputs) add(c deviceChunk, in, out compress.Range) {
	o.In, o.Out, o.chunks = append(o.In, in), append(o.Out, out), append(o.chunks, c)
}

// inputAlignment makes the kernels' reads of neighboring inputs independent.
const inputAlignment = 16

// decode decodes chunks to their places in the array. A chunk that is contiguous there is
// decoded in place, others by way of a buffer of their own.
func (d *deviceRead) decode(chunks []deviceChunk) error {
	var direct, staged deviceOutputs
	var inBytes, stagedBytes int64
	var payloads [][]byte
	var places []int64
	for _, c := range chunks {
		if c.data == nil {
			if err := d.fill(c); err != nil {
				return c.wrap(err)
			}
			continue
		}
		size, err := grid.ByteSize(c.box.Shape, d.width())
		if err != nil {
			return c.wrap(err)
		}
		payload, err := d.codec.Payload(c.data, size)
		if err != nil {
			return c.wrap(err)
		}
		in := compress.Range{Offset: inBytes, Length: int64(len(payload))}
		payloads, places = append(payloads, payload), append(places, inBytes)
		inBytes += (in.Length + inputAlignment - 1) / inputAlignment * inputAlignment
		part, _ := c.box.Intersect(d.box)
		start, run := part.RelativeTo(d.box.Origin).ContiguousRange(d.box.Shape)
		if run && slices.Equal(part.Shape, c.box.Shape) {
			direct.add(c, in, compress.Range{Offset: d.nd.Offset() + start*d.width(), Length: size})
		} else {
			staged.add(c, in, compress.Range{Offset: stagedBytes, Length: size})
			stagedBytes += (size + inputAlignment - 1) / inputAlignment * inputAlignment
		}
	}
	if len(payloads) == 0 {
		return nil
	}
	src, err := d.upload(payloads, places, inBytes)
	if err != nil {
		return err
	}
	defer src.Release()
	if len(direct.chunks) > 0 {
		direct.Src, direct.Dst = src, d.nd.Buffer()
		if err := d.run(direct, nil); err != nil {
			return err
		}
	}
	if len(staged.chunks) == 0 {
		return nil
	}
	staged.Src = src
	if staged.Dst, err = d.nd.Device().Alloc(stagedBytes); err != nil {
		return err
	}
	defer staged.Dst.Release()
	return d.run(staged, func(c deviceChunk, at int64) error {
		whole, err := ndview.FromBuffer(staged.Dst, d.nd.DType(), at, c.box.Shape, nil)
		if err != nil {
			return err
		}
		defer whole.Release()
		part, _ := c.box.Intersect(d.box)
		from, err := sliceBox(whole, part.RelativeTo(c.box.Origin))
		if err != nil {
			return err
		}
		defer from.Release()
		return d.place(part, from)
	})
}

// upload returns a buffer on the device that has each payload at its place.
func (d *deviceRead) upload(payloads [][]byte, places []int64, n int64) (arrowbuf.Buffer, error) {
	s := d.array.scratch()
	defer s.Release()
	host, err := s.HostBytes(d.nd.Device(), n)
	if err != nil {
		return nil, err
	}
	err = forEachParallel(context.Background(), runtime.GOMAXPROCS(0), upTo(len(payloads)), func(_ context.Context, i int) error {
		copy(host[places[i]:], payloads[i])
		return nil
	})
	if err != nil {
		return nil, err
	}
	src, err := d.nd.Device().Alloc(n)
	if err != nil {
		return nil, err
	}
	if _, err := src.CopyFromHost(host, 0); err != nil {
		src.Release()
		return nil, err
	}
	return src, nil
}

// run decodes a batch and calls then, if that is not nil, with each chunk and its place
// in Dst. What the device cannot decode is decoded on the host, which has the error of a
// corrupt chunk.
func (d *deviceRead) run(o deviceOutputs, then func(c deviceChunk, at int64) error) error {
	results, err := d.codec.Decode(o.Batch, compress.Options{})
	if err != nil {
		return err
	}
	for i, r := range results {
		c := o.chunks[i]
		switch {
		case r.Err != nil || r.Length != o.Out[i].Length:
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

// decodeOnHost decodes one chunk on the host.
func (d *deviceRead) decodeOnHost(c deviceChunk) error {
	size, err := grid.ByteSize(c.box.Shape, d.width())
	if err != nil {
		return err
	}
	s := d.array.scratch()
	defer s.Release()
	raw := make([]byte, size)
	if err := c.chain.DecodeFixed(s, raw, c.data); err != nil {
		return err
	}
	whole, err := ndview.FromBytes(arrowbuf.CPU(), d.nd.DType(), raw, c.box.Shape...)
	if err != nil {
		return err
	}
	defer whole.Release()
	part, _ := c.box.Intersect(d.box)
	from, err := sliceBox(whole, part.RelativeTo(c.box.Origin))
	if err != nil {
		return err
	}
	defer from.Release()
	return d.place(part, from)
}

// fill sets the part of a chunk that is not stored to the fill value.
func (d *deviceRead) fill(c deviceChunk) error {
	value, err := ndview.FromBytes(d.nd.Device(), d.nd.DType(), c.chain.Fill())
	if err != nil {
		return err
	}
	defer value.Release()
	part, _ := c.box.Intersect(d.box)
	all, err := value.BroadcastTo(part.Shape...)
	if err != nil {
		return err
	}
	defer all.Release()
	return d.place(part, all)
}

// place copies values to a part of the array, by its position in the Zarr array.
func (d *deviceRead) place(part grid.Box, values *ndview.NDBuffer) error {
	to, err := sliceBox(d.nd, part.RelativeTo(d.box.Origin))
	if err != nil {
		return err
	}
	defer to.Release()
	return to.CopyFrom(values)
}

// sliceBox returns a view of a box of an array.
func sliceBox(a *ndview.NDBuffer, b grid.Box) (*ndview.NDBuffer, error) {
	keys := make([]ndview.Key, len(b.Shape))
	for i := range keys {
		keys[i] = ndview.Span(b.Origin[i], b.Origin[i]+b.Shape[i])
	}
	return a.Index(keys...)
}
