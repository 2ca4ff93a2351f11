package zarr

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
	"github.com/quiver-gpu/quiver/zarr/internal/index"
)

// Write stores the whole array chunk by chunk. The values must have the shape of the
// array. Write uses as many goroutines as [Array.Read].
func (a *Array) Write(ctx context.Context, v element.Values, jobs int) error {
	if err := a.dataType.CheckValues(v); err != nil {
		return fmt.Errorf("array %q: %w", a.path, err)
	}
	shape := a.Shape()
	if !slices.Equal(v.Shape(), shape) {
		return fmt.Errorf("array %q: values of shape %v, want %v", a.path, v.Shape(), shape)
	}
	return a.writeBox(ctx, grid.WholeBox(shape), v, jobs)
}

// WriteFrom stores the elements of another array, which has the shape and the type of a. The
// other may have other chunks, codecs or another Zarr format: each goroutine reads the
// elements of one chunk of a, or of one shard, and writes them. Write says how many there
// are.
func (a *Array) WriteFrom(ctx context.Context, src *Array, jobs int) error {
	fail := func(err error) error {
		return fmt.Errorf("zarr.Array.WriteFrom: array %q: %w", a.path, err)
	}
	if src == nil {
		return fail(errors.New("nil array"))
	}
	shape := a.Shape()
	if a.dataType != src.dataType || !slices.Equal(shape, src.Shape()) {
		return fail(fmt.Errorf("array %q has %s %v, want %s %v: %w", src.path, src.dataType, src.Shape(), a.dataType, shape, ndview.ErrShape))
	}
	whole := grid.WholeBox(shape)
	jobs = max(a.goroutines(jobs, waiting, a.chunkBytes()), src.goroutines(jobs, waiting, a.chunkBytes()))
	err := forEachParallel(ctx, jobs, a.chunkGrid().Chunks(whole), func(ctx context.Context, index []int64) error {
		part, _ := a.chunkGrid().Box(index).Intersect(whole)
		v, err := src.readBox(ctx, Prototype{}, part, 1)
		if err != nil {
			return err
		}
		defer v.Release()
		return a.writeBoxOfChunk(ctx, index, part, v, 1)
	})
	if err != nil {
		return fail(err)
	}
	return nil
}

// WriteChunk stores one chunk, or one whole shard of a sharded array. The values may be
// smaller than the chunk along any axis. Those of the last chunk of an axis need not
// exceed the shape of the array: fill values pad the rest. Otherwise the other elements
// of the chunk stay, so it is read first. If all elements equal the fill value bitwise,
// the chunk is deleted instead, unless WriteEmptyChunks is set. Chunks outside the shape
// of the array can be written, too: fill values pad them, and what was stored there goes.
func (a *Array) WriteChunk(ctx context.Context, index []int64, v element.Values) error {
	if err := a.checkIndex(index); err != nil {
		return err
	}
	chain, err := a.chainFor(index)
	if err == nil {
		err = chain.CheckValues(v)
	}
	if err != nil {
		return fmt.Errorf("array %q: chunk %v: %w", a.path, index, err)
	}
	cell := a.chunkGrid().Box(index)
	if slices.Equal(v.Shape(), cell.Shape) {
		return a.writeChunk(ctx, index, v, 1)
	}
	return a.writeBoxOfChunk(ctx, index, grid.Box{Origin: cell.Origin, Shape: v.Shape()}, v, 1)
}

// writeBox stores a box of the array. The values have its shape.
func (a *Array) writeBox(ctx context.Context, box grid.Box, v element.Values, jobs int) error {
	counts := make([]int64, len(a.chunkGrid()))
	for i, axis := range a.chunkGrid() {
		counts[i] = axis.Count(box.Origin[i]+box.Shape[i]) - axis.Count(box.Origin[i])
	}
	if a.writesBoxOnDevice(box, v) {
		return a.writeBoxOnDevice(ctx, box, v, a.goroutines(jobs, 0, a.chunkBytes()))
	}
	jobs = a.goroutines(jobs, waiting, a.chunkBytes())
	across := int(min(int64(jobs), max(grid.Size(counts), 1)))
	within := max(jobs/across, 1) // remaining goroutines per shard
	return forEachParallel(ctx, across, a.chunkGrid().Chunks(box), func(ctx context.Context, index []int64) error {
		part, _ := a.chunkGrid().Box(index).Intersect(box)
		chunk, err := element.SliceBox(v, part.RelativeTo(box.Origin).Origin, part.Shape)
		if err != nil {
			return err
		}
		defer chunk.Release()
		return a.writeBoxOfChunk(ctx, index, part, chunk, within)
	})
}

// writeBoxOfChunk stores a box that lies in one chunk. It reads the chunk unless the box
// has all of its elements that are in the array.
func (a *Array) writeBoxOfChunk(ctx context.Context, cell []int64, box grid.Box, v element.Values, jobs int) error {
	chunk := a.chunkGrid().Box(cell)
	if a.hasAll(chunk, box) {
		return a.writeChunk(ctx, cell, v, jobs)
	}
	s := a.scratch()
	defer s.Release()
	src, err := a.hostSource(s, v)
	if err != nil {
		return fmt.Errorf("array %q: chunk %v: %w", a.path, cell, err)
	}
	part := index.Part{From: make([]index.Positions, len(cell)), To: make([]index.Positions, len(cell))}
	for i, n := range box.Shape {
		part.From[i], part.To[i] = index.Range(box.Origin[i]-chunk.Origin[i], 1, n), index.Range(0, 1, n)
	}
	return a.writePart(ctx, cell, part, src, jobs)
}

// hasAll reports whether a box of a chunk has all elements of the chunk that are in the
// array: none, if the chunk is outside.
func (a *Array) hasAll(chunk, box grid.Box) bool {
	inside, ok := chunk.Intersect(grid.WholeBox(a.Shape()))
	return !ok || box.Contains(inside)
}

// writeChunk stores a whole chunk or shard, whose values are padded.
func (a *Array) writeChunk(ctx context.Context, index []int64, v element.Values, jobs int) error {
	if err := a.checkWritable(); err != nil {
		return err
	}
	chain, err := a.chainFor(index)
	if err != nil {
		return err
	}
	key := a.chunkKey(index)
	unlock, err := a.writing.lock(ctx, key)
	if err != nil {
		return err
	}
	defer unlock()
	if _, ok := chain.ShardLayout(); ok {
		return a.writeShard(ctx, index, v, jobs)
	}
	s := a.scratch()
	defer s.Release()
	enc, err := a.Trace.encode(chain, s, v)
	if err != nil {
		return fmt.Errorf("array %q: chunk %v: %w", a.path, index, err)
	}
	return a.replaceChunk(ctx, key, enc, a.pieceSize(chain))
}

// writeShard splits a whole shard into its chunks.
func (a *Array) writeShard(ctx context.Context, index []int64, v element.Values, jobs int) error {
	w, err := a.NewShardWriter(ctx, index)
	if err != nil {
		return err
	}
	if err := w.chain.CheckValues(v); err != nil {
		return fmt.Errorf("array %q: shard %v: %w", a.path, index, err)
	}
	var failure error
	err = forEachParallel(ctx, jobs, innerChunks(w.layout, v, &failure), func(ctx context.Context, c innerChunk) error {
		defer c.values.Release()
		return w.WriteChunk(ctx, c.index, c.values)
	})
	if err == nil {
		err = failure
	}
	if err != nil {
		return errors.Join(err, w.Abort())
	}
	return w.Close(ctx)
}

// innerChunk is a chunk of a shard. The consumer releases the values.
type innerChunk struct {
	index  []int64
	values element.Values
}

// innerChunks yields the chunks of a shard's values. An error is in failure at the end.
func innerChunks(layout *codec.ShardLayout, v element.Values, failure *error) iter.Seq[innerChunk] {
	return func(yield func(innerChunk) bool) {
		err := layout.Split(v, func(index []int64, chunk element.Values) error {
			chunk.Retain()
			if !yield(innerChunk{index, chunk}) {
				return errStopped
			}
			return nil
		})
		if !errors.Is(err, errStopped) {
			*failure = err
		}
	}
}

// errStopped means that the consumer of an iterator wants no more.
var errStopped = errors.New("stopped")

// Trace receives the duration of each stage of writing. A nil function is skipped.
// Writing goroutines call the functions concurrently.
type Trace struct {
	// ToHost is called after the elements of a chunk, or the encoded chunks of a batch,
	// were copied from a device to the host.
	ToHost func(bytes int64, took time.Duration)
	// Encode is called after the codecs converted a chunk. The encoded size is 0 for a
	// chunk of fill values. The duration excludes that of ToHost. Of a chunk that was
	// encoded with others, it is the share by size.
	Encode func(raw, encoded int64, took time.Duration)
	// Store is called after the store accepted bytes.
	Store func(bytes int64, took time.Duration)
}

// encode encodes values with a chain and reports the duration.
func (t *Trace) encode(chain *codec.Chain, s *codec.Scratch, v element.Values) ([]byte, error) {
	if t == nil {
		return chain.Encode(s, v)
	}
	var copying time.Duration
	s.OnHostCopy = func(bytes int64, took time.Duration) {
		copying += took
		if t.ToHost != nil {
			t.ToHost(bytes, took)
		}
	}
	start := time.Now()
	enc, err := chain.Encode(s, v)
	if err == nil && t.Encode != nil {
		t.Encode(valuesBytes(v), int64(len(enc)), time.Since(start)-copying)
	}
	return enc, err
}

// store calls a function that writes to the store and reports the duration.
func (t *Trace) store(bytes int, call func() error) error {
	if t == nil || t.Store == nil {
		return call()
	}
	start := time.Now()
	err := call()
	if err == nil {
		t.Store(int64(bytes), time.Since(start))
	}
	return err
}

func valuesBytes(v element.Values) int64 {
	switch v := v.(type) {
	case *ndview.NDBuffer:
		return v.NBytes()
	case *element.VLen:
		return v.NBytes()
	default:
		return 0
	}
}
