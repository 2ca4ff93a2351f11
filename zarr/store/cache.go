package store

import (
	"bytes"
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"
)

// Cache is a store that keeps values of another store in memory. Use [NewCache].
type Cache struct {
	forwarder
	options CacheOptions
	now     func() time.Time

	mu      sync.Mutex
	entries map[cacheKey]*list.Element // of *cacheEntry
	ranges  map[string]map[Range]bool  // the cached ranges of each key
	recent  *list.List                 // most recently used first
	writes  int64                      // started and ended writes
	stats   CacheStats
}

// CacheOptions limit a [Cache].
type CacheOptions struct {
	// MaxBytes limits the length of all cached values; the least recently used are
	// dropped first. It must be positive.
	MaxBytes int64
	// MaxAge limits how long a value is used after it was read; 0 is no limit. Changes
	// that others make to the store become visible after it.
	MaxAge time.Duration
	// ReadsOnly caches what is read only: Set drops what is cached of its key. By default
	// it caches a copy of the new value.
	ReadsOnly bool
}

// CacheStats are the figures of a [Cache].
type CacheStats struct {
	Hits, Misses int64 // reads of a value or a range
	Bytes        int64 // of all cached values
	Entries      int64
}

type cacheKey struct {
	key string
	r   Range
}

type cacheEntry struct {
	cacheKey
	value []byte
	read  time.Time
}

// NewCache returns a store that reads a value or a range of s once. Writes go to s and
// the cache; see the options. It returns an error if a limit is out of range.
func NewCache(s Store, options CacheOptions) (*Cache, error) {
	if options.MaxBytes <= 0 || options.MaxAge < 0 {
		return nil, fmt.Errorf("store.NewCache: MaxBytes %d and MaxAge %v: want MaxBytes > 0, MaxAge >= 0", options.MaxBytes, options.MaxAge)
	}
	return &Cache{forwarder: forwarder{s}, options: options, now: time.Now,
		entries: map[cacheKey]*list.Element{}, ranges: map[string]map[Range]bool{}, recent: list.New()}, nil
}

// String names the store and the one that it caches.
func (c *Cache) String() string { return fmt.Sprintf("cached %v", c.Store) }

// Stats returns the current figures.
func (c *Cache) Stats() CacheStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	stats := c.stats
	stats.Entries = int64(c.recent.Len())
	return stats
}

// Clear drops all cached values.
func (c *Cache) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropAll()
}

func (c *Cache) dropAll() {
	c.writes++
	clear(c.entries)
	clear(c.ranges)
	c.recent.Init()
	c.stats.Bytes = 0
}

// Get implements [Store]. It finds ranges in a cached whole value.
func (c *Cache) Get(ctx context.Context, key string, r Range) ([]byte, error) {
	if err := contextErr(ctx, CheckKey(key)); err != nil {
		return nil, fmt.Errorf("store.Get: key %q: %w", key, err)
	}
	c.mu.Lock()
	value, ok, err := c.lookup(key, r)
	writes := c.writes
	c.mu.Unlock()
	if ok || err != nil {
		return value, err
	}
	value, err = c.Store.Get(ctx, key, r)
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.writes == writes { // else value may be older than what was written
			c.add(key, r, value)
		}
	}
	return value, err
}

// GetRanges gets the ranges that are not cached, in as few requests as possible.
func (c *Cache) GetRanges(ctx context.Context, key string, ranges []Range) ([][]byte, error) {
	if err := contextErr(ctx, CheckKey(key)); err != nil {
		return nil, fmt.Errorf("store.GetRanges: key %q: %w", key, err)
	}
	values := make([][]byte, len(ranges))
	var missing []int
	var wanted []Range
	c.mu.Lock()
	writes := c.writes
	for i, r := range ranges {
		value, ok, err := c.lookup(key, r)
		if err != nil {
			c.mu.Unlock()
			return nil, err
		}
		if values[i] = value; !ok {
			missing, wanted = append(missing, i), append(wanted, r)
		}
	}
	c.mu.Unlock()
	if len(missing) == 0 {
		return values, nil
	}
	got, err := GetRanges(ctx, c.Store, key, wanted)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, i := range missing {
		values[i] = got[k]
		if c.writes == writes {
			// A part of a longer response would keep all of it in memory.
			c.add(key, ranges[i], bytes.Clone(got[k]))
		}
	}
	return values, nil
}

// GetRangesVersion is GetRanges. The cache does not know the versions of what it has.
func (c *Cache) GetRangesVersion(ctx context.Context, key string, ranges []Range) ([][]byte, string, error) {
	values, err := c.GetRanges(ctx, key, ranges)
	return values, "", err
}

// lookup returns a cached value or range. c.mu is held.
func (c *Cache) lookup(key string, r Range) (value []byte, ok bool, err error) {
	if element := c.fresh(cacheKey{key, r}); element != nil {
		c.stats.Hits++
		return element.value, true, nil
	}
	if whole := c.fresh(cacheKey{key, Range{}}); whole != nil {
		start, end, err := r.Resolve(int64(len(whole.value)))
		if err != nil {
			return nil, false, fmt.Errorf("store.Get: key %q: %w", key, err)
		}
		c.stats.Hits++
		return whole.value[start:end:end], true, nil
	}
	c.stats.Misses++
	return nil, false, nil
}

// fresh returns an entry that is young enough and marks it as used, or nil.
func (c *Cache) fresh(key cacheKey) *cacheEntry {
	element := c.entries[key]
	if element == nil {
		return nil
	}
	entry := element.Value.(*cacheEntry)
	if c.options.MaxAge > 0 && c.now().Sub(entry.read) >= c.options.MaxAge {
		c.remove(element)
		return nil
	}
	c.recent.MoveToFront(element)
	return entry
}

// add caches a value and drops the least recently used ones beyond the limit.
func (c *Cache) add(key string, r Range, value []byte) {
	k := cacheKey{key, r}
	if old := c.entries[k]; old != nil {
		c.remove(old)
	}
	if int64(len(value)) > c.options.MaxBytes {
		return
	}
	c.entries[k] = c.recent.PushFront(&cacheEntry{k, value, c.now()})
	if c.ranges[key] == nil {
		c.ranges[key] = map[Range]bool{}
	}
	c.ranges[key][r] = true
	c.stats.Bytes += int64(len(value))
	for c.stats.Bytes > c.options.MaxBytes {
		c.remove(c.recent.Back())
	}
}

func (c *Cache) remove(element *list.Element) {
	entry := c.recent.Remove(element).(*cacheEntry)
	delete(c.entries, entry.cacheKey)
	delete(c.ranges[entry.key], entry.r)
	if len(c.ranges[entry.key]) == 0 {
		delete(c.ranges, entry.key)
	}
	c.stats.Bytes -= int64(len(entry.value))
}

// drop drops what is cached of a key.
func (c *Cache) drop(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes++
	for r := range c.ranges[key] {
		c.remove(c.entries[cacheKey{key, r}])
	}
}

// Set writes to the store, and then caches the value.
func (c *Cache) Set(ctx context.Context, key string, value []byte) error {
	c.drop(key)
	c.mu.Lock()
	writes := c.writes
	c.mu.Unlock()
	if err := c.Store.Set(ctx, key, value); err != nil {
		c.drop(key)
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writes == writes && !c.options.ReadsOnly { // else another write may have come later
		c.add(key, Range{}, bytes.Clone(value))
	}
	c.writes++
	return nil
}

// SetIfNotExists implements [ConditionalSetter].
func (c *Cache) SetIfNotExists(ctx context.Context, key string, value []byte) error {
	defer c.drop(key)
	return SetIfNotExists(ctx, c.Store, key, value)
}

// Delete implements [Store].
func (c *Cache) Delete(ctx context.Context, key string) error {
	defer c.drop(key)
	return c.Store.Delete(ctx, key)
}

// DeleteAll implements [PrefixDeleter].
func (c *Cache) DeleteAll(ctx context.Context, prefix string) error {
	defer c.Clear()
	return DeleteAll(ctx, c.Store, prefix)
}

// Move implements [Mover].
func (c *Cache) Move(ctx context.Context, from, to string) error {
	defer c.Clear()
	return Move(ctx, c.Store, from, to)
}

// Create implements [Creator].
func (c *Cache) Create(ctx context.Context, key string) (Writer, error) {
	w, err := Create(ctx, c.Store, key)
	if err != nil {
		return nil, err
	}
	return &cacheWriter{w, c, key}, nil
}

// cacheWriter drops what is cached of a key when a new value is committed.
type cacheWriter struct {
	Writer
	cache *Cache
	key   string
}

func (w *cacheWriter) Commit() error {
	defer w.cache.drop(w.key)
	return w.Writer.Commit()
}
