package arrowzarr

import (
	"context"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Memory is shared out before it is taken, so that Options.MaxMemory holds on
// any number of cores and however long the kernel lets one of them wait. Of what
// programMemory leaves
//
//	1/2  is for batches that are held: read, waiting, or at work,
//	1/16 for idle buffers that the next batch will want,
//	1/4  for work: chunks that are made and encoded,
//
// and 3/16 is for what Go's collector has not found yet. The values of
// dictionaries stay until the end: where they would take as much as the batches may, the
// conversion ends (shelf). The collector keeps
// Go's heap within 13/16. It does not count the pages of a mapped input and the
// tables of libzstd, which take at most three quarters of the work's share,
// since outside makes them weigh a third more. For a GPU what is held is pinned
// memory, which Go does not count either.
const (
	heldShare = 2
	idleShare = 16
	workShare = 4
)

// outside is what n bytes outside of Go's heap weigh in the share of the work.
func outside(n int64) int64 { return n + n/3 }

// programMemory is what the program takes beside the rows: the pages of its
// code, as the kernel maps them in large folios, and its threads.
const programMemory = 48 << 20

// minMemory is what a conversion needs to turn around in.
const minMemory = 256 << 20

// GoMemoryLimit is what a program that does nothing but Convert has to give
// [runtime/debug.SetMemoryLimit] for MaxMemory to hold. Go's collector would else
// let its heap grow to twice of what is in use.
func (o Options) GoMemoryLimit() int64 {
	all := o.MaxMemory
	if all == 0 {
		all = DefaultMaxMemory
	}
	all = max(all, minMemory) - programMemory
	limit := all - all/workShare/4*3
	if o.Device != nil && o.Device.Type() != arrowbuf.DeviceCPU {
		limit -= all / heldShare
	}
	return limit
}

// budget bounds the memory of the batches that are held at a time. Batches
// whose rows are being written give theirs back; those that wait for the rest of
// their chunk do not. Where the waiting ones leave no room for the next batch,
// none will come, and that is an error rather than a standstill.
type budget struct {
	limit int64
	ample int64 // of limit, how much reading ahead may fill

	mu      sync.Mutex
	changed chan struct{} // closed when used or waiting changes
	used    int64
	waiting int64
}

func newBudget(limit int64) *budget {
	return &budget{limit: limit, ample: limit, changed: make(chan struct{})}
}

// take waits until there is room for n bytes, and takes it.
func (b *budget) take(ctx context.Context, n int64) error {
	return b.takeWhen(ctx, n, func() (bool, error) {
		if b.used+n > b.limit && b.waiting+n > b.limit {
			return false, markPart(PartUsage, fmt.Errorf("the batches that make up one chunk take more than %d bytes, half of --max-memory: lower --chunk-rows, or raise --max-memory", b.limit))
		}
		return b.used+n <= b.limit, nil
	})
}

// expect waits until there is ample room for n bytes, or until no held batch
// will give any back. Nothing is taken.
func (b *budget) expect(ctx context.Context, n int64) error {
	return b.takeWhen(ctx, 0, func() (bool, error) {
		return b.used+n <= b.ample || b.used <= b.waiting, nil
	})
}

// takeWhen takes n bytes as soon as may says so.
func (b *budget) takeWhen(ctx context.Context, n int64, may func() (bool, error)) error {
	for {
		b.mu.Lock()
		ok, err := may()
		if ok {
			b.used += n
		}
		changed := b.changed
		b.mu.Unlock()
		if ok || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// give returns n bytes.
func (b *budget) give(n int64) { b.change(func() { b.used -= n }) }

// wait says how many of the bytes belong to batches that wait for more.
func (b *budget) wait(n int64) { b.change(func() { b.waiting = n }) }

func (b *budget) change(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
	close(b.changed)
	b.changed = make(chan struct{})
}

// job is one column of one chunk of rows.
type job struct {
	column int
	rows   *rowChunk
	bytes  int64    // that the work takes, beside the spans
	spans  [][]byte // of the input's memory that it reads
}

// work bounds the memory of the jobs that are under way.
type work struct {
	*budget
	jobs int
}

// begin waits until there is room for a job that takes n bytes, or until no
// other is under way.
func (w *work) begin(ctx context.Context, n int64) error {
	return w.takeWhen(ctx, n, func() (bool, error) {
		ok := w.jobs == 0 || w.used+n <= w.limit
		if ok {
			w.jobs++
		}
		return ok, nil
	})
}

// end ends a job, and gives back n bytes.
func (w *work) end(n int64) {
	w.change(func() { w.jobs, w.used = w.jobs-1, w.used-n })
}

// emptyTextBytes is how many bytes an element of no text takes while it is encoded.
const emptyTextBytes = 24

// plan says what working on a column of a chunk takes. More than the share of
// the work is had alone; what could not be had beside the held batches even then
// is an error.
func (c *conversion) plan(j *job) error {
	plan := c.columns[j.column]
	if plan.kind == kindNull {
		return nil
	}
	parts := j.rows.parts(j.column)
	var input float64
	err := catchPanic(func() error {
		for _, p := range parts {
			j.spans = append(j.spans, p.regions()...)
		}
		for _, span := range j.spans {
			input += float64(len(span))
		}
		return nil
	})
	if err != nil {
		return partErrorf(PartInput, "column %q: %w", plan.name, err)
	}
	// The last chunk is encoded as a whole one.
	rows := float64(max(j.rows.rows, c.grid.chunkRows))
	padding := rows - float64(j.rows.rows)
	values, masks := input+8*rows+emptyTextBytes*padding, rows
	if plan.kind == kindFixed || plan.kind == kindDictionary {
		values = rows * plan.rowBytes(nil, 0)
	}
	if plan.isList() {
		masks += rows * float64(plan.layout.elements())
	}
	// An encoder that is used again has the tables of its largest chunk.
	c.tables = max(c.tables, c.options.Codec.tableBytes(values))
	// What is made is then encoded, which hardly makes it larger.
	need := 2*(values+masks) + float64(outside(int64(c.tables)))
	if plan.kind == kindFixed && plan.layout.viewable() && len(parts) == 1 && parts[0].values.NullN() == 0 && padding == 0 {
		need -= values // shown, not made
	}
	if most := c.options.MaxMemory / heldShare; need > float64(most) {
		return partErrorf(PartUsage, "column %q: encoding one chunk takes %.0f bytes, more than half of --max-memory, %d: lower --chunk-rows, or raise --max-memory", plan.name, need, most)
	}
	j.bytes = int64(need)
	return nil
}

// hostAllocator is a device's allocator of host memory that remembers whether an
// allocation failed: of the panic that tells of it, arrow-go passes on no more
// than the text, which looks like a fault of the input.
type hostAllocator struct {
	memory.Allocator
	failed atomic.Bool
}

func (m *hostAllocator) Allocate(size int) (b []byte) {
	m.watch(func() { b = m.Allocator.Allocate(size) })
	return b
}

func (m *hostAllocator) Reallocate(size int, b []byte) []byte {
	m.watch(func() { b = m.Allocator.Reallocate(size, b) })
	return b
}

// watch runs f. A panic goes on.
func (m *hostAllocator) watch(f func()) {
	panics := true
	defer func() {
		if panics {
			m.failed.Store(true)
		}
	}()
	f()
	panics = false
}

// part says which part a failed read is to be blamed on.
func (m *hostAllocator) part(err error) Part {
	if m.failed.Load() {
		return PartDevice
	}
	return partOf(err, PartInput)
}

// cachingAllocator is an allocator that gives freed memory out again. A conversion
// needs buffers of the same few sizes over and over, and new memory costs a
// page fault and a zeroing every 4 KiB, more than what is then done with it.
//
// Memory holds anything: see zeroed.
type cachingAllocator struct {
	upstream memory.Allocator
	most     int64 // of bytes in use and idle, unless those in use are more
	idleMost int64 // of idle bytes, unless they are one buffer

	mu    sync.Mutex
	idle  map[int][][]byte // by capacity
	bytes int64            // in idle
	used  int64
}

// newCachingAllocator keeps idle bytes, but hardly more than held and idle ones together.
func newCachingAllocator(upstream memory.Allocator, held, idle int64) *cachingAllocator {
	return &cachingAllocator{upstream: upstream, most: held + idle, idleMost: idle, idle: map[int][][]byte{}}
}

// classOf rounds a size up, to at most an eighth more.
func classOf(size int) int {
	step := max(1<<max(bits.Len(uint(size))-4, 0), 64)
	return (size + step - 1) / step * step
}

func (r *cachingAllocator) Allocate(size int) []byte {
	class := classOf(size)
	r.mu.Lock()
	r.used += int64(class)
	if list := r.idle[class]; len(list) > 0 {
		b := list[len(list)-1]
		r.idle[class] = list[:len(list)-1]
		r.bytes -= int64(class)
		r.mu.Unlock()
		return b[:size]
	}
	if r.used+r.bytes > r.most {
		r.drop()
	}
	r.mu.Unlock()
	return r.upstream.Allocate(class)[:size:class]
}

func (r *cachingAllocator) Reallocate(size int, b []byte) []byte {
	if size <= cap(b) {
		return b[:size]
	}
	moved := r.Allocate(size)
	copy(moved, b)
	r.Free(b)
	return moved
}

func (r *cachingAllocator) Free(b []byte) {
	class := cap(b)
	r.mu.Lock()
	defer r.mu.Unlock()
	if class == 0 || class != classOf(class) {
		r.upstream.Free(b)
		return
	}
	r.used -= int64(class)
	if r.bytes+int64(class) > r.idleMost {
		if int64(class) <= r.idleMost {
			r.upstream.Free(b)
			return
		}
		r.drop() // the batches are large, and the next will want a buffer like this
	}
	r.idle[class] = append(r.idle[class], b[:0])
	r.bytes += int64(class)
}

// drop lets go of all that is idle.
func (r *cachingAllocator) drop() {
	for _, list := range r.idle {
		for _, b := range list {
			r.upstream.Free(b)
		}
	}
	clear(r.idle)
	r.bytes = 0
}

// limitedAllocator is an allocator that refuses single allocations above a limit, so
// that a lying length in a malformed input is an error and not the end of the
// program's memory. arrow-go has no way to return the error, so it panics;
// protect catches it.
type limitedAllocator struct {
	memory.Allocator
	limit int64
}

func (l *limitedAllocator) Allocate(size int) []byte {
	l.check(size)
	return l.Allocator.Allocate(size)
}

func (l *limitedAllocator) Reallocate(size int, b []byte) []byte {
	l.check(size)
	return l.Allocator.Reallocate(size, b)
}

func (l *limitedAllocator) check(size int) {
	if int64(size) > l.limit {
		panic(fmt.Errorf("one buffer of %d bytes is over the limit of %d (see --max-memory)", size, l.limit))
	}
}

// zeroingAllocator gives memory that is 0, as arrow-go's Parquet reader takes for granted: of the
// offsets of lists it writes all but the first.
type zeroingAllocator struct{ memory.Allocator }

func (z zeroingAllocator) Allocate(size int) []byte {
	b := z.Allocator.Allocate(size)
	clear(b)
	return b
}

func (z zeroingAllocator) Reallocate(size int, b []byte) []byte {
	had := len(b)
	b = z.Allocator.Reallocate(size, b)
	clear(b[min(had, size):])
	return b
}

// shelf is for the categories of all columns, which stay until the end.
type shelf struct{ used, most int64 }

// take takes what a value of n bytes needs: as a key, as it is kept, and as it is put
// together with all others and encoded.
func (s *shelf) take(n int) error {
	if s.used += 5*int64(n) + 100; s.used > s.most {
		return partErrorf(PartUsage, "the different values of all dictionaries take more than %d bytes, the share of --max-memory that is for them: raise --max-memory", s.most)
	}
	return nil
}
