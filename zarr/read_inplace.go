package zarr

import (
	"context"
	"sync"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// Chunks that are their elements need no batches: goroutines read files into few staging
// buffers, from which the GPU copies to the places of the chunks at the same time. So the
// link is busy from the first MiB on, and pinned memory stays in the processor's cache.

// mostListed is the most chunks for which memory is reserved before they are listed.
const mostListed = 1 << 14

// inPlaceChunk is a chunk that is read to its place. Several goroutines may read parts.
type inPlaceChunk struct {
	deviceChunk

	mu      sync.Mutex
	version string // of the value, as its first part has it
	parts   int
	missing bool // the chunk is not stored
	unsure  bool // not all parts are known to be right, so the chunk must be read again
}

// mayReadInPlace reports whether some chunks may be read to their places: those of the first
// cell are their elements, and reading a part takes no round trip.
func (d *deviceRead) mayReadInPlace() bool {
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
	var chunks []*inPlaceChunk
	var ranges []arrowbuf.ReadRange
	var chain *codec.Chain // of the chunk before, which most chunks share
	var inPlace bool       // what it says
	for c := range d.chunks {
		if chunks == nil {
			n := min(d.nd.NBytes()/max(c.size, 1)+1, mostListed) // if all are as large as the first
			chunks, ranges = make([]*inPlaceChunk, 0, n), make([]arrowbuf.ReadRange, 0, n)
		}
		if c.chain != chain {
			chain = c.chain
			inPlace = chain != nil && chain.DecodesInPlace()
		}
		at, whole := d.place(c)
		if !whole || !inPlace {
			rest = append(rest, c)
			continue
		}
		p := &inPlaceChunk{deviceChunk: c}
		chunks = append(chunks, p)
		ranges = append(ranges, arrowbuf.ReadRange{Pos: at, Length: c.size, Read: func(dst []byte, offset int64) error {
			d.readPart(ctx, p, dst, offset)
			return ctx.Err()
		}})
	}
	if err := buf.CopyRangesFromReaders(ranges, 0); err != nil {
		return nil, err
	}
	for _, c := range chunks {
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
