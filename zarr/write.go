package zarr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
	"golang.org/x/sync/errgroup"
)

// Write stores the whole array chunk by chunk. The values must have the shape of the
// array. Write uses jobs goroutines, or GOMAXPROCS if jobs is not positive.
func (a *Array) Write(ctx context.Context, v element.Values, jobs int) error {
	meta := a.Metadata()
	if err := meta.DataType.CheckValues(v); err != nil {
		return fmt.Errorf("array %q: %w", a.path, err)
	}
	if !slices.Equal(v.Shape(), meta.Shape) {
		return fmt.Errorf("array %q: values of shape %v, want %v", a.path, v.Shape(), meta.Shape)
	}
	counts := grid.GridShape(meta.Shape, meta.ChunkShape)
	jobs = parallelism(jobs)
	across := int(min(int64(jobs), max(grid.Size(counts), 1)))
	within := max(jobs/across, 1) // remaining goroutines per shard

	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(across)
	for index := range grid.Indices(counts) {
		if groupCtx.Err() != nil {
			break
		}
		group.Go(func() error {
			box, _ := grid.ChunkBox(index, meta.ChunkShape).Intersect(grid.WholeBox(meta.Shape))
			chunk, err := element.SliceBox(v, box.Origin, box.Shape)
			if err != nil {
				return err
			}
			defer chunk.Release()
			return a.writeChunk(groupCtx, index, chunk, within)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// WriteChunk stores one chunk, or one whole shard of a sharded array. The values may be
// smaller than the chunk along any axis, as at the edge of the array; fill values pad
// the rest. If all elements equal the fill value bitwise, the chunk is deleted instead,
// unless WriteEmptyChunks is set. WriteChunk ignores the shape of the array.
func (a *Array) WriteChunk(ctx context.Context, index []int64, v element.Values) error {
	return a.writeChunk(ctx, index, v, 1)
}

func (a *Array) writeChunk(ctx context.Context, index []int64, v element.Values, jobs int) error {
	if err := a.checkIndex(index); err != nil {
		return err
	}
	if _, ok := a.chain.ShardLayout(); ok {
		return a.writeShard(ctx, index, v, jobs)
	}
	s := a.scratch()
	defer s.Release()
	enc, err := a.Trace.encode(a.chain, s, v)
	if err != nil {
		return fmt.Errorf("array %q: chunk %v: %w", a.path, index, err)
	}
	key := a.chunkKey(index)
	if enc == nil {
		return a.store.Delete(ctx, key)
	}
	return a.Trace.store(len(enc), func() error { return a.store.Set(ctx, key, enc) })
}

// writeShard splits a whole shard into its chunks.
func (a *Array) writeShard(ctx context.Context, index []int64, v element.Values, jobs int) error {
	if err := a.chain.CheckValues(v); err != nil {
		return fmt.Errorf("array %q: shard %v: %w", a.path, index, err)
	}
	w, err := a.NewShardWriter(ctx, index)
	if err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(jobs)
	err = w.layout.Split(v, func(inner []int64, chunk element.Values) error {
		chunk.Retain()
		group.Go(func() error {
			defer chunk.Release()
			return w.WriteChunk(groupCtx, inner, chunk)
		})
		return groupCtx.Err()
	})
	if failed := group.Wait(); failed != nil { // the cause, if Split stopped early
		err = failed
	}
	if err != nil {
		return errors.Join(err, w.Abort())
	}
	return w.Close(ctx)
}

// Trace receives the duration of each stage of writing. A nil function is skipped.
// Writing goroutines call the functions concurrently.
type Trace struct {
	// ToHost is called after the elements of a chunk were copied from a device to the
	// host.
	ToHost func(bytes int64, took time.Duration)
	// Encode is called after the codecs converted a chunk. The encoded size is 0 for a
	// chunk of fill values. The duration excludes that of ToHost.
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
