package arrowzarr

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Go's heap, what it does not count, and the program are together MaxMemory.
func TestSharesAddUp(t *testing.T) {
	for _, most := range []int64{minMemory, DefaultMaxMemory, 1 << 40} {
		o := Options{MaxMemory: most}
		rows := most - programMemory
		work := rows / workShare
		var heavy int64 // what can be outside of the heap
		for n := int64(1 << 40); n > 0; n /= 2 {
			if outside(heavy+n) <= work {
				heavy += n
			}
		}
		assert.LessOrEqual(t, o.GoMemoryLimit()+heavy+programMemory, most)
		assert.Less(t, rows/heldShare+rows/idleShare+work, rows)
		o.Device = arrowbuf.CPU()
		assert.Equal(t, Options{MaxMemory: most}.GoMemoryLimit(), o.GoMemoryLimit())
	}
	assert.Equal(t, Options{MaxMemory: DefaultMaxMemory}.GoMemoryLimit(), Options{}.GoMemoryLimit())
}

func TestMappingKeepsWhatIsInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mapped")
	require.NoError(t, os.WriteFile(path, make([]byte, 5*windowBytes), 0o666))
	file, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	m, err := newMapping(file, 5*windowBytes)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.close()) }()
	span := func(from, to int) [][]byte { return [][]byte{m.bytes[from:to], nil, make([]byte, 8)} }
	// The mapping may begin anywhere in a window.
	at := int(-addressOf(m.bytes) % windowBytes)
	first, second := span(at+100, at+windowBytes+1), span(at+windowBytes+1, at+2*windowBytes)

	assert.Equal(t, 2, m.retain(first))
	assert.Equal(t, 0, m.retain(second), "a window that is there counts once")
	assert.Equal(t, at+2*windowBytes, bytes.Count(m.bytes[:at+2*windowBytes], []byte{0}))
	assert.Positive(t, resident(t, path))
	assert.Equal(t, 1, m.release(first), "the second reads on")
	kept := resident(t, path)
	assert.Positive(t, kept)
	m.evict(m.bytes[at:])
	assert.Positive(t, resident(t, path), "what is in use is not cleared")
	assert.Equal(t, 1, m.release(second))
	m.evict(m.bytes)
	assert.Zero(t, resident(t, path))

	var none *mapping
	assert.Zero(t, none.retain(first))
	assert.Zero(t, none.release(first))
	none.evict(first[0])
}

// resident is how many KiB of a mapped file are in memory.
func resident(t *testing.T, path string) (kib int) {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/smaps")
	require.NoError(t, err)
	_, entry, found := strings.Cut(string(maps), path)
	require.True(t, found)
	_, entry, _ = strings.Cut(entry, "Rss:")
	_, err = fmt.Sscan(entry, &kib)
	require.NoError(t, err)
	return kib
}

func TestWorkWaitsForRoomOrIsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := work{budget: newBudget(100)}
		require.NoError(t, w.begin(t.Context(), 60))
		begun := make(chan error, 1)
		go func() { begun <- w.begin(t.Context(), 250) }()
		synctest.Wait()
		assert.Empty(t, begun, "no room, and not alone")
		w.end(50) // as where the next job uses windows that this one brought in
		synctest.Wait()
		require.NoError(t, <-begun)
		assert.Equal(t, int64(260), w.used)

		ctx, cancel := context.WithCancel(t.Context())
		go func() { begun <- w.begin(ctx, 1) }()
		synctest.Wait()
		assert.Empty(t, begun)
		cancel()
		assert.ErrorIs(t, <-begun, context.Canceled)
		w.end(260)
		assert.Zero(t, w.used)
	})
}

// A batch that is being cut has not begun to wait for more.
func TestReadingWaitsWhileRowsAreAtWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100)
		b.ample /= 2
		require.NoError(t, b.expect(t.Context(), 1000), "nothing is held")
		require.NoError(t, b.take(t.Context(), 80))
		read := make(chan error, 1)
		go func() { read <- b.expect(t.Context(), 80) }()
		synctest.Wait()
		assert.Empty(t, read)
		b.wait(20)
		b.give(60)
		require.NoError(t, <-read, "the rest only waits")
		require.NoError(t, b.take(t.Context(), 80))
		assert.ErrorContains(t, b.take(t.Context(), 81), "lower --chunk-rows")
	})
}

func TestRecyclerKeepsWhatTheNextBatchWants(t *testing.T) {
	r := newCachingAllocator(arrowbuf.CPU().HostAllocator(), 1000<<10, 100<<10)
	small, large := r.Allocate(64<<10), r.Allocate(512<<10)
	r.Free(small)
	assert.Equal(t, int64(64<<10), r.bytes)
	r.Free(r.Allocate(60 << 10)) // of its class: the same again, or one more
	assert.LessOrEqual(t, r.bytes, int64(124<<10))
	r.Free(large)
	assert.Equal(t, int64(512<<10), r.bytes, "one buffer that is larger than all that may be idle")
	again := r.Allocate(512 << 10)
	assert.Same(t, &large[0], &again[0])
	assert.Zero(t, r.bytes)
	r.Free(again)
	other := r.Allocate(900 << 10)
	assert.Zero(t, r.bytes, "there is no room for both")
	r.Free(other)
	assert.Zero(t, r.used)
}

func TestSpansOfViewsAreWhatTheyShow(t *testing.T) {
	b := array.NewStringViewBuilder(memory.DefaultAllocator)
	defer b.Release()
	for i := range 10 {
		b.Append(strings.Repeat(string(rune('a'+i)), 20))
		b.Append("short")
	}
	views := b.NewArray()
	defer views.Release()
	spans := columnSlice{values: views, from: 6, to: 12}.regions()
	assert.Equal(t, strings.Repeat("d", 20)+strings.Repeat("e", 20)+strings.Repeat("f", 20), string(spans[len(spans)-1]))
}
