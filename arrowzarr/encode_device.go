package arrowzarr

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

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

// anyOnDevice reports whether a GPU encodes any array of the set. Which codec auto means is
// known later.
func (s codecSet) anyOnDevice() bool {
	return slices.ContainsFunc(s, func(c Codec) bool {
		if c.Name == "auto" {
			return autoCandidates[c.Effort].anyOnDevice()
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

// deviceChunks is the number of chunks that are on the device at a time.
const deviceChunks = 256

// deviceWriter is the stage that stores the chunks that a device encodes, instead of the
// writer: zarr.WriteChunks encodes many of them together.
type deviceWriter struct {
	*writer
	in   <-chan *columnChunk
	jobs int

	mu   sync.Mutex
	held map[*columnChunk]bool // that are not released
}

// run writes chunks until the input is closed.
func (w *deviceWriter) run(ctx context.Context) error {
	group, groupCtx := errgroup.WithContext(ctx)
	writes := make(chan zarr.ChunkWrite)
	group.Go(func() error { return zarr.WriteChunks(groupCtx, writes, w.jobs) })
	group.Go(func() error {
		defer close(writes)
		for {
			select {
			case chunk, ok := <-w.in:
				if !ok {
					return nil
				}
				w.mu.Lock()
				w.held[chunk] = true
				w.mu.Unlock()
				if err := w.send(groupCtx, chunk, writes); err != nil {
					return err
				}
			case <-groupCtx.Done():
				return context.Cause(groupCtx)
			}
		}
	})
	err := group.Wait()
	for chunk := range w.held { // left after an error
		chunk.release(nil)
	}
	return markPart(partOf(err, PartOutput), err)
}

// send sends the chunks of a column's arrays, and takes ownership of the chunk.
func (w *deviceWriter) send(ctx context.Context, chunk *columnChunk, writes chan<- zarr.ChunkWrite) error {
	if err := w.begin(chunk.grid); err != nil {
		return err
	}
	c := w.columns[chunk.column]
	chunks, err := c.split(chunk.index, chunk.arrays)
	if err != nil {
		return failedColumn(c.column.field, PartOutput, err)
	}
	var unstored atomic.Int64
	unstored.Store(int64(len(chunks)))
	for _, a := range chunks {
		stored := func(ctx context.Context) error {
			err := a.array.countChunk(ctx, a.index)
			if err == nil && unstored.Add(-1) == 0 {
				w.finish(chunk)
			}
			return err
		}
		write, ok, err := a.chunkWrite(ctx)
		if err == nil && !ok {
			err = stored(ctx)
		}
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		write.Stored = stored
		select {
		case writes <- write:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// finish releases a chunk whose arrays are stored.
func (w *deviceWriter) finish(chunk *columnChunk) {
	w.mu.Lock()
	delete(w.held, chunk)
	w.mu.Unlock()
	w.progress.raw.Add(rawBytes(chunk.arrays))
	chunk.epoch.finish()
	chunk.release(w.writer)
}
