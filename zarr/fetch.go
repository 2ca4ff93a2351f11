package zarr

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
	"github.com/quiver-gpu/quiver/zarr/internal/index"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// encodedChunk is the unit of decoding: a chunk, or an inner chunk of a shard.
type encodedChunk struct {
	box   grid.Box // position in the array, or in its shard for visitPart
	chain *codec.Chain
	data  []byte // nil if the chunk is not stored
}

// visitChunks calls f with each encoded chunk of a grid cell that intersects box. Of a
// shard that is only partly needed, it fetches the chunks that are.
func (a *Array) visitChunks(ctx context.Context, index []int64, box grid.Box, f func(encodedChunk) error) error {
	chain, err := a.chainFor(index)
	if err != nil {
		return err
	}
	whole := encodedChunk{box: a.chunkGrid().Box(index), chain: chain}
	part, ok := whole.box.Intersect(box)
	if !ok {
		return nil
	}
	layout, sharded := chain.ShardLayout()
	if !sharded || part.RelativeTo(whole.box.Origin).Covers(whole.box.Shape) {
		if whole.data, err = a.required(a.fetch(ctx, index)); err == nil {
			err = f(whole)
		}
		if err != nil {
			return fmt.Errorf("chunk %v: %w", index, err)
		}
		return nil
	}
	origin := whole.box.Origin
	inner := slices.Collect(part.RelativeTo(origin).ChunkIndices(layout.ChunkShape()))
	return a.visitShard(ctx, layout, index, inner, func(i int, data []byte) error {
		box := grid.ChunkBox(inner[i], layout.ChunkShape())
		return f(encodedChunk{box: box.RelativeTo(negate(origin)), chain: layout.ChunkChain(), data: data})
	})
}

// visitPart calls f with the encoded chunks that have elements of a part of a grid cell,
// and with the part of each.
func (a *Array) visitPart(ctx context.Context, cell []int64, part index.Part, f func(encodedChunk, index.Part) error) error {
	chain, err := a.chainFor(cell)
	if err != nil {
		return err
	}
	box := a.chunkGrid().Box(cell)
	layout, sharded := chain.ShardLayout()
	if !sharded || part.Covers(box.Shape) {
		data, err := a.required(a.fetch(ctx, cell))
		if err == nil {
			err = f(encodedChunk{box: box, chain: chain, data: data}, part)
		}
		if err != nil {
			return fmt.Errorf("chunk %v: %w", cell, err)
		}
		return nil
	}
	within, err := grid.RegularGrid(layout.ChunkShape())
	if err != nil {
		return err
	}
	var inner [][]int64
	var parts []index.Part
	for at, p := range part.Split(within) {
		inner, parts = append(inner, at), append(parts, p)
	}
	return a.visitShard(ctx, layout, cell, inner, func(i int, data []byte) error {
		return f(encodedChunk{box: within.Box(inner[i]), chain: layout.ChunkChain(), data: data}, parts[i])
	})
}

// fetch reads a stored chunk or shard. It returns nil if it is not stored.
func (a *Array) fetch(ctx context.Context, index []int64) ([]byte, error) {
	return a.fetchRange(ctx, a.chunkKey(index), store.Range{})
}

func (a *Array) fetchRange(ctx context.Context, key string, r store.Range) ([]byte, error) {
	enc, err := a.store.Get(ctx, key, r)
	return stored(enc, err)
}

// readValue is a [fetchFunc] for the chunk that is the value of a key.
func (a *Array) readValue(ctx context.Context, key string, want extent, dst []byte) (data []byte, owned bool, err error) {
	reader := store.AsRangeReader(a.store)
	if reader == nil {
		if data, err = a.required(a.fetchRange(ctx, key, store.Range{})); err != nil || data == nil {
			return nil, false, err
		}
		if err := want.check(int64(len(data))); err != nil {
			return nil, false, err
		}
		if want.size > 0 {
			data = data[want.from : want.from+want.n]
		}
		return data, false, nil
	}
	at := store.Range{}
	if want.size > 0 {
		at = store.Between(want.from, want.from+want.n)
	}
	part, err := reader.ReadRange(ctx, key, at, dst)
	if err == nil {
		err = want.check(part.Size)
	}
	data, err = a.required(stored(part.Data, err))
	return data, true, err
}

// stored returns nil for a value that is not stored, and an empty slice for an empty one.
func stored(value []byte, err error) ([]byte, error) {
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err == nil && value == nil {
		value = []byte{} // the codecs return an error
	}
	return value, err
}

// required returns an error for nil data, of a chunk or a shard that is not stored, if the
// array requires that it is.
func (a *Array) required(data []byte, err error) ([]byte, error) {
	if a.RequireChunks && data == nil && err == nil {
		err = errMissing
	}
	return data, err
}

var errMissing = fmt.Errorf("it is not stored, which RequireChunks demands: %w", store.ErrNotFound)
