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

// Write stores the values of the whole array, chunk by chunk, in jobs
// goroutines, or as many as there are cores where jobs is not positive. The
// shape of the values is that of the array.
func (a *Array) Write(ctx context.Context, v element.Values, jobs int) error {
	meta := a.Metadata()
	if err := meta.DataType.CheckValues(v); err != nil {
		return fmt.Errorf("array %q: %w", a.path, err)
	}
	if !slices.Equal(v.Shape(), meta.Shape) {
		return fmt.Errorf("array %q: values of shape %v for an array of shape %v", a.path, v.Shape(), meta.Shape)
	}
	counts := grid.Counts(meta.Shape, meta.ChunkShape)
	jobs = workers(jobs)
	across := int(min(int64(jobs), max(grid.Size(counts), 1)))
	within := max(jobs/across, 1) // cores left over go into each shard

	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(across)
	for index := range grid.Indices(counts) {
		if groupCtx.Err() != nil {
			break
		}
		group.Go(func() error {
			box, _ := grid.Chunk(index, meta.ChunkShape).Intersect(grid.Whole(meta.Shape))
			chunk, err := element.Box(v, box.At, box.Extent)
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

// WriteChunk stores one chunk, or one whole shard of a sharded array. The
// values may be smaller than the chunk along any axis, as at the array's edge;
// fill values make up the rest. A chunk whose elements all equal the fill value
// bit for bit is not stored, and removed where it was, unless WriteEmptyChunks
// is set. The array's shape is not looked at.
func (a *Array) WriteChunk(ctx context.Context, index []int64, v element.Values) error {
	return a.writeChunk(ctx, index, v, 1)
}

func (a *Array) writeChunk(ctx context.Context, index []int64, v element.Values, jobs int) error {
	if err := a.checkIndex(index); err != nil {
		return err
	}
	if _, ok := a.chain.Shards(); ok {
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

// writeShard cuts a whole shard into its chunks.
func (a *Array) writeShard(ctx context.Context, index []int64, v element.Values, jobs int) error {
	if err := a.chain.CheckValues(v); err != nil {
		return fmt.Errorf("array %q: shard %v: %w", a.path, index, err)
	}
	w, err := a.Shard(ctx, index)
	if err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(jobs)
	err = w.shards.Cut(v, func(inner []int64, chunk element.Values) error {
		chunk.Retain()
		group.Go(func() error {
			defer chunk.Release()
			return w.WriteChunk(groupCtx, inner, chunk)
		})
		return groupCtx.Err()
	})
	if failed := group.Wait(); failed != nil { // why Cut stopped
		err = failed
	}
	if err != nil {
		return errors.Join(err, w.Abort())
	}
	return w.Close(ctx)
}

// Trace is told how long the stages of writing take. Any function may be nil;
// they are called from the goroutines that write, several at once.
type Trace struct {
	// ToHost: the elements of a chunk came from a device to the host.
	ToHost func(bytes int64, took time.Duration)
	// Encode: the codecs turned a chunk's elements into bytes; into none, for
	// a chunk of fill values. The time is without that of ToHost.
	Encode func(raw, encoded int64, took time.Duration)
	// Store: the store took bytes.
	Store func(bytes int64, took time.Duration)
}

// encode runs a chain, and tells the trace.
func (t *Trace) encode(chain *codec.Chain, s *codec.Scratch, v element.Values) ([]byte, error) {
	if t == nil {
		return chain.Encode(s, v)
	}
	var copying time.Duration
	s.OnHost = func(bytes int64, took time.Duration) {
		copying += took
		if t.ToHost != nil {
			t.ToHost(bytes, took)
		}
	}
	start := time.Now()
	enc, err := chain.Encode(s, v)
	if err == nil && t.Encode != nil {
		t.Encode(rawBytes(v), int64(len(enc)), time.Since(start)-copying)
	}
	return enc, err
}

// store runs a call that gives bytes to the store, and tells the trace.
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

func rawBytes(v element.Values) int64 {
	switch v := v.(type) {
	case *ndview.NDBuffer:
		return v.NBytes()
	case *element.VLen:
		return v.NBytes()
	default:
		return 0
	}
}
