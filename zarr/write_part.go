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
	"github.com/quiver-gpu/quiver/zarr/internal/index"
)

// source is values on the host in C order, from which parts of chunks are written.
type source struct {
	raw     []byte   // elements of fixed width
	strings [][]byte // otherwise
	shape   []int64
	// scalar means that the only element goes to all positions.
	scalar bool
	// field, if not nil, is the part of each element that the source has.
	field *recordField
}

// hostSource returns values as a source. Elements of a device are copied into s.
func (a *Array) hostSource(s *codec.Scratch, v element.Values) (source, error) {
	switch v := v.(type) {
	case *element.VLen:
		return source{strings: v.Elements(), shape: v.Shape()}, nil
	case *ndview.NDBuffer:
		if raw, ok := v.HostBytes(); ok {
			return source{raw: raw, shape: v.Shape()}, nil
		}
		raw, err := s.HostBytes(v.Device(), v.NBytes())
		if err == nil {
			err = v.CopyToHost(raw)
		}
		return source{raw: raw, shape: v.Shape()}, err
	default:
		return source{}, fmt.Errorf("values of Go type %T, want %s", v, a.dataType)
	}
}

// patch writes a part of a source into a region of the array.
func (src source) patch(part index.Part, region []byte, shape []int64, width int64) {
	if src.scalar {
		part = part.Broadcast()
	}
	if src.field == nil {
		index.Scatter(part, region, shape, src.raw, src.shape, width)
		return
	}
	values := src.field.extract(slices.Clone(region), width)
	index.Scatter(part, values, shape, src.raw, src.shape, src.field.size)
	src.field.insert(region, values, width)
}

func (src source) patchStrings(part index.Part, region [][]byte, shape []int64) {
	if src.scalar {
		part = part.Broadcast()
	}
	index.Scatter(part, region, shape, src.strings, src.shape, 1)
}

// writePart stores the part of a source that lies in one chunk or shard. It reads what
// the part does not replace.
func (a *Array) writePart(ctx context.Context, cell []int64, part index.Part, src source, jobs int) error {
	if err := a.checkWritable(); err != nil {
		return err
	}
	chain, err := a.chainFor(cell)
	if err != nil {
		return err
	}
	key := a.chunkKey(cell)
	unlock, err := a.writing.lock(ctx, key)
	if err != nil {
		return err
	}
	defer unlock()
	if layout, ok := chain.ShardLayout(); ok {
		err = a.patchShard(ctx, cell, layout, part, src, jobs)
	} else {
		err = a.patchChunk(ctx, cell, chain, part, src)
	}
	if err != nil {
		return fmt.Errorf("array %q: chunk %v: %w", a.path, cell, err)
	}
	return nil
}

func (a *Array) patchChunk(ctx context.Context, cell []int64, chain *codec.Chain, part index.Part, src source) error {
	box := a.chunkGrid().Box(cell)
	var old []byte
	if src.field != nil || !a.replacesAll(box, part) {
		var err error
		if old, err = a.fetch(ctx, cell); err != nil {
			return err
		}
	}
	s, memory := a.scratch(), codec.GetScratch()
	defer s.Release()
	defer memory.Release()
	enc, err := a.encodePatched(s, memory, chain, box, old, part, src)
	if err != nil {
		return err
	}
	return a.replaceChunk(ctx, a.chunkKey(cell), enc, a.pieceSize(chain))
}

// replacesAll reports whether a part has every element of a box that is in the array.
func (a *Array) replacesAll(box grid.Box, part index.Part) bool {
	inside, ok := box.Intersect(grid.WholeBox(a.Shape()))
	return ok && part.Covers(inside.Shape)
}

// encodePatched decodes the chunk of a box of the array, writes a part into it and encodes
// it. A nil chunk has fill values. The result is in s or in memory.
func (a *Array) encodePatched(s, memory *codec.Scratch, chain *codec.Chain, box grid.Box, old []byte, part index.Part, src source) ([]byte, error) {
	shape := box.Shape
	if a.dataType.IsVLen() {
		v, err := patchedStrings(s, chain, shape, old, part, src)
		if err != nil {
			return nil, err
		}
		return a.Trace.encode(chain, s, v)
	}
	n, err := grid.ByteSize(shape, a.dataType.Size())
	if err == nil {
		err = arrowbuf.CheckHostMemory(n) // a chunk may be much larger than its array
	}
	if err != nil {
		return nil, err
	}
	raw := memory.Bytes(n)
	if old == nil {
		grid.Fill(raw, chain.Fill())
	} else if err := chain.DecodeFixed(s, raw, old); err != nil {
		return nil, err
	}
	src.patch(part, raw, shape, a.dataType.Size())
	dtype, _ := a.dataType.DType()
	v, err := wrapHost(dtype, raw, shape)
	if err != nil {
		return nil, err
	}
	defer v.Release()
	if old != nil || chain.EncodesFill() {
		return a.Trace.encode(chain, s, v)
	}
	inside, err := v.Index(a.keysInside(box)...)
	if err != nil {
		return nil, err
	}
	defer inside.Release()
	return a.Trace.encode(chain, s, inside)
}

// keysInside returns the keys of the elements of a box that are in the array.
func (a *Array) keysInside(box grid.Box) []ndview.Key {
	var keys []ndview.Key
	for axis, extent := range a.Shape() {
		keys = append(keys, ndview.Span(0, min(box.Shape[axis], extent-box.Origin[axis])))
	}
	return keys
}

// wrapHost returns an array over host memory, without a copy.
func wrapHost(dtype ndview.DType, raw []byte, shape []int64) (*ndview.NDBuffer, error) {
	memory := arrowbuf.WrapExternal(raw, func() {})
	defer memory.Release()
	return ndview.FromBuffer(memory, dtype, 0, shape, nil)
}

func patchedStrings(s *codec.Scratch, chain *codec.Chain, shape []int64, old []byte, part index.Part, src source) (*element.VLen, error) {
	headers, err := grid.ByteSize(shape, 24) // the size of a slice header
	if err == nil {
		err = arrowbuf.CheckHostMemory(headers)
	}
	if err != nil {
		return nil, err
	}
	var all [][]byte
	if old == nil {
		all = slices.Repeat([][]byte{chain.Fill()}, int(grid.Size(shape)))
	} else {
		v, err := chain.DecodeVLen(s, old)
		if err != nil {
			return nil, err
		}
		all = v.Elements()
	}
	src.patchStrings(part, all, shape)
	return element.PackVLen(all, shape...)
}

// patchShard writes the shard again. The chunks that the part has no elements of are
// copied as they are encoded.
func (a *Array) patchShard(ctx context.Context, cell []int64, layout *codec.ShardLayout, part index.Part, src source, jobs int) error {
	shard := a.chunkGrid().Box(cell)
	within, err := grid.RegularGrid(layout.ChunkShape())
	if err != nil {
		return err
	}
	var old []byte
	if src.field != nil || !a.replacesAll(shard, part) {
		if old, err = a.fetch(ctx, cell); err != nil {
			return err
		}
	}
	stored, err := splitShard(layout, old)
	if err != nil {
		return err
	}
	parts := map[int64]index.Part{} // by the number of the chunk
	for at, p := range part.Split(within) {
		parts[layoutNumber(layout, at)] = p
	}
	w, err := a.NewShardWriter(ctx, cell)
	if err != nil {
		return err
	}
	err = forEachParallel(ctx, max(jobs, 1), grid.Indices(layout.GridShape()), func(ctx context.Context, inner []int64) error {
		number := layoutNumber(layout, inner)
		p, changed := parts[number]
		if !changed {
			return w.addEncoded(ctx, inner, stored[number], wholePiece)
		}
		box := within.Box(inner)
		old := stored[number]
		inArray := box.RelativeTo(negate(shard.Origin))
		if src.field == nil && a.replacesAll(inArray, p) {
			old = nil
		}
		s, memory := a.scratch(), codec.GetScratch()
		defer s.Release()
		defer memory.Release()
		enc, err := a.encodePatched(s, memory, layout.ChunkChain(), inArray, old, p, src)
		if err != nil {
			return fmt.Errorf("chunk %v of the shard: %w", inner, err)
		}
		return w.addEncoded(ctx, inner, enc, a.pieceSize(layout.ChunkChain()))
	})
	if err != nil {
		return errors.Join(err, w.Abort())
	}
	return w.Close(ctx)
}

// splitShard returns the encoded chunks of a shard by number; nil for those that are not
// stored.
func splitShard(layout *codec.ShardLayout, shard []byte) ([][]byte, error) {
	chunks := make([][]byte, grid.Size(layout.GridShape()))
	if shard == nil {
		return chunks, nil
	}
	n := layout.IndexSize()
	if int64(len(shard)) < n {
		return nil, fmt.Errorf("shard of %d bytes is smaller than its index of %d", len(shard), n)
	}
	raw := shard[int64(len(shard))-n:]
	if layout.IndexLocation() == codec.Start {
		raw = shard[:n]
	}
	where, err := layout.DecodeIndex(raw)
	if err != nil {
		return nil, err
	}
	for inner := range grid.Indices(layout.GridShape()) {
		offset, length, ok := where.Get(inner)
		if !ok {
			continue
		}
		if offset > int64(len(shard)) || length > int64(len(shard))-offset {
			return nil, fmt.Errorf("chunk %v of a shard: bytes [%d, +%d) are outside %d bytes", inner, offset, length, len(shard))
		}
		chunks[layoutNumber(layout, inner)] = shard[offset : offset+length : offset+length]
	}
	return chunks, nil
}

// layoutNumber returns the number of an inner chunk in C order.
func layoutNumber(layout *codec.ShardLayout, inner []int64) int64 {
	number := int64(0)
	for i, n := range layout.GridShape() {
		number = number*n + inner[i]
	}
	return number
}
