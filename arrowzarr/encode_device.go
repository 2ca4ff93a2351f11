package arrowzarr

import (
	"context"
	"slices"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
)

// encodesOnDevice reports whether a GPU encodes arrays of some compressors. Bytes that it
// would not change need not cross its link.
func encodesOnDevice(t element.Type, compressors []codec.Codec) bool {
	chain, err := zarr.DefaultCodecs(t, compressors...).Compile(codec.ChunkSpec{Type: t, Shape: []int64{1}, Fill: t.DefaultFill()})
	return err == nil && chain.EncodesOnDevice()
}

// encodeOnDevice reports whether a GPU encodes any array of the set. Which codec auto
// means is known later.
func (s codecSet) encodeOnDevice() bool {
	return slices.ContainsFunc(s, func(c Codec) bool {
		if c.Name == "auto" {
			return autoCandidates[c.Effort].encodeOnDevice()
		}
		return encodesOnDevice(element.Of(ndview.Int32), c.codecs(ClassInt, element.Of(ndview.Int32)))
	})
}

// place decides which columns are copied to the device, when their codecs are known:
// columns of fixed width whose values it encodes.
func place(columns []*column, device arrowbuf.Device) {
	for _, c := range columns {
		c.onDevice = device.Type() != arrowbuf.DeviceCPU && c.kind == kindFixed && !c.runs &&
			encodesOnDevice(c.dataType(), c.codecs.compressors(arrayValues, c.class(), c.dataType()))
	}
}

const (
	// deviceBatchBytes is the most that a batch of chunks has, before they are encoded.
	deviceBatchBytes = 128 << 20
	// deviceBatches is the number of batches at a time: one is encoded while others are
	// copied and stored.
	deviceBatches = 3
	// deviceChunks is the number of chunks that are on the device at a time.
	deviceChunks = 256
)

// runBatches writes chunks whose values a device has until the input is closed: as many at
// a time as are ready.
func (w *writer) runBatches(ctx context.Context, in <-chan *columnChunk, jobs int) error {
	for chunk := range in {
		batch, bytes := []*columnChunk{chunk}, rawBytes(chunk.arrays)
	ready:
		for bytes < deviceBatchBytes {
			select {
			case next, ok := <-in:
				if !ok {
					break ready
				}
				batch, bytes = append(batch, next), bytes+rawBytes(next.arrays)
			default:
				break ready
			}
		}
		err := w.writeBatch(ctx, batch, jobs)
		for _, chunk := range batch {
			chunk.release(w)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writeBatch encodes and stores chunks of columns together.
func (w *writer) writeBatch(ctx context.Context, batch []*columnChunk, jobs int) error {
	var pieces []arrayChunk
	for _, chunk := range batch {
		if err := w.begin(chunk.grid); err != nil {
			return err
		}
		c := w.columns[chunk.column]
		all, err := c.split(chunk.index, chunk.arrays)
		if err != nil {
			return partErrorf(partOf(err, PartOutput), "column %q: %w", c.plan.field.Name, err)
		}
		pieces = append(pieces, all...)
	}
	var writes []zarr.ChunkWrite
	for _, p := range pieces {
		write, ok, err := p.chunkWrite(ctx)
		if err != nil {
			return markPart(PartOutput, err)
		}
		if ok {
			writes = append(writes, write)
		}
	}
	if err := zarr.WriteChunks(ctx, writes, jobs); err != nil {
		return markPart(partOf(err, PartOutput), err)
	}
	for _, p := range pieces {
		if err := p.array.countChunk(ctx, p.index); err != nil {
			return markPart(PartOutput, err)
		}
	}
	for _, chunk := range batch {
		w.progress.raw.Add(rawBytes(chunk.arrays))
		chunk.epoch.finish()
	}
	return nil
}
