package arrowzarr

import (
	"context"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"golang.org/x/sync/semaphore"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/parquet"
)

// Options.MaxMemory is divided before the conversion begins, so that it holds on
// any number of cores and for any size of batch. programMemory is for the program
// itself. Of the rest
//
//	1/2  is for record batches, from before they are read until they are written
//	     (batchMemory), and again at most 1/2 for the values of dictionaries
//	     (categoryMemory);
//	1/4  is for chunks that are assembled and encoded (chunkMemory);
//	1/16 is for freed buffers that the next batch will reuse (cachingAllocator);
//	3/16 is for garbage that Go's collector has not found yet.
//
// Options.GoMemoryLimit keeps Go's heap within 13/16, less 1/32, by which Go exceeds a
// limit while a collection runs. Go does not count the pages
// of a mapped input and the tables of libzstd. They take at most 3/4 of the
// chunks' share, because outsideHeap adds a third to them. For a GPU, batches lie
// in pinned memory, which Go does not count either. There, chunks may take 1/8 more, since
// no buffers are kept for batches, and their encodings lie in pinned memory, too.
type memoryShares struct {
	total   int64 // without programMemory
	batches int64 // also the most that one buffer or message may take
	chunks  int64
	cached  int64 // freed buffers
}

const (
	// programMemory is for the pages of the program's code, which the kernel maps
	// in large folios, and for its threads.
	programMemory = 54 << 20
	// minMemory is the least Options.MaxMemory.
	minMemory = 256 << 20
)

// divideMemory divides the memory of a conversion of some columns.
func divideMemory(maxMemory int64, columns int) memoryShares {
	total := maxMemory - programMemory - int64(columns)*source.ColumnMemory
	return memoryShares{total: total, batches: total / 2, chunks: total / 4, cached: total / 16}
}

// shares returns the shares of the memory of a conversion.
func (c *conversion) shares() memoryShares {
	ofSource, _ := c.sourceBytes()
	return divideMemory(c.options.MaxMemory-ofSource, len(c.chosen.columns))
}

// parquetInput returns the Parquet file that is the input, or nil.
func (c *conversion) parquetInput() *parquet.Source {
	p, _ := c.src.(*parquet.Source)
	return p
}

// sourceBytes is what a Parquet file takes beside the batches of one row group. It reports
// whether a part of it is of dictionaries.
func (c *conversion) sourceBytes() (n int64, dictionaries bool) {
	if p := c.parquetInput(); p != nil {
		return p.ExtraBytes(c.chosen.fields)
	}
	return 0, false
}

// checkMemory returns an error if what is known of the columns leaves too little for
// their values.
func (c *conversion) checkMemory() error {
	columns := int64(len(c.chosen.columns))
	if c.shares().total < c.options.MaxMemory/4 {
		known, hasDictionaries := c.sourceBytes()
		known += columns * source.ColumnMemory
		need := (programMemory + known) / 3 * 4
		dictionaries := ""
		if hasDictionaries {
			dictionaries = " and dictionaries of the file"
		}
		return partErrorf(PartUsage, "%d columns%s take about %d MiB, which leaves too little of --max-memory for their values: choose some with --columns, or raise --max-memory to %d MiB", columns, dictionaries, known>>20, need>>20+1)
	}
	return nil
}

// forObjects returns the shares of a conversion to an object store. Half of the batches'
// share is for values on their way, and for shards, which are put together in memory.
func (s memoryShares) forObjects(sharded bool) (batches, puts, shards int64) {
	half := s.batches / 2
	if sharded {
		return half, half / 2, half / 2
	}
	return half, half, 0
}

// outsideHeap is what n bytes outside of Go's heap count in the chunks' share.
func outsideHeap(n int64) int64 { return n + n/3 }

// GoMemoryLimit is the limit that a program that only converts must pass to
// [runtime/debug.SetMemoryLimit] for MaxMemory to hold. Without it, Go's heap
// grows to twice the memory in use before it is collected.
func (o Options) GoMemoryLimit() int64 {
	maxMemory := o.MaxMemory
	if maxMemory == 0 {
		maxMemory = DefaultMaxMemory
	}
	shares := divideMemory(max(maxMemory, minMemory), 0)
	limit := shares.total - shares.chunks/4*3 - shares.total/32
	if o.usesDevice() {
		limit -= shares.batches // they lie in pinned memory
	}
	return limit
}

// batchMemory is the share of the record batches. Only the prefetcher reserves;
// any goroutine may release.
//
// A batch is released when its last chunk is written. Pending batches, whose rows
// do not fill a chunk yet, are not released before another batch is read. If they
// leave no memory for it, reserving fails instead of waiting forever.
type batchMemory struct {
	size      int64
	readAhead int64 // the part of size that reading ahead may fill
	free      *semaphore.Weighted
}

func newBatchMemory(size, readAhead int64) *batchMemory {
	return &batchMemory{size: size, readAhead: readAhead, free: semaphore.NewWeighted(size)}
}

// reserve waits until a batch of n bytes fits into readAhead, or until all other
// batches are pending. It returns the number of bytes that it reserved, at most n.
func (m *batchMemory) reserve(ctx context.Context, n int64, d *demand) (int64, error) {
	// Acquiring what reading ahead must leave free, too, waits for it.
	whole := min(n+m.size-m.readAhead, m.size)
	if !m.free.TryAcquire(whole) {
		var err error
		if whole, err = m.acquireUntilDemand(ctx, whole, d); err != nil {
			return 0, err
		}
	}
	reserved := min(n, whole)
	m.free.Release(whole - reserved)
	return reserved, nil
}

// acquireUntilDemand acquires n bytes. If the demand comes first, it acquires at
// most what the pending batches leave, so it waits for no more than the chunks
// that are at work. It returns the number of bytes.
func (m *batchMemory) acquireUntilDemand(ctx context.Context, n int64, d *demand) (int64, error) {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	acquired := make(chan error, 1)
	go func() { acquired <- m.free.Acquire(waiting, n) }()
	select {
	case err := <-acquired:
		return n, err
	case pending := <-d.pending:
		d.receive(pending)
	}
	cancel()
	if err := <-acquired; err == nil || ctx.Err() != nil {
		return n, err
	}
	n = min(n, m.size-d.pendingBytes)
	return n, m.free.Acquire(ctx, n)
}

// resize changes a reservation to the size of the batch that was read. It is an
// error if the batch and the pending ones are larger than the share. After an
// error the old reservation still counts.
func (m *batchMemory) resize(ctx context.Context, reserved, n int64, d *demand) error {
	if n <= reserved {
		m.free.Release(reserved - n)
		return nil
	}
	if m.free.TryAcquire(n - reserved) {
		return nil
	}
	if err := d.wait(ctx); err != nil {
		return err
	}
	if d.pendingBytes+n > m.size {
		return partErrorf(PartUsage, "the batches that make up one chunk take more than %d bytes, half of --max-memory: lower --chunk-rows, or raise --max-memory", m.size)
	}
	return m.free.Acquire(ctx, n-reserved)
}

func (m *batchMemory) release(n int64) { m.free.Release(n) }

// demand is the consumer's request for one batch. With it comes the size of the
// pending batches, which does not change until the consumer has the batch.
type demand struct {
	pending      <-chan int64
	received     bool
	pendingBytes int64
}

func (d *demand) receive(pending int64) { d.received, d.pendingBytes = true, pending }

// wait returns when the demand has come.
func (d *demand) wait(ctx context.Context) error {
	if d.received {
		return nil
	}
	select {
	case pending := <-d.pending:
		d.receive(pending)
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// chunkMemory is the share of the chunks that are assembled and encoded, with the
// pages of a mapped input that they read. It also bounds the number of chunks.
type chunkMemory struct {
	size    int64
	free    *semaphore.Weighted
	slots   *semaphore.Weighted // one per chunk
	mapping *source.Mapping     // nil unless the input is mapped
}

func newChunkMemory(size int64, chunks int, m *source.Mapping) *chunkMemory {
	return &chunkMemory{size: size, free: semaphore.NewWeighted(size), slots: semaphore.NewWeighted(int64(chunks)), mapping: m}
}

// chunkReservation is the memory of one chunk. The caller must release it once.
type chunkReservation struct {
	memory  *chunkMemory
	bytes   int64    // without windows, unless exclusive
	regions [][]byte // that the chunk reads

	exclusive bool // the chunk has the whole share
}

// acquire waits for a slot and the memory of a chunk: n bytes, and the windows of the
// mapping that its regions touch. A chunk that needs more than the share waits until it
// has all of it.
func (m *chunkMemory) acquire(ctx context.Context, n int64, regions [][]byte) (*chunkReservation, error) {
	windows := m.mapping.CountWindows(regions)
	need := n + windowWeight(windows)
	r := &chunkReservation{memory: m, bytes: n, regions: regions}
	if need > m.size {
		r.bytes, r.exclusive, need = m.size, true, m.size
	}
	if err := m.slots.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	if err := m.free.Acquire(ctx, need); err != nil {
		m.slots.Release(1)
		return nil, err
	}
	// A window that another chunk reads, too, counts once.
	added := m.mapping.Retain(regions)
	if !r.exclusive {
		m.free.Release(windowWeight(windows - added))
	}
	return r, nil
}

func (r *chunkReservation) release() {
	unmapped := r.memory.mapping.Release(r.regions)
	if !r.exclusive {
		r.bytes += windowWeight(unmapped)
	}
	r.memory.free.Release(r.bytes)
	r.memory.slots.Release(1)
}

// windowWeight is what n windows of a mapping count.
func windowWeight(n int) int64 { return outsideHeap(source.WindowBytes) * int64(n) }

// categoryMemory is the share of the values of all dictionaries. An eighth of it is for the
// values themselves: tables write those that exceed it to temporary files. The rest finds
// them again. A nil categoryMemory has no limit.
type categoryMemory struct {
	size int64
	free *semaphore.Weighted
	keys atomic.Int64 // bytes of values
}

func newCategoryMemory(size int64) *categoryMemory {
	return &categoryMemory{size: size, free: semaphore.NewWeighted(size)}
}

// tryReserve reserves n bytes, and reports whether they are free.
func (m *categoryMemory) tryReserve(n int64) bool { return m == nil || m.free.TryAcquire(n) }

func (m *categoryMemory) release(n int64) {
	if m != nil {
		m.free.Release(n)
	}
}

// tryReserveKeys is tryReserve of memory for values.
func (m *categoryMemory) tryReserveKeys(n int64) bool {
	if m != nil && m.keys.Load()+n > m.size/8 || !m.tryReserve(n) {
		return false
	}
	m.addKeys(n)
	return true
}

// addKeys counts n reserved bytes as those of values.
func (m *categoryMemory) addKeys(n int64) {
	if m != nil {
		m.keys.Add(n)
	}
}

func (m *categoryMemory) releaseKeys(n int64) {
	m.addKeys(-n)
	m.release(n)
}

// full is the error of a reservation that failed.
func (m *categoryMemory) full() error {
	return partErrorf(PartUsage, "finding the different values of all dictionaries takes more than %d bytes, the share of --max-memory that is for them: raise --max-memory", m.size)
}

// hostAllocator is a device's allocator of host memory that remembers whether an
// allocation failed. arrow-go keeps only the text of the panic, from which the
// failure looks like one of the input.
type hostAllocator struct {
	memory.Allocator
	failed atomic.Bool
}

func (m *hostAllocator) Allocate(size int) (b []byte) {
	m.recordFailure(func() { b = m.Allocator.Allocate(size) })
	return b
}

func (m *hostAllocator) Reallocate(size int, b []byte) []byte {
	m.recordFailure(func() { b = m.Allocator.Reallocate(size, b) })
	return b
}

// recordFailure runs f and does not recover its panic.
func (m *hostAllocator) recordFailure(f func()) {
	panics := true
	defer func() {
		if panics {
			m.failed.Store(true)
		}
	}()
	f()
	panics = false
}

// partOf returns the part that made reading fail with err.
func (m *hostAllocator) partOf(err error) Part {
	if m.failed.Load() {
		return PartDevice
	}
	return partOf(err, PartInput)
}

// cachingAllocator keeps freed buffers for reuse. Batches need buffers of the same
// few sizes, and new memory costs a page fault and zeroing per 4 KiB, more than
// the conversion itself. The buffers are not zeroed: see zeroingAllocator.
type cachingAllocator struct {
	upstream  memory.Allocator
	maxTotal  int64 // of used and cached; the cache is emptied above it
	maxCached int64 // of cached, unless it is a single buffer

	mu     sync.Mutex
	free   map[int][][]byte // by capacity
	cached int64            // bytes in free
	used   int64
}

// newCachingAllocator returns an allocator for used bytes in use and cached bytes
// in the cache.
func newCachingAllocator(upstream memory.Allocator, used, cached int64) *cachingAllocator {
	return &cachingAllocator{upstream: upstream, maxTotal: used + cached, maxCached: cached, free: map[int][][]byte{}}
}

// sizeClass rounds a size up, by at most an eighth.
func sizeClass(size int) int {
	step := max(1<<max(bits.Len(uint(size))-4, 0), 64)
	return (size + step - 1) / step * step
}

func (a *cachingAllocator) Allocate(size int) []byte {
	class := sizeClass(size)
	a.mu.Lock()
	a.used += int64(class)
	if list := a.free[class]; len(list) > 0 {
		b := list[len(list)-1]
		a.free[class] = list[:len(list)-1]
		a.cached -= int64(class)
		a.mu.Unlock()
		return b[:size]
	}
	if a.used+a.cached > a.maxTotal {
		a.emptyCache()
	}
	a.mu.Unlock()
	return a.upstream.Allocate(class)[:size:class]
}

func (a *cachingAllocator) Reallocate(size int, b []byte) []byte {
	if size <= cap(b) {
		return b[:size]
	}
	moved := a.Allocate(size)
	copy(moved, b)
	a.Free(b)
	return moved
}

func (a *cachingAllocator) Free(b []byte) {
	class := cap(b)
	a.mu.Lock()
	defer a.mu.Unlock()
	if class == 0 || class != sizeClass(class) {
		a.upstream.Free(b)
		return
	}
	a.used -= int64(class)
	if a.cached+int64(class) > a.maxCached {
		if int64(class) <= a.maxCached {
			a.upstream.Free(b)
			return
		}
		a.emptyCache() // the batches are large, and the next needs a buffer like this
	}
	a.free[class] = append(a.free[class], b[:0])
	a.cached += int64(class)
}

func (a *cachingAllocator) emptyCache() {
	for _, list := range a.free {
		for _, b := range list {
			a.upstream.Free(b)
		}
	}
	clear(a.free)
	a.cached = 0
}
