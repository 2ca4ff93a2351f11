package zarr

import (
	"context"
	"errors"
	"fmt"

	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// piece is what is decoded at once: a chunk, or a chunk of a shard.
type piece struct {
	box   grid.Box // of the array
	chain *codec.Chain
	enc   []byte // nil where it is not stored
}

// pieces gives f what the chunk with the given index stores, as far as it meets
// a box. A shard of which the box needs only a part is fetched in parts: the
// index, then each chunk that is needed.
func (a *Array) pieces(ctx context.Context, index []int64, box grid.Box, f func(piece) error) error {
	whole := piece{box: grid.Chunk(index, a.chunkShape), chain: a.chain}
	part, ok := whole.box.Intersect(box)
	if !ok {
		return nil
	}
	shards, sharded := a.chain.Shards()
	if sharded && !part.From(whole.box.At).IsWhole(a.chunkShape) {
		return a.shardPieces(ctx, shards, index, part, f)
	}
	var err error
	if whole.enc, err = a.fetch(ctx, index, store.Range{}); err == nil {
		err = f(whole)
	}
	if err != nil {
		return fmt.Errorf("chunk %v: %w", index, err)
	}
	return nil
}

// fetch gets a part of a chunk's bytes; nil where the chunk is not stored.
func (a *Array) fetch(ctx context.Context, index []int64, r store.Range) ([]byte, error) {
	enc, err := a.store.Get(ctx, a.chunkKey(index), r)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err == nil && enc == nil {
		enc = []byte{} // stored, if empty: for the codecs to refuse
	}
	return enc, err
}

func (a *Array) shardPieces(ctx context.Context, shards *codec.Shards, index []int64, part grid.Box, f func(piece) error) error {
	origin := grid.Chunk(index, a.chunkShape).At
	at := store.Last(shards.IndexSize())
	if shards.Location() == codec.Start {
		at = store.Between(0, shards.IndexSize())
	}
	raw, err := a.fetch(ctx, index, at)
	if err != nil {
		return err
	}
	if raw == nil {
		return f(piece{box: part, chain: shards.Inner()})
	}
	where, err := shards.DecodeIndex(raw)
	if err != nil {
		return fmt.Errorf("shard %v: %w", index, err)
	}
	for inner := range part.From(origin).Indices(shards.ChunkShape()) {
		p := piece{box: grid.Chunk(inner, shards.ChunkShape()).From(negative(origin)), chain: shards.Inner()}
		if offset, length, ok := where.Get(inner); ok {
			p.enc, err = a.fetch(ctx, index, store.Between(offset, offset+length))
			if err == nil && int64(len(p.enc)) != length {
				err = fmt.Errorf("%d bytes where the index says %d", len(p.enc), length)
			}
		}
		if err == nil {
			err = f(p)
		}
		if err != nil {
			return fmt.Errorf("shard %v: chunk %v: %w", index, inner, err)
		}
	}
	return nil
}

func negative(at []int64) []int64 {
	out := make([]int64, len(at))
	for i, n := range at {
		out[i] = -n
	}
	return out
}
