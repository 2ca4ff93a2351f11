package store

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// cacheOf returns a cache of a store that counts its calls, and a clock to advance.
func cacheOf(t *testing.T, options CacheOptions) (*Cache, *Logging, *time.Time) {
	counted := NewLogging(NewMemory(), nil)
	c, err := NewCache(counted, options)
	require.NoError(t, err)
	now := time.Unix(0, 0)
	c.now = func() time.Time { return now }
	return c, counted, &now
}

func read(t *testing.T, s Store, key string, r Range) string {
	t.Helper()
	value, err := s.Get(context.Background(), key, r)
	require.NoError(t, err)
	return string(value)
}

func TestCacheReadsEachValueAndRangeOnce(t *testing.T) {
	c, counted, _ := cacheOf(t, CacheOptions{MaxBytes: 100})
	require.NoError(t, counted.Set(context.Background(), "k", []byte("0123456789")))
	for range 3 {
		assert.Equal(t, "123", read(t, c, "k", Between(1, 4)))
	}
	assert.EqualValues(t, 1, counted.Calls()["Get"])
	for range 3 {
		assert.Equal(t, "0123456789", read(t, c, "k", Range{}))
	}
	assert.Equal(t, "89", read(t, c, "k", Last(2)), "the whole value has all ranges")
	assert.EqualValues(t, 2, counted.Calls()["Get"])
	assert.Equal(t, CacheStats{Hits: 5, Misses: 2, Bytes: 13, Entries: 2}, c.Stats())
	values, err := c.GetRanges(context.Background(), "k", []Range{Between(1, 4), Between(8, 9)})
	require.NoError(t, err)
	assert.Equal(t, [][]byte{[]byte("123"), []byte("8")}, values)
	assert.EqualValues(t, 0, counted.Calls()["GetRanges"])
	c.Clear()
	assert.Equal(t, "123", read(t, c, "k", Between(1, 4)))
	_, err = c.GetRanges(context.Background(), "k", []Range{Between(1, 4), Between(8, 9), Between(2, 5)})
	require.NoError(t, err)
	assert.EqualValues(t, 1, counted.Calls()["GetRanges"])
	assert.EqualValues(t, 3+1+3, c.Stats().Bytes)
}

func TestCacheDropsTheLeastRecentlyUsed(t *testing.T) {
	c, counted, _ := cacheOf(t, CacheOptions{MaxBytes: 10})
	for _, key := range []string{"a", "b", "c"} {
		require.NoError(t, counted.Set(context.Background(), key, []byte("1234")))
	}
	read(t, c, "a", Range{})
	read(t, c, "b", Range{})
	read(t, c, "a", Range{})
	read(t, c, "c", Range{}) // b goes
	read(t, c, "a", Range{})
	assert.EqualValues(t, 3, counted.Calls()["Get"])
	read(t, c, "b", Range{})
	assert.EqualValues(t, 4, counted.Calls()["Get"])
	require.NoError(t, c.Set(context.Background(), "big", make([]byte, 11)))
	assert.LessOrEqual(t, c.Stats().Bytes, int64(10), "a value beyond the limit is not kept")
}

func TestCacheForgetsByAge(t *testing.T) {
	c, counted, now := cacheOf(t, CacheOptions{MaxBytes: 100, MaxAge: time.Minute})
	ctx := context.Background()
	require.NoError(t, counted.Set(ctx, "k", []byte("old")))
	assert.Equal(t, "old", read(t, c, "k", Range{}))
	require.NoError(t, counted.Set(ctx, "k", []byte("new"))) // by somebody else
	*now = now.Add(59 * time.Second)
	assert.Equal(t, "old", read(t, c, "k", Range{}))
	*now = now.Add(time.Second)
	assert.Equal(t, "new", read(t, c, "k", Range{}))
}

func TestCacheSeesItsOwnWrites(t *testing.T) {
	c, counted, _ := cacheOf(t, CacheOptions{MaxBytes: 100})
	ctx := context.Background()
	writes := map[string]func() error{
		"Set":       func() error { return c.Set(ctx, "a/k", []byte("second")) },
		"Delete":    func() error { return c.Delete(ctx, "a/k") },
		"DeleteAll": func() error { return c.DeleteAll(ctx, "a") },
		"Move":      func() error { return c.Move(ctx, "a", "b") },
		"Create": func() error {
			w, err := c.Create(ctx, "a/k")
			require.NoError(t, err)
			_, err = w.Write([]byte("second"))
			require.NoError(t, err)
			return w.Commit()
		},
	}
	for name, write := range writes {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, DeleteAll(ctx, c, ""))
			require.NoError(t, counted.Set(ctx, "a/k", []byte("first")))
			assert.Equal(t, "first", read(t, c, "a/k", Range{}))
			assert.Equal(t, "fi", read(t, c, "a/k", Between(0, 2)))
			require.NoError(t, write())
			got, err := c.Get(ctx, "a/k", Between(0, 2))
			if name == "Set" || name == "Create" {
				require.NoError(t, err)
				assert.Equal(t, "se", string(got))
			} else {
				assert.ErrorIs(t, err, ErrNotFound)
			}
		})
	}
}

// slowStore delays the result of Get.
type slowStore struct {
	Store
	reading, proceed chan struct{}
}

func (s *slowStore) Get(ctx context.Context, key string, r Range) ([]byte, error) {
	value, err := s.Store.Get(ctx, key, r)
	s.reading <- struct{}{}
	<-s.proceed
	return value, err
}

func TestCacheOfReadsKeepsNoWrites(t *testing.T) {
	ctx := context.Background()
	below := NewLogging(NewMemory(), nil)
	c, err := NewCache(below, CacheOptions{MaxBytes: 100, ReadsOnly: true})
	require.NoError(t, err)
	for i, value := range []string{"one", "two"} {
		require.NoError(t, c.Set(ctx, "k", []byte(value)))
		assert.Zero(t, c.Stats().Bytes)
		for range 2 {
			got, err := c.Get(ctx, "k", Range{})
			require.NoError(t, err)
			assert.Equal(t, value, string(got))
		}
		assert.EqualValues(t, i+1, below.Calls()["Get"])
	}
}

func TestCacheKeepsNoValueOlderThanAWrite(t *testing.T) {
	ctx, inner := context.Background(), NewMemory()
	require.NoError(t, inner.Set(ctx, "k", []byte("old")))
	slow := &slowStore{inner, make(chan struct{}), make(chan struct{})}
	c, err := NewCache(slow, CacheOptions{MaxBytes: 100})
	require.NoError(t, err)
	done := make(chan string)
	go func() {
		value, _ := c.Get(ctx, "k", Range{})
		done <- string(value)
	}()
	<-slow.reading // it has the old value
	require.NoError(t, c.Set(ctx, "k", []byte("new")))
	slow.proceed <- struct{}{}
	assert.Equal(t, "old", <-done)
	value, err := c.Get(ctx, "k", Range{})
	require.NoError(t, err)
	assert.Equal(t, "new", string(value))
}

func TestCacheChecksItsLimits(t *testing.T) {
	for _, options := range []CacheOptions{{}, {MaxBytes: -1}, {MaxBytes: 1, MaxAge: -1}} {
		_, err := NewCache(NewMemory(), options)
		assert.ErrorContains(t, err, "store.NewCache")
	}
}
