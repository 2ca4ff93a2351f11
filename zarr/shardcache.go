package zarr

import (
	"container/list"
	"context"
	"fmt"
	"hash/maphash"
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
// replaced between the two: readers share a lock with the writers of the shard. The
// locks are few, since a writer holds one only while the store replaces the value.
type shardCache struct {
	replacing [64]sync.RWMutex

	mu      sync.Mutex
	entries map[string]*list.Element // of *cachedIndex
	recent  list.List                // the most recently used first
	bytes   int64
}

type cachedIndex struct {
	key   string
	index *codec.ShardIndex
	bytes int64
}

var shardSeed = maphash.MakeSeed()

func (c *shardCache) lock(key string) *sync.RWMutex {
	return &c.replacing[maphash.String(shardSeed, key)%uint64(len(c.replacing))]
}

// replace calls a function that replaces or deletes a shard, and forgets its index.
func (c *shardCache) replace(key string, f func() error) error {
	lock := c.lock(key)
	lock.Lock()
	defer lock.Unlock()
	defer c.forget(key)
	return f()
}

func (c *shardCache) get(key string) (*codec.ShardIndex, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	if !ok {
		return nil, false
	}
	c.recent.MoveToFront(e)
	return e.Value.(*cachedIndex).index, true
}

// put caches an index of a size in bytes. The caller holds the shard's lock for reading.
func (c *shardCache) put(key string, index *codec.ShardIndex, bytes int64) {
	if bytes > maxCachedIndices {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetLocked(key)
	if c.entries == nil {
		c.entries = map[string]*list.Element{}
	}
	c.entries[key] = c.recent.PushFront(&cachedIndex{key, index, bytes})
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

// visitShard calls f with the encoded inner chunks of a shard, by their number in inner.
// The data of a chunk that is not stored is nil. If a cached index proves stale, f is
// called again.
func (a *Array) visitShard(ctx context.Context, layout *codec.ShardLayout, shard []int64, inner [][]int64, f func(i int, data []byte) error) error {
	key := a.chunkKey(shard)
	cached, err := a.tryShard(ctx, layout, key, inner, f)
	if err != nil && cached && ctx.Err() == nil {
		a.shards.forget(key) // another program may have replaced the shard
		_, err = a.tryShard(ctx, layout, key, inner, f)
	}
	if err != nil {
		return fmt.Errorf("shard %v: %w", shard, err)
	}
	return nil
}

// tryShard reports whether it has used a cached index.
func (a *Array) tryShard(ctx context.Context, layout *codec.ShardLayout, key string, inner [][]int64, f func(i int, data []byte) error) (cached bool, err error) {
	chunks, cached, err := a.fetchInner(ctx, layout, key, inner)
	if err != nil {
		return cached, err
	}
	for i := range inner {
		if err := f(i, chunks[i]); err != nil {
			return cached, fmt.Errorf("chunk %v: %w", inner[i], err)
		}
	}
	return cached, nil
}

// fetchInner reads inner chunks of a shard, nearby ones in one request.
func (a *Array) fetchInner(ctx context.Context, layout *codec.ShardLayout, key string, inner [][]int64) (chunks [][]byte, cached bool, err error) {
	lock := a.shards.lock(key)
	lock.RLock()
	defer lock.RUnlock()
	chunks = make([][]byte, len(inner))
	where, cached, err := a.shardIndex(ctx, layout, key)
	if err != nil || where == nil {
		return chunks, cached, err
	}
	var ranges []store.Range
	var stored, lengths []int64
	for i, at := range inner {
		if offset, length, ok := where.Get(at); ok {
			ranges = append(ranges, store.Between(offset, offset+length))
			stored, lengths = append(stored, int64(i)), append(lengths, length)
		}
	}
	if len(ranges) == 0 {
		return chunks, cached, nil
	}
	data, err := store.GetRanges(ctx, a.store, key, ranges)
	if err != nil {
		return nil, cached, err
	}
	for k, i := range stored {
		if int64(len(data[k])) != lengths[k] {
			return nil, cached, fmt.Errorf("chunk %v: %d bytes, want %d by the index", inner[i], len(data[k]), lengths[k])
		}
		if chunks[i] = data[k]; chunks[i] == nil {
			chunks[i] = []byte{} // stored but empty; the codecs return an error
		}
	}
	return chunks, cached, nil
}

// shardIndex returns the index of a shard, or nil if the shard is not stored.
func (a *Array) shardIndex(ctx context.Context, layout *codec.ShardLayout, key string) (_ *codec.ShardIndex, cached bool, err error) {
	if where, ok := a.shards.get(key); ok {
		return where, true, nil
	}
	at := store.Last(layout.IndexSize())
	if layout.IndexLocation() == codec.Start {
		at = store.Between(0, layout.IndexSize())
	}
	raw, err := a.fetchRange(ctx, key, at)
	if err != nil || raw == nil {
		return nil, false, err
	}
	where, err := layout.DecodeIndex(raw)
	if err != nil {
		return nil, false, err
	}
	a.shards.put(key, where, 16*grid.Size(layout.GridShape()))
	return where, false, nil
}

// replaceChunk stores the encoding of a chunk or a shard, or deletes it if that is nil.
func (a *Array) replaceChunk(ctx context.Context, key string, enc []byte) error {
	return a.shards.replace(key, func() error {
		if enc == nil {
			return a.store.Delete(ctx, key)
		}
		return a.Trace.store(len(enc), func() error { return a.store.Set(ctx, key, enc) })
	})
}
