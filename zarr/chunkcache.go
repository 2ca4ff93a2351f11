package zarr

import (
	"container/list"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// chunkCache holds decoded chunks that were read in part, the most recently used first.
// The zero value is ready to use.
type chunkCache struct {
	mu      sync.Mutex
	entries map[string]*list.Element // of *cachedChunk
	recent  list.List
	bytes   int64
}

type cachedChunk struct {
	id      string
	version string // of the value that has the chunk
	data    []byte // the first elements, or all; immutable; nil if the chunk is not stored
}

func (c *chunkCache) get(id string) *cachedChunk {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[id]
	if !ok {
		return nil
	}
	c.recent.MoveToFront(e)
	return e.Value.(*cachedChunk)
}

// put adds a chunk and drops the least recently used ones beyond the limit.
func (c *chunkCache) put(x *cachedChunk, limit int64) {
	if x.size() > limit {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.entries[x.id]; ok {
		c.remove(old)
	}
	if c.entries == nil {
		c.entries = map[string]*list.Element{}
	}
	c.entries[x.id] = c.recent.PushFront(x)
	for c.bytes += x.size(); c.bytes > limit; {
		c.remove(c.recent.Back())
	}
}

func (c *chunkCache) remove(e *list.Element) {
	x := c.recent.Remove(e).(*cachedChunk)
	delete(c.entries, x.id)
	c.bytes -= x.size()
}

func (c *chunkCache) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries, c.bytes = nil, 0
	c.recent.Init()
}

// size counts the chunk and what refers to it.
func (x *cachedChunk) size() int64 { return int64(len(x.data)+len(x.id)) + 200 }

// version returns the version of a stored value, or an empty string if it has none.
func (a *Array) version(ctx context.Context, key string) (string, error) {
	reader := store.AsRangeReader(a.store)
	if reader == nil {
		return "", nil
	}
	part, err := reader.ReadRange(ctx, key, store.Between(0, 0), nil)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	return part.Version, err
}

// readCached copies a part of a chunk from the cache, which it fills first if needed. It
// returns false if the chunk must be read otherwise: it is needed whole, is read in place,
// or is in a value without a version.
func (r region) readCached(ctx context.Context, u unit, key string, chain *codec.Chain, box grid.Box, fetch fetchFunc) (bool, error) {
	a := r.array
	part, ok := box.Intersect(r.box)
	if a.ChunkCache <= 0 || !ok || chain.IsPlain() || slices.Equal(part.Shape, box.Shape) {
		return false, nil
	}
	n, err := grid.ByteSize(box.Shape, r.width())
	if err != nil || n > a.ChunkCache || n == 0 {
		return false, err
	}
	version, err := a.version(ctx, key)
	if version == "" || err != nil {
		return false, err
	}
	id := chunkID(key, u.inner)
	chunk := a.chunks.get(id)
	if chunk != nil && chunk.version != version {
		chunk = nil
	}
	end := r.endOf(part, box, n)
	if chunk == nil || chunk.data != nil && int64(len(chunk.data)) < end {
		if chunk != nil || !chain.DecodesRanges() {
			end = n // so that reads one after the other decode a chunk twice at most
		}
		if err := arrowbuf.CheckHostMemory(end); err != nil {
			return false, err
		}
		buf := encodings.Get().(*[]byte)
		defer encodings.Put(buf)
		data, _, err := fetchAll(fetch, buf)
		if err != nil {
			return false, err
		}
		chunk = &cachedChunk{id: id, version: version}
		if data != nil {
			chunk.data = make([]byte, end)
			if err := r.decodeFirst(chain, chunk.data, data, n); err != nil {
				return false, err
			}
		}
		// The chunk is of the version if that was the same before and after.
		if after, err := a.version(ctx, key); err != nil || after != version {
			return false, err
		}
		a.chunks.put(chunk, a.ChunkCache)
	}
	if chunk.data == nil {
		return true, r.decode(chain, box, nil)
	}
	r.copyPart(part, chunk.data, box)
	return true, nil
}

// firstRead is the size in bytes of which a multiple is decoded for the first read of a part
// of a chunk: that of a block of Zstandard, which is decoded whole anyway.
const firstRead = 128 << 10

// endOf returns how many of the n bytes of a chunk are decoded at least to read a part of it:
// those up to the end of the part, and some more.
func (r region) endOf(part, box grid.Box, n int64) int64 {
	enclosing := part.RelativeTo(box.Origin).Enclosing(box.Shape)
	first, _ := enclosing.ContiguousRange(box.Shape)
	step := max(firstRead/r.width(), 1) * r.width()
	end := (first + grid.Size(enclosing.Shape)) * r.width()
	return min(n, (end+step-1)/step*step)
}

// decodeFirst fills dst with the first of the n bytes of a chunk.
func (r region) decodeFirst(chain *codec.Chain, dst, data []byte, n int64) error {
	s := r.array.scratch()
	defer s.Release()
	if int64(len(dst)) == n {
		return chain.DecodeFixed(s, dst, data)
	}
	return chain.DecodeRange(s, dst, data, 0)
}

// chunkID names an inner chunk of a shard, or the chunk that is a whole value.
func chunkID(key string, inner []int64) string {
	id := append([]byte(key), 0)
	for _, i := range inner {
		for range 8 {
			id = append(id, byte(i))
			i >>= 8
		}
	}
	return string(id)
}
