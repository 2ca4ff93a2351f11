package zarr

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// Read returns the whole array. Fixed-width elements are an ndview.NDBuffer allocated
// from to; strings are an element.VLen on the host. Chunks that are not stored have the
// fill value. Read uses jobs goroutines, or as many as the processors keep busy if jobs is
// not positive: GOMAXPROCS, and two more on the host. If reading from the store takes a round
// trip, there are more: up to 64, as long as their chunks have at most 512 MiB, where strings
// count as 16 bytes. The caller must release the result. Errors name the array and the chunk.
func (a *Array) Read(ctx context.Context, to Prototype, jobs int) (element.Values, error) {
	return a.readBox(ctx, to, grid.WholeBox(a.Shape()), jobs)
}

// ReadChunk reads one chunk like [Array.Read], or one whole shard of a sharded array.
// The result always has the shape of the chunk. Elements outside the array have the
// values that were stored, or the fill value.
func (a *Array) ReadChunk(ctx context.Context, to Prototype, index []int64) (element.Values, error) {
	if err := a.checkIndex(index); err != nil {
		return nil, err
	}
	return a.readBox(ctx, to, a.chunkGrid().Box(index), 1)
}

// ReadRows reads elements [start, stop) along the first axis like [Array.Read]. From
// shards it fetches only the chunks that it needs.
func (a *Array) ReadRows(ctx context.Context, to Prototype, start, stop int64, jobs int) (element.Values, error) {
	box := grid.WholeBox(slices.Clone(a.Shape()))
	if len(box.Shape) == 0 || start < 0 || stop < start || stop > box.Shape[0] {
		return nil, fmt.Errorf("array %q: rows [%d, %d) are outside shape %v", a.path, start, stop, box.Shape)
	}
	box.Origin[0], box.Shape[0] = start, stop-start
	return a.readBox(ctx, to, box, jobs)
}

func (a *Array) readBox(ctx context.Context, to Prototype, box grid.Box, jobs int) (element.Values, error) {
	var values element.Values
	var err error
	if a.dataType.IsVLen() {
		values, err = a.readVLen(ctx, box, a.goroutines(jobs, waiting, a.chunkBytes()))
	} else {
		values, err = a.readFixed(ctx, to, box, jobs)
	}
	if err != nil {
		return nil, fmt.Errorf("array %q: %w", a.path, err)
	}
	return values, nil
}

// readFixed allocates the result and reads the box into it.
func (a *Array) readFixed(ctx context.Context, to Prototype, box grid.Box, jobs int) (element.Values, error) {
	dtype, _ := a.dataType.DType()
	if _, err := grid.ByteSize(box.Shape, dtype.Size()); err != nil {
		return nil, err
	}
	nd, err := to.NDBuffer(dtype, box.Shape...)
	if err != nil {
		return nil, err
	}
	if err := a.readBoxInto(ctx, nd, box, jobs); err != nil {
		nd.Release()
		return nil, err
	}
	return nd, nil
}

// readBoxInto reads a box into a contiguous array with as many elements. It decodes
// directly into the array if the host can address it. A GPU decodes chunks that it has
// kernels for. Otherwise it decodes one row of chunks at a time into host memory: a row
// is contiguous in the result and needs one copy.
func (a *Array) readBoxInto(ctx context.Context, nd *ndview.NDBuffer, box grid.Box, jobs int) error {
	chunk := a.bytesToRead(nd.NBytes())
	if host, ok := nd.HostBytes(); ok {
		to := region{a, host, box}
		return forEachParallel(ctx, a.goroutines(jobs, waiting, chunk), to.units, to.readUnit)
	}
	device, err := a.newDeviceRead(nd, box)
	if err != nil {
		return err
	}
	if device != nil {
		defer device.nd.Release()
		return device.read(ctx, a.goroutines(jobs, 0, chunk))
	}
	return forEachParallel(ctx, parallelism(jobs), rowBands(box, a.chunkGrid()), func(ctx context.Context, band grid.Box) error {
		return a.readBand(ctx, nd, box, band)
	})
}

// readBand reads the band of a device array that one row of chunks covers.
func (a *Array) readBand(ctx context.Context, nd *ndview.NDBuffer, box, band grid.Box) error {
	width := nd.DType().Size()
	s := a.scratch()
	defer s.Release()
	host, err := s.HostBytes(nd.Device(), grid.Size(band.Shape)*width)
	if err != nil {
		return err
	}
	rows := region{a, host, band}
	for u := range rows.units {
		if err := rows.readUnit(ctx, u); err != nil {
			return err
		}
	}
	start, _ := band.RelativeTo(box.Origin).ContiguousRange(box.Shape)
	_, err = nd.Buffer().CopyFromHost(rows.data, nd.Offset()+start*width)
	return err
}

// rowBands splits a box along its first axis at chunk boundaries.
func rowBands(box grid.Box, g grid.Grid) func(func(grid.Box) bool) {
	return func(yield func(grid.Box) bool) {
		if len(g) == 0 {
			yield(box)
			return
		}
		first := grid.Box{Origin: box.Origin[:1], Shape: box.Shape[:1]}
		for index := range g[:1].Chunks(first) {
			part, _ := g[:1].Box(index).Intersect(first)
			if !yield(grid.Box{Origin: append(part.Origin, box.Origin[1:]...), Shape: append(part.Shape, box.Shape[1:]...)}) {
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

// unit is what one goroutine reads at a time: a chunk, a shard, or an inner chunk of one.
type unit struct {
	cell  []int64
	inner []int64 // nil for all chunks of the cell in the box
}

// wrap adds the index of the unit to an error.
func (u unit) wrap(err error) error {
	if u.inner != nil {
		return fmt.Errorf("shard %v: chunk %v: %w", u.cell, u.inner, err)
	}
	return fmt.Errorf("chunk %v: %w", u.cell, err)
}

// units yields the units of the box. Shards are split if reading a chunk takes no round
// trip.
func (r region) units(yield func(unit) bool) {
	a := r.array
	split := store.AsRangeReader(a.store) != nil
	for cell := range a.chunkGrid().Chunks(r.box) {
		layout, sharded := (*codec.ShardLayout)(nil), false
		if split {
			if chain, err := a.chainFor(cell); err == nil { // otherwise readUnit returns the error
				layout, sharded = chain.ShardLayout()
			}
		}
		if !sharded {
			if !yield(unit{cell: cell}) {
				return
			}
			continue
		}
		whole := a.chunkGrid().Box(cell)
		part, _ := whole.Intersect(r.box)
		for inner := range part.RelativeTo(whole.Origin).ChunkIndices(layout.ChunkShape()) {
			if !yield(unit{cell, inner}) {
				return
			}
		}
	}
}

// readUnit decodes the part of a unit that is in the box.
func (r region) readUnit(ctx context.Context, u unit) error {
	a := r.array
	chain, err := a.chainFor(u.cell)
	if err != nil {
		return err
	}
	whole, key := a.chunkGrid().Box(u.cell), a.chunkKey(u.cell)
	layout, sharded := chain.ShardLayout()
	switch {
	case u.inner != nil:
		box := grid.ChunkBox(u.inner, layout.ChunkShape()).RelativeTo(negate(whole.Origin))
		err = r.readInto(ctx, u, key, layout.ChunkChain(), box, func(want extent, dst []byte) ([]byte, bool, error) {
			data, err := a.readInner(ctx, layout, key, u.inner, want, dst)
			return data, true, err
		})
	case sharded && !r.box.Contains(whole):
		return a.visitChunks(ctx, u.cell, r.box, func(p encodedChunk) error { return r.decode(p.chain, p.box, p.data) })
	default:
		err = r.readInto(ctx, u, key, chain, whole, func(want extent, dst []byte) ([]byte, bool, error) {
			return a.readValue(ctx, key, want, dst)
		})
	}
	if err != nil {
		return u.wrap(err)
	}
	return nil
}

// extent is n bytes from an offset in an encoded chunk of a size. The zero extent is all
// of a chunk of any size.
type extent struct{ from, n, size int64 }

// check returns an error unless a chunk has the size that the extent is for.
func (e extent) check(size int64) error {
	if e.size > 0 && size != e.size {
		return fmt.Errorf("chunk of %d bytes, want %d", size, e.size)
	}
	return nil
}

// fetchFunc reads an extent of an encoded chunk into dst[:0], if that has the capacity.
// The data is nil if the chunk is not stored. It belongs to the caller if owned is true.
type fetchFunc func(want extent, dst []byte) (data []byte, owned bool, err error)

// encodings holds memory for encoded chunks, as *[]byte.
var encodings = sync.Pool{New: func() any { return new([]byte) }}

// fetchAll reads an encoded chunk into buf, which it grows if needed.
func fetchAll(fetch fetchFunc, buf *[]byte) (data []byte, owned bool, err error) {
	data, owned, err = fetch(extent{}, (*buf)[:0])
	if err == nil && owned && cap(data) > cap(*buf) {
		*buf = data
	}
	return data, owned, err
}

// readInto reads the chunk of a unit and decodes its part in the region. Of a chunk that
// is stored as it is in memory it reads only the part, to its final place.
func (r region) readInto(ctx context.Context, u unit, key string, chain *codec.Chain, box grid.Box, fetch fetchFunc) error {
	part, ok := box.Intersect(r.box)
	if !ok {
		return nil
	}
	if cached, err := r.readCached(ctx, u, key, chain, box, fetch); cached || err != nil {
		return err
	}
	plain := chain.IsPlain()
	if plain {
		size, err := grid.ByteSize(box.Shape, r.width())
		if err != nil {
			return err
		}
		start, run := part.RelativeTo(r.box.Origin).ContiguousRange(r.box.Shape)
		from, stored := part.RelativeTo(box.Origin).ContiguousRange(box.Shape)
		if run && stored {
			n := grid.Size(part.Shape) * r.width()
			dst := r.data[start*r.width():][:n:n]
			data, _, err := fetch(extent{from * r.width(), n, size}, dst)
			if err != nil {
				return err
			}
			if data == nil {
				grid.Fill(dst, r.array.chain.Fill())
				return nil
			}
			return chain.DecodePlain(dst, data)
		}
	}
	buf := encodings.Get().(*[]byte)
	defer encodings.Put(buf)
	data, owned, err := fetchAll(fetch, buf)
	if err != nil {
		return err
	}
	if plain && owned && int64(len(data)) == grid.Size(box.Shape)*r.width() {
		if err := chain.DecodePlain(data, data); err != nil {
			return err
		}
		r.copyPart(part, data, box)
		return nil
	}
	return r.decode(chain, box, data)
}

// decode decodes a chunk, as far as needed, and copies its part in the region. If the chunk is
// not stored, the part has the fill value.
func (r region) decode(chain *codec.Chain, box grid.Box, data []byte) error {
	part, _ := box.Intersect(r.box)
	decoded := part // what raw has
	if data != nil {
		decoded = decodedBox(chain, part.RelativeTo(box.Origin), box.Shape).RelativeTo(negate(box.Origin))
	}
	s, memory := r.array.scratch(), codec.GetScratch()
	defer s.Release()
	defer memory.Release()
	n, err := grid.ByteSize(decoded.Shape, r.width())
	if err != nil {
		return err
	}
	start, run := part.RelativeTo(r.box.Origin).ContiguousRange(r.box.Shape)
	inPlace := run && slices.Equal(part.Shape, decoded.Shape)
	var raw []byte
	if inPlace {
		raw = r.data[start*r.width():][:n]
	} else {
		if err := arrowbuf.CheckHostMemory(n); err != nil { // a chunk may be much larger than its array
			return err
		}
		raw = memory.Bytes(n)
	}
	if data == nil {
		grid.Fill(raw, r.array.chain.Fill())
	} else if err := decodeBox(s, chain, raw, data, decoded.RelativeTo(box.Origin), box.Shape); err != nil {
		return err
	}
	if !inPlace {
		r.copyPart(part, raw, decoded)
	}
	return nil
}

// decodedBox returns the box of a chunk of the given shape that is decoded to read a part of
// it: the least contiguous range of elements, if the codecs need not decode more.
func decodedBox(chain *codec.Chain, part grid.Box, shape []int64) grid.Box {
	if chain.DecodesRanges() {
		return part.Enclosing(shape)
	}
	return grid.WholeBox(shape)
}

// decodeBox decodes a box of a chunk that decodedBox returned.
func decodeBox(s *codec.Scratch, chain *codec.Chain, dst, data []byte, box grid.Box, shape []int64) error {
	if box.Covers(shape) {
		return chain.DecodeFixed(s, dst, data)
	}
	width := int64(len(dst)) / grid.Size(box.Shape)
	n, err := grid.ByteSize(shape, width)
	if err == nil {
		err = arrowbuf.CheckHostMemory(n) // some encodings are decoded whole anyway
	}
	if err != nil {
		return err
	}
	from, _ := box.ContiguousRange(shape)
	return chain.DecodeRange(s, dst, data, from*width)
}

// copyPart copies a part of a box of decoded elements to its place.
func (r region) copyPart(part grid.Box, raw []byte, box grid.Box) {
	grid.Copy(r.data, r.box.Shape, part.RelativeTo(r.box.Origin).Origin,
		raw, box.Shape, part.RelativeTo(box.Origin).Origin, part.Shape, r.width())
}

func (r region) width() int64 { return r.array.dataType.Size() }

// readVLen decodes all chunks, then packs their strings in the order of the array.
func (a *Array) readVLen(ctx context.Context, box grid.Box, jobs int) (element.Values, error) {
	headers, err := grid.ByteSize(box.Shape, 24) // the size of a slice header
	if err == nil {
		err = arrowbuf.CheckHostMemory(headers)
	}
	if err != nil {
		return nil, err
	}
	all := slices.Repeat([][]byte{a.chain.Fill()}, int(grid.Size(box.Shape)))
	err = forEachParallel(ctx, jobs, a.chunkGrid().Chunks(box), func(ctx context.Context, index []int64) error {
		s := a.scratch()
		defer s.Release()
		return a.visitChunks(ctx, index, box, func(p encodedChunk) error {
			if p.data == nil {
				return nil
			}
			v, err := p.chain.DecodeVLen(s, p.data)
			if err != nil {
				return err
			}
			part, _ := p.box.Intersect(box)
			grid.Copy(all, box.Shape, part.RelativeTo(box.Origin).Origin, v.Elements(), p.box.Shape, part.RelativeTo(p.box.Origin).Origin, part.Shape, 1)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return element.PackVLen(all, box.Shape...)
}

func negate(at []int64) []int64 {
	out := make([]int64, len(at))
	for i, n := range at {
		out[i] = -n
	}
	return out
}
