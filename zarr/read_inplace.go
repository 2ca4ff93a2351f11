package zarr

import (
	"context"
	"slices"
	"sync"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// Chunks that are their elements need no batches: goroutines read files into few staging
// buffers, from which the GPU copies to the places of the chunks at the same time. So the
// link is busy from the first MiB on, and pinned memory stays in the processor's cache.

// inPlaceChunk is a chunk that is read to its place. Several goroutines may read parts.
type inPlaceChunk struct {
	deviceChunk

	mu      sync.Mutex
	version string // of the value, as its first part has it
	parts   int
	missing bool // the chunk is not stored
	unsure  bool // not all parts are known to be right, so the chunk must be read again
}

// readsInPlace reports whether some chunks may be read to their places: those of the first
// cell are their elements, and reading a part takes no round trip.
func (d *deviceRead) readsInPlace() bool {
	if store.AsRangeReader(d.array.store) == nil {
		return false
	}
	for c := range d.chunks {
		return c.chain != nil && c.chain.DecodesInPlace()
	}
	return false
}

// readInPlace reads the chunks that it can read to their places, and returns the others.
func (d *deviceRead) readInPlace(ctx context.Context) (rest []deviceChunk, err error) {
	buf, ok := arrowbuf.As[*cudabuf.Buffer](d.nd.Buffer())
	if !ok {
		return nil, arrowbuf.ErrDevice
	}
	all := slices.Collect(d.chunks)
	chunks := make([]inPlaceChunk, 0, len(all)) // does not grow, since ranges refer to its elements
	ranges := make([]arrowbuf.ReadRange, 0, len(all))
	for _, c := range all {
		at, whole := d.place(c)
		if c.chain == nil || !whole || !c.chain.DecodesInPlace() {
			rest = append(rest, c)
			continue
		}
		chunks = append(chunks, inPlaceChunk{deviceChunk: c})
		p := &chunks[len(chunks)-1]
		ranges = append(ranges, arrowbuf.ReadRange{Pos: at, Length: c.size, Read: func(dst []byte, offset int64) error {
			d.readPart(ctx, p, dst, offset)
			return ctx.Err()
		}})
	}
	if err := buf.CopyRangesFromReaders(ranges, 0); err != nil {
		return nil, err
	}
	for i := range chunks {
		c := &chunks[i]
		switch {
		case c.unsure:
			rest = append(rest, c.deviceChunk)
		case c.missing:
			if err := d.fill(c.deviceChunk); err != nil {
				return nil, c.wrap(err)
			}
		default:
			c.chain.CountInPlace(d.array.Stats)
		}
	}
	return rest, nil
}

// readPart reads a part of a chunk. What goes wrong makes the chunk unsure: reading it
// again has the error.
func (d *deviceRead) readPart(ctx context.Context, c *inPlaceChunk, dst []byte, offset int64) {
	a, n := d.array, int64(len(dst))
	key := a.chunkKey(c.cell)
	whole := n == c.size
	var data []byte
	var version string
	var err error
	switch {
	case c.inner == nil:
		var part store.Part
		part, err = store.AsRangeReader(a.store).ReadRange(ctx, key, store.Between(offset, offset+n), dst)
		if data, err = a.required(stored(part.Data, err)); err == nil && data != nil && part.Size != c.size {
			data = []byte{} // of a chunk that is corrupt
		}
		version = part.Version
	case whole:
		chain, chainErr := a.chainFor(c.cell)
		if chainErr != nil {
			err = chainErr
			break
		}
		layout, _ := chain.ShardLayout()
		data, err = a.readInner(ctx, layout, key, c.inner, extent{0, n, n}, dst)
	default: // parts of chunks in shards are not known to be of one version
		data = []byte{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil || data != nil && (int64(len(data)) != n || &data[0] != &dst[0]):
		c.unsure = true
	case data == nil:
		c.missing = true
		c.unsure = c.unsure || !whole
	case !whole && (version == "" || c.parts > 0 && version != c.version):
		c.unsure = true
	}
	c.version = version
	c.parts++
}
