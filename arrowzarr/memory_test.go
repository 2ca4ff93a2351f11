package arrowzarr

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// Go's heap, the memory that it does not count, and the program are together at
// most MaxMemory.
func TestMemorySharesAddUpToMaxMemory(t *testing.T) {
	for _, most := range []int64{minMemory, DefaultMaxMemory, 1 << 40} {
		o := Options{MaxMemory: most}
		shares := divideMemory(most, 0)
		var outside int64 // most bytes of the chunks' share that are not in the heap
		for n := int64(1 << 40); n > 0; n /= 2 {
			if outsideHeap(outside+n) <= shares.chunks {
				outside += n
			}
		}
		assert.LessOrEqual(t, o.GoMemoryLimit()+outside+programMemory, most)
		assert.Less(t, shares.batches+shares.cached+shares.chunks, most-programMemory)
		o.Device = arrowbuf.CPU()
		assert.Equal(t, Options{MaxMemory: most}.GoMemoryLimit(), o.GoMemoryLimit())
	}
	assert.Equal(t, Options{MaxMemory: DefaultMaxMemory}.GoMemoryLimit(), Options{}.GoMemoryLimit())
}

// Batches are in Go's heap unless a GPU encodes them.
func TestMemoryLimitOfAGPUThatIsNotUsedIsThatOfTheCPU(t *testing.T) {
	gpu, none := cudatest.NewDevice(t), Codec{Name: "none"}
	assert.Equal(t, Options{Codec: none}.GoMemoryLimit(), Options{Codec: none, Device: gpu}.GoMemoryLimit())
	assert.Less(t, Options{Device: gpu}.GoMemoryLimit(), Options{}.GoMemoryLimit())
}

func TestChunkWaitsForMemoryOrHasAllOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newChunkMemory(100, 3, nil)
		first, err := m.acquire(t.Context(), 60, nil)
		require.NoError(t, err)
		type result struct {
			reservation *chunkReservation
			err         error
		}
		acquired := make(chan result, 1)
		acquire := func(ctx context.Context, n int64) {
			r, err := m.acquire(ctx, n, nil)
			acquired <- result{r, err}
		}
		go acquire(t.Context(), 250)
		synctest.Wait()
		assert.Empty(t, acquired, "not enough memory, and not alone")
		first.release()
		synctest.Wait()
		large := <-acquired
		require.NoError(t, large.err)
		assert.False(t, m.free.TryAcquire(1), "a chunk that needs more than the share has all of it")

		ctx, cancel := context.WithCancel(t.Context())
		go acquire(ctx, 1)
		synctest.Wait()
		assert.Empty(t, acquired)
		cancel()
		assert.ErrorIs(t, (<-acquired).err, context.Canceled)
		large.reservation.release()
		assert.True(t, m.free.TryAcquire(100), "nothing is reserved")
	})
}

func TestChunkWaitsForASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newChunkMemory(100, 1, nil)
		first, err := m.acquire(t.Context(), 1, nil)
		require.NoError(t, err)
		acquired := make(chan error, 1)
		go func() {
			_, err := m.acquire(t.Context(), 1, nil)
			acquired <- err
		}()
		synctest.Wait()
		assert.Empty(t, acquired)
		first.release()
		assert.NoError(t, <-acquired)
	})
}

// Chunks that read the same window of a mapping count it once, until the last of
// them is released.
func TestChunksShareTheWindowsTheyRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mapped")
	require.NoError(t, os.WriteFile(path, make([]byte, 3*source.WindowBytes), 0o666))
	file, err := source.OpenLocal(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	mapped, err := source.NewMapping(file)
	require.NoError(t, err)
	defer func() { require.NoError(t, mapped.Close()) }()
	content := mapped.Content()
	at := int(-uintptr(unsafe.Pointer(unsafe.SliceData(content))) % source.WindowBytes)
	region := [][]byte{content[at : at+100], content[at+200 : at+300]}

	const size = 64 << 20
	m := newChunkMemory(size, 3, mapped)
	reserved := func(n int64) { // checks how much is reserved
		t.Helper()
		assert.True(t, m.free.TryAcquire(size-n))
		assert.False(t, m.free.TryAcquire(1))
		m.free.Release(size - n)
	}
	first, err := m.acquire(t.Context(), 10, region)
	require.NoError(t, err)
	reserved(10 + windowWeight(1))
	second, err := m.acquire(t.Context(), 20, region[:1])
	require.NoError(t, err)
	reserved(30 + windowWeight(1))
	first.release()
	reserved(20 + windowWeight(1))
	second.release()
	reserved(0)
	large, err := m.acquire(t.Context(), size, region)
	require.NoError(t, err)
	reserved(size)
	large.release()
	reserved(0)
}

// slowStore takes a second for each value, and knows the most bytes that it was given at
// once.
type slowStore struct {
	store.Store
	mu        sync.Mutex
	now, most int
}

func (s *slowStore) Set(ctx context.Context, key string, value []byte) error {
	add := func(n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.now += n
		s.most = max(s.most, s.now)
	}
	add(len(value))
	defer add(-len(value))
	time.Sleep(time.Second)
	return s.Store.Set(ctx, key, value)
}

// The last chunks of nested columns take no more than the share of the chunks, either.
func TestLastChunksWaitForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lists, share = 1000, 80_000 // two chunks of 8 KB that are filled up to 16 KB, each with its encoding
		values := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Int64)
		for i := range lists {
			values.Append(true)
			values.ValueBuilder().(*array.Int64Builder).Append(int64(i + 1))
		}
		lasts := values.NewArray()
		var columns []*column
		for i := range 4 {
			column, err := newColumn(arrow.Field{Name: fmt.Sprint(i), Type: lasts.DataType()})
			require.NoError(t, err)
			columns = append(columns, column)
		}
		options, err := Options{Codec: Codec{Name: "none"}}.withDefaults()
		require.NoError(t, err)
		slow := &slowStore{Store: store.NewMemory()}
		w := newWriter(columns, layout{grouped: make([]bool, len(columns))}, slow, options.codecs(), &Progress{}, &pipelineStats{}, nil)
		chunks := newChunkMemory(share, len(columns), nil)
		for _, c := range w.columns {
			sink := &streamSink{builder: arrayBuilder{writer: w, grid: rowGrid{chunkRows: 2 * lists}}, writer: c, memory: chunks}
			c.nested = newNestedWriter(c.column.nested, sink, nil)
			require.NoError(t, c.nested.append(t.Context(), []columnSlice{{values: lasts, to: lists}}))
		}
		require.NoError(t, w.complete(t.Context(), len(columns)))
		assert.Positive(t, slow.most)
		assert.LessOrEqual(t, slow.most, 2*16_000)
		assert.True(t, chunks.free.TryAcquire(share), "nothing is reserved")
	})
}

// Reading ahead waits while chunks are at work, and not for pending batches.
func TestReadingWaitsForChunksAtWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newBatchMemory(100, 50)
		demands := make(chan int64, 1)
		next := func() *demand { return &demand{pending: demands} }
		reserve := func(n int64, d *demand) chan int64 {
			reserved := make(chan int64, 1)
			go func() {
				got, err := m.reserve(t.Context(), n, d)
				assert.NoError(t, err)
				reserved <- got
			}()
			synctest.Wait()
			return reserved
		}
		d := next()
		got := reserve(1000, d)
		require.Len(t, got, 1, "no other batch is reserved")
		require.NoError(t, m.resize(t.Context(), <-got, 80, d))

		d = next()
		got = reserve(80, d)
		assert.Empty(t, got, "80 bytes are at work")
		demands <- 20
		synctest.Wait()
		assert.Empty(t, got, "60 bytes are still at work")
		m.release(60)
		synctest.Wait()
		require.Len(t, got, 1, "the rest is pending")
		require.NoError(t, m.resize(t.Context(), <-got, 80, d))

		d = next()
		got = reserve(1, d)
		assert.Empty(t, got)
		demands <- 20
		synctest.Wait()
		assert.Empty(t, got)
		m.release(80)
		synctest.Wait()
		reserved := <-got
		assert.Equal(t, int64(1), reserved)
		assert.ErrorContains(t, m.resize(t.Context(), reserved, 81, d), "lower --chunk-rows")
		m.release(reserved + 20)
		assert.True(t, m.free.TryAcquire(100), "nothing is reserved")
	})
}

// Reading ahead fills no more than its part of the share.
func TestReadingAheadLeavesMemoryFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newBatchMemory(100, 50)
		reserved, err := m.reserve(t.Context(), 30, &demand{})
		require.NoError(t, err)
		assert.Equal(t, int64(30), reserved)
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := m.reserve(ctx, 30, &demand{})
			failed <- err
		}()
		synctest.Wait()
		assert.Empty(t, failed)
		cancel()
		assert.ErrorIs(t, <-failed, context.Canceled)
		m.release(reserved)
		assert.True(t, m.free.TryAcquire(100), "nothing is reserved")
	})
}

func TestCachingAllocatorKeepsBuffersForTheNextBatch(t *testing.T) {
	a := newCachingAllocator(arrowbuf.CPU().HostAllocator(), 1000<<10, 100<<10)
	small, large := a.Allocate(64<<10), a.Allocate(512<<10)
	a.Free(small)
	assert.Equal(t, int64(64<<10), a.cached)
	a.Free(a.Allocate(60 << 10)) // of its class: the same again, or one more
	assert.LessOrEqual(t, a.cached, int64(124<<10))
	a.Free(large)
	assert.Equal(t, int64(512<<10), a.cached, "one buffer that is larger than the cache may be")
	again := a.Allocate(512 << 10)
	assert.Same(t, &large[0], &again[0])
	assert.Zero(t, a.cached)
	a.Free(again)
	other := a.Allocate(900 << 10)
	assert.Zero(t, a.cached, "both are more than the allocator may have")
	a.Free(other)
	assert.Zero(t, a.used)
}

func TestRegionsOfViewsAreTheBytesTheyReferTo(t *testing.T) {
	b := array.NewStringViewBuilder(memory.DefaultAllocator)
	defer b.Release()
	for i := range 10 {
		b.Append(strings.Repeat(string(rune('a'+i)), 20))
		b.Append("short")
	}
	views := b.NewArray()
	defer views.Release()
	regions := columnSlice{values: views, from: 6, to: 12}.regions()
	assert.Equal(t, strings.Repeat("d", 20)+strings.Repeat("e", 20)+strings.Repeat("f", 20), string(regions[len(regions)-1]))
}
