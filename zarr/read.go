package zarr

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
	"github.com/quiver-gpu/quiver/zarr/store"
	"golang.org/x/sync/errgroup"
)

// Read returns the whole array: as an NDBuffer in memory of the prototype, or
// as a VLen, which is on the host whatever the prototype. It works in jobs
// goroutines, or as many as there are cores where jobs is not positive.
func (a *Array) Read(ctx context.Context, to ndview.Prototype, jobs int) (element.Values, error) {
	return a.readBox(ctx, to, grid.Whole(a.Metadata().Shape), jobs)
}

// ReadChunk is Read for one chunk, or one whole shard of a sharded array. Its
// shape is the chunk's, also at the array's edge, where what lies beyond it is
// what was stored, or fill values.
func (a *Array) ReadChunk(ctx context.Context, to ndview.Prototype, index []int64) (element.Values, error) {
	if err := a.checkIndex(index); err != nil {
		return nil, err
	}
	return a.readBox(ctx, to, grid.Chunk(index, a.chunkShape), 1)
}

// ReadRows is Read for rows start, ..., stop-1 along the first axis. Of a
// sharded array only the chunks that hold them are fetched.
func (a *Array) ReadRows(ctx context.Context, to ndview.Prototype, start, stop int64, jobs int) (element.Values, error) {
	box := grid.Whole(slices.Clone(a.Metadata().Shape))
	if len(box.Extent) == 0 || start < 0 || stop < start || stop > box.Extent[0] {
		return nil, fmt.Errorf("array %q: rows [%d, %d) of shape %v", a.path, start, stop, box.Extent)
	}
	box.At[0], box.Extent[0] = start, stop-start
	return a.readBox(ctx, to, box, jobs)
}

func (a *Array) readBox(ctx context.Context, to ndview.Prototype, box grid.Box, jobs int) (element.Values, error) {
	var values element.Values
	var err error
	if a.dataType.IsVLen() {
		values, err = a.readVLen(ctx, box, workers(jobs))
	} else {
		values, err = a.readFixed(ctx, to, box, workers(jobs))
	}
	if err != nil {
		return nil, fmt.Errorf("array %q: %w", a.path, err)
	}
	return values, nil
}

// readFixed reads straight into the array's memory where the host reaches it.
// On a device it reads one row of chunks after the other into host memory:
// each is one run of the array's bytes, and crosses in one copy.
func (a *Array) readFixed(ctx context.Context, to ndview.Prototype, box grid.Box, jobs int) (element.Values, error) {
	dtype, _ := a.dataType.DType()
	if _, err := grid.Bytes(box.Extent, dtype.Size()); err != nil {
		return nil, err
	}
	nd, err := to.NDBuffer(dtype, box.Extent...)
	if err != nil {
		return nil, err
	}
	if host, ok := nd.HostBytes(); ok {
		to := region{a, host, box}
		err = each(ctx, jobs, box.Indices(a.chunkShape), func(ctx context.Context, index []int64) error {
			return to.read(ctx, index)
		})
	} else {
		err = each(ctx, jobs, bands(box, a.chunkShape), func(ctx context.Context, band grid.Box) error {
			return a.readBand(ctx, nd, box, band)
		})
	}
	if err != nil {
		nd.Release()
		return nil, err
	}
	return nd, nil
}

// readBand reads rows of a device array.
func (a *Array) readBand(ctx context.Context, nd *ndview.NDBuffer, box, band grid.Box) error {
	width := nd.DType().Size()
	s := a.scratch()
	defer s.Release()
	host, err := s.HostBytes(nd.Device(), grid.Size(band.Extent)*width)
	if err != nil {
		return err
	}
	rows := region{a, host, band}
	for index := range band.Indices(a.chunkShape) {
		if err := rows.read(ctx, index); err != nil {
			return err
		}
	}
	start, _ := band.From(box.At).Run(box.Extent)
	_, err = nd.Buffer().CopyFromHost(rows.data, nd.Offset()+start*width)
	return err
}

// bands cuts a box along its first axis where chunks end.
func bands(box grid.Box, chunk []int64) func(func(grid.Box) bool) {
	return func(yield func(grid.Box) bool) {
		if len(chunk) == 0 {
			yield(box)
			return
		}
		first := grid.Box{At: box.At[:1], Extent: box.Extent[:1]}
		for index := range first.Indices(chunk[:1]) {
			part, _ := grid.Chunk(index, chunk[:1]).Intersect(first)
			if !yield(grid.Box{At: append(part.At, box.At[1:]...), Extent: append(part.Extent, box.Extent[1:]...)}) {
				return
			}
		}
	}
}

// region is host memory that holds a box of an array in C order.
type region struct {
	array *Array
	data  []byte
	box   grid.Box
}

// read fills in one chunk, as far as it meets the box.
func (r region) read(ctx context.Context, index []int64) error {
	s, memory := r.array.scratch(), codec.GetScratch()
	defer s.Release()
	defer memory.Release()
	return r.array.pieces(ctx, index, r.box, func(p piece) error {
		part, _ := p.box.Intersect(r.box)
		if p.enc == nil {
			p.box = part
		}
		start, run := part.From(r.box.At).Run(r.box.Extent)
		if run && slices.Equal(part.Extent, p.box.Extent) {
			return r.decode(s, p, r.data[start*r.width():][:grid.Size(part.Extent)*r.width()])
		}
		n, err := grid.Bytes(p.box.Extent, r.width())
		if err == nil {
			err = arrowbuf.CheckRoom(n) // a chunk may be much larger than the array
		}
		if err != nil {
			return err
		}
		memory.Reset()
		raw := memory.Bytes(n)
		if err := r.decode(s, p, raw); err != nil {
			return err
		}
		grid.Copy(r.data, r.box.Extent, part.From(r.box.At).At,
			raw, p.box.Extent, part.From(p.box.At).At, part.Extent, r.width())
		return nil
	})
}

// decode fills dst with a whole piece, or with any number of fill values.
func (r region) decode(s *codec.Scratch, p piece, dst []byte) error {
	if p.enc == nil {
		grid.Fill(dst, r.array.chain.Fill())
		return nil
	}
	return p.chain.DecodeFixed(s, dst, p.enc)
}

func (r region) width() int64 { return r.array.dataType.Size() }

// readVLen decodes the chunks and then packs their strings in the array's
// order.
func (a *Array) readVLen(ctx context.Context, box grid.Box, jobs int) (element.Values, error) {
	headers, err := grid.Bytes(box.Extent, 24) // of slices
	if err == nil {
		err = arrowbuf.CheckRoom(headers)
	}
	if err != nil {
		return nil, err
	}
	all := slices.Repeat([][]byte{a.chain.Fill()}, int(grid.Size(box.Extent)))
	err = each(ctx, jobs, box.Indices(a.chunkShape), func(ctx context.Context, index []int64) error {
		s := a.scratch()
		defer s.Release()
		return a.pieces(ctx, index, box, func(p piece) error {
			if p.enc == nil {
				return nil
			}
			v, err := p.chain.DecodeVLen(s, p.enc)
			if err != nil {
				return err
			}
			part, _ := p.box.Intersect(box)
			grid.Copy(all, box.Extent, part.From(box.At).At, v.Elements(), p.box.Extent, part.From(p.box.At).At, part.Extent, 1)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return element.Strings(all, box.Extent...)
}

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

func negative(at []int64) []int64 {
	out := make([]int64, len(at))
	for i, n := range at {
		out[i] = -n
	}
	return out
}

// each calls f for what a sequence yields, in jobs goroutines.
func each[T any](ctx context.Context, jobs int, items func(func(T) bool), f func(context.Context, T) error) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(jobs)
	for item := range items {
		if groupCtx.Err() != nil {
			break
		}
		group.Go(func() error { return f(groupCtx, item) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}
