package zarr

import (
	"context"
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
	"golang.org/x/sync/errgroup"
)

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
