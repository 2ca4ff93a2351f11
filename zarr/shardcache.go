package zarr

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// maxCachedIndices bounds the shard indices that an array caches, in bytes.
const maxCachedIndices = 16 << 20

// shardCache holds the shard indices that were read last. The zero value is ready to
// use.
//
// A reader fetches an index and then chunks at its offsets, so the shard must not be
// replaced between the two: readers share a lock with the writers of the shard.
type shardCache struct {
	replacing keyedRWMutex

	mu      sync.Mutex
	entries map[string]*list.Element // of *cachedIndex
	recent  list.List                // the most recently used first
	bytes   int64
}

type cachedIndex struct {
	key     string
	index   *codec.ShardIndex
	version string // of the shard; empty if the store has none
	bytes   int64
}

// replace calls a function that replaces or deletes a shard, and forgets its index.
func (c *shardCache) replace(key string, f func() error) error {
	defer c.replacing.lock(key)()
	defer c.forget(key)
	return f()
}

// get returns an index, or nil if it is not cached.
func (c *shardCache) get(key string) *cachedIndex {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	if !ok {
		return nil
	}
	c.recent.MoveToFront(e)
	return e.Value.(*cachedIndex)
}

// put caches an index. The caller holds the shard's lock for reading.
func (c *shardCache) put(x *cachedIndex) {
	if x.bytes > maxCachedIndices {
		return
	}
	key, bytes := x.key, x.bytes
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetLocked(key)
	if c.entries == nil {
		c.entries = map[string]*list.Element{}
	}
	c.entries[key] = c.recent.PushFront(x)
	for c.bytes += bytes; c.bytes > maxCachedIndices; {
		c.forgetLocked(c.recent.Back().Value.(*cachedIndex).key)
	}
}

func (c *shardCache) forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetLocked(key)
}

func (c *shardCache) forgetLocked(key string) {
	if e, ok := c.entries[key]; ok {
		c.bytes -= c.recent.Remove(e).(*cachedIndex).bytes
		delete(c.entries, key)
	}
}

func (c *shardCache) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries, c.bytes = nil, 0
	c.recent.Init()
}

// A cached index may be stale, since another program may replace the shard. Chunks that
// were read by one count only if the shard was the same: its version was that of the
// index or, if the store has no versions, the cached index is the same after the chunks were
// read. A chunk of another shard with the same index is a right chunk, too.

// visitShard calls f with the encoded inner chunks of a shard, by their number in inner.
// The data of a chunk that is not stored is nil; other data is valid until f returns.
func (a *Array) visitShard(ctx context.Context, layout *codec.ShardLayout, shard []int64, inner [][]int64, f func(i int, data []byte) error) error {
	if err := a.visitInner(ctx, layout, a.chunkKey(shard), inner, f); err != nil {
		return fmt.Errorf("shard %v: %w", shard, err)
	}
	return nil
}

func (a *Array) visitInner(ctx context.Context, layout *codec.ShardLayout, key string, inner [][]int64, f func(i int, data []byte) error) error {
	var chunks [][]byte
	var buf []byte
	split := store.AsRangeReader(a.store) != nil
	if !split {
		var err error
		if chunks, err = a.fetchInner(ctx, layout, key, inner); err != nil {
			return err
		}
	}
	for i, at := range inner {
		var data []byte
		var err error
		if !split {
			data = chunks[i]
		} else if data, err = a.readInner(ctx, layout, key, at, extent{}, buf); err != nil {
			return err
		} else if cap(data) > cap(buf) {
			buf = data
		}
		if err := f(i, data); err != nil {
			return fmt.Errorf("chunk %v: %w", at, err)
		}
	}
	return nil
}

// maxReplaced is how often a read begins again because the shard was replaced meanwhile.
const maxReplaced = 8

var errReplaced = errors.New("shard was replaced while it was read")

// readInner reads an extent of an encoded inner chunk into dst[:0] if that has the
// capacity. The store must be a store.RangeReader. The result is nil if the chunk is not
// stored.
func (a *Array) readInner(ctx context.Context, layout *codec.ShardLayout, key string, inner []int64, want extent, dst []byte) ([]byte, error) {
	for range maxReplaced {
		data, err := a.tryInner(ctx, layout, key, inner, want, dst)
		if !errors.Is(err, errReplaced) {
			return data, err
		}
		a.shards.forget(key)
	}
	return nil, errReplaced
}

// tryInner returns errReplaced if the shard changed after its index was read.
func (a *Array) tryInner(ctx context.Context, layout *codec.ShardLayout, key string, inner []int64, want extent, dst []byte) ([]byte, error) {
	defer a.shards.replacing.rLock(key)()
	where, cached, err := a.shardIndex(ctx, layout, key)
	if err != nil || where == nil {
		return a.required(nil, err)
	}
	offset, length, ok := where.index.Get(inner)
	if !ok && !cached {
		return nil, nil
	}
	from, n := offset, length // no bytes of a chunk that is not stored
	if ok && want.size > 0 && length == want.size {
		from, n = offset+want.from, want.n
	}
	part, err := store.AsRangeReader(a.store).ReadRange(ctx, key, store.Between(from, from+n), dst)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, errReplaced
	case err != nil:
		return nil, err
	case part.Version == "" || part.Version != where.version:
		same, err := a.isCurrent(ctx, layout, key, where, part.Version)
		if err == nil && !same {
			err = errReplaced
		}
		if err != nil {
			return nil, err
		}
	}
	if !ok {
		return nil, nil
	}
	if int64(len(part.Data)) != n {
		return nil, fmt.Errorf("%d bytes, want %d by the index", len(part.Data), n)
	}
	if err := want.check(length); err != nil {
		return nil, err
	}
	return stored(part.Data, nil)
}

// isCurrent reports whether the index of a shard is still the same. version is that of what was
// read by the index, if it is known.
func (a *Array) isCurrent(ctx context.Context, layout *codec.ShardLayout, key string, where *cachedIndex, version string) (bool, error) {
	now, err := a.fetchIndex(ctx, layout, key)
	if err != nil || now == nil || !now.index.Equal(where.index) {
		return false, err
	}
	if version != "" && now.version != "" && version != now.version {
		return false, nil // an index between the two may have been another
	}
	if now.version != "" {
		a.shards.put(now)
	}
	return true, nil
}

// fetchInner reads inner chunks of a shard, nearby ones in one request.
func (a *Array) fetchInner(ctx context.Context, layout *codec.ShardLayout, key string, inner [][]int64) ([][]byte, error) {
	for range maxReplaced {
		chunks, cached, err := a.tryChunks(ctx, layout, key, inner)
		if !errors.Is(err, errReplaced) && (err == nil || !cached || ctx.Err() != nil) {
			return chunks, err
		}
		a.shards.forget(key)
	}
	return nil, errReplaced
}

// tryChunks also reports whether it has used a cached index. It returns errReplaced if
// that was stale.
func (a *Array) tryChunks(ctx context.Context, layout *codec.ShardLayout, key string, inner [][]int64) (chunks [][]byte, cached bool, err error) {
	defer a.shards.replacing.rLock(key)()
	chunks = make([][]byte, len(inner))
	where, cached, err := a.shardIndex(ctx, layout, key)
	if err != nil || where == nil {
		_, err = a.required(nil, err)
		return chunks, cached, err
	}
	var ranges []store.Range
	var found, lengths []int64
	for i, at := range inner {
		if offset, length, ok := where.index.Get(at); ok {
			ranges = append(ranges, store.Between(offset, offset+length))
			found, lengths = append(found, int64(i)), append(lengths, length)
		}
	}
	version := ""
	if len(ranges) > 0 {
		var data [][]byte
		data, version, err = store.GetRangesVersion(ctx, a.store, key, ranges)
		if err != nil {
			return nil, cached, err
		}
		for k, i := range found {
			if int64(len(data[k])) != lengths[k] {
				return nil, cached, fmt.Errorf("chunk %v: %d bytes, want %d by the index", inner[i], len(data[k]), lengths[k])
			}
			chunks[i], _ = stored(data[k], nil)
		}
	}
	switch {
	case version != "" && version == where.version:
		return chunks, cached, nil
	case !cached && (version == "" || where.version == ""):
		return chunks, false, nil // the index was read just before
	}
	same, err := a.isCurrent(ctx, layout, key, where, version)
	if err == nil && !same {
		err = errReplaced
	}
	return chunks, true, err
}

// shardIndex returns the index of a shard, or nil if the shard is not stored.
func (a *Array) shardIndex(ctx context.Context, layout *codec.ShardLayout, key string) (_ *cachedIndex, cached bool, err error) {
	if where := a.shards.get(key); where != nil {
		return where, true, nil
	}
	where, err := a.fetchIndex(ctx, layout, key)
	if err == nil && where != nil {
		a.shards.put(where)
	}
	return where, false, err
}

// fetchIndex reads the index of a shard from the store. It returns nil if the shard is
// not stored.
func (a *Array) fetchIndex(ctx context.Context, layout *codec.ShardLayout, key string) (*cachedIndex, error) {
	at := store.Last(layout.IndexSize())
	if layout.IndexLocation() == codec.Start {
		at = store.Between(0, layout.IndexSize())
	}
	var part store.Part // its version is empty if the store has none
	var err error
	if reader := store.AsRangeReader(a.store); reader != nil {
		part, err = reader.ReadRange(ctx, key, at, nil)
	} else {
		var values [][]byte
		if values, part.Version, err = store.GetRangesVersion(ctx, a.store, key, []store.Range{at}); err == nil {
			part.Data = values[0]
		}
	}
	raw, err := stored(part.Data, err)
	if err != nil || raw == nil {
		return nil, err
	}
	index, err := layout.DecodeIndex(raw)
	if err != nil {
		return nil, err
	}
	return &cachedIndex{key, index, part.Version, 16 * grid.Size(layout.GridShape())}, nil
}

// replaceChunk stores the encoding of a chunk or a shard in pieces of at most some bytes, or
// deletes it if that is nil.
func (a *Array) replaceChunk(ctx context.Context, key string, enc []byte, piece int) error {
	return a.shards.replace(key, func() error {
		if enc == nil {
			return a.store.Delete(ctx, key)
		}
		return a.Trace.store(len(enc), func() error {
			if len(enc) <= piece {
				return a.store.Set(ctx, key, enc)
			}
			w, err := store.Create(ctx, a.store, key)
			if err != nil {
				return err
			}
			if err := writePieces(w, enc, piece); err != nil {
				return errors.Join(err, w.Abort())
			}
			return w.Commit()
		})
	})
}
