package zarr

import (
	"context"
	"hash/maphash"
	"io"
	"iter"
	"math"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// parallelism returns the number of goroutines for a jobs argument: GOMAXPROCS if jobs
// is not positive.
func parallelism(jobs int) int {
	if jobs < 1 {
		return runtime.GOMAXPROCS(0)
	}
	return jobs
}

// waiting is the number of goroutines beyond GOMAXPROCS that encode or decode on the host,
// unless the caller says how many. The scheduler takes the processor from a goroutine whose C
// function or system call lasts longer than 20 us. At its return the goroutine waits for one,
// which another then uses.
const waiting = 2

// pieceBytes is how much of a chunk that the host has encoded is written to a file at once: so
// little that the goroutine mostly keeps its processor. Encoding keeps the processors
// busy: another thread that took one over would share a core with those that encode, and
// arrays were written up to 10% slower. Chunks that are their elements are written at once, which
// is faster where nothing else is done. That was measured in the page cache; where a file system
// waits for each write, pieces cost as many waits.
const pieceBytes = 64 << 10

// wholePiece is the size of pieces for values that are written at once.
const wholePiece = math.MaxInt

// pieceSize returns the size of the pieces in which chunks that a chain has encoded on the host
// are written.
func (a *Array) pieceSize(chain *codec.Chain) int {
	_, creates := a.store.(store.Creator)
	if chain.IsPlain() || !creates || store.AsRangeReader(a.store) == nil {
		return wholePiece
	}
	return pieceBytes
}

// writePieces writes data in pieces of at most some bytes.
func writePieces(w io.Writer, data []byte, size int) error {
	for piece := range slices.Chunk(data, size) {
		if _, err := w.Write(piece); err != nil {
			return err
		}
	}
	return nil
}

// The most chunks that are read or written at once where each read of the store takes a round
// trip, unless the caller says how many, and the most bytes that they have together.
const (
	remoteRequests = 64
	remoteBytes    = 512 << 20
)

// goroutines returns the number of goroutines for a jobs argument, each of which needs the
// memory of a chunk of some bytes. If jobs is not positive, they keep the processors busy, with
// some more, or the link to a store of round trips.
func (a *Array) goroutines(jobs, more int, chunk int64) int {
	if jobs > 0 {
		return jobs
	}
	n := parallelism(jobs) + more
	if store.TakesRoundTrips(a.store) {
		n = max(n, int(min(remoteRequests, remoteBytes/max(chunk, 1))))
	}
	return n
}

// chunkBytes returns the size in bytes of the largest chunk or shard. Strings count as 16 bytes.
func (a *Array) chunkBytes() int64 {
	width := int64(16)
	if dtype, ok := a.dataType.DType(); ok {
		width = dtype.Size()
	}
	shape := make([]int64, len(a.chunkGrid()))
	for i, axis := range a.chunkGrid() {
		shape[i] = axis.Max()
	}
	size, err := grid.ByteSize(shape, width)
	if err != nil {
		return math.MaxInt64
	}
	return size
}

// bytesToRead returns how many of [Array.chunkBytes] are fetched at once to read n bytes of
// elements: of a shard only some chunks, at least one.
func (a *Array) bytesToRead(n int64) int64 {
	chunk := a.chunkBytes()
	layout, sharded := a.chain.ShardLayout()
	if !sharded {
		return chunk
	}
	inner := max(chunk/max(grid.Size(layout.GridShape()), 1), 1)
	return min(chunk, max(n, inner))
}

// forEachParallel calls f for each item in up to jobs goroutines. It stops at the first
// error. Each goroutine takes items itself: one per item would wake up another thread
// whenever one ends.
func forEachParallel[T any](ctx context.Context, jobs int, items iter.Seq[T], f func(context.Context, T) error) error {
	if jobs == 1 {
		for item := range items {
			if err := f(ctx, item); err != nil {
				return err
			}
			if ctx.Err() != nil {
				break
			}
		}
		return ctx.Err()
	}
	next, stop := iter.Pull(items)
	defer stop()
	group, groupCtx := errgroup.WithContext(ctx)
	var mu sync.Mutex
	workers := 1
	var work func() error
	work = func() error {
		for groupCtx.Err() == nil {
			mu.Lock()
			item, ok := next()
			more := ok && workers < jobs
			if more {
				workers++
			}
			mu.Unlock()
			if !ok {
				return nil
			}
			if more {
				group.Go(work)
			}
			if err := f(groupCtx, item); err != nil {
				return err
			}
		}
		return nil
	}
	group.Go(work)
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// perKey has a value for each key that is in use. The zero value is ready to use. Few keys
// share a part, so goroutines with keys of their own hardly wait for each other.
type perKey[V any] [64]struct {
	mu     sync.Mutex
	values map[string]*usedValue[V]
}

type usedValue[V any] struct {
	value V
	users int // goroutines that have not called done
}

var keySeed = maphash.MakeSeed()

// use returns the value of a key, which it creates if the key has no other user. The caller must
// call done.
func (all *perKey[V]) use(key string, create func() V) (value V, done func()) {
	part := &all[maphash.String(keySeed, key)%uint64(len(all))]
	part.mu.Lock()
	defer part.mu.Unlock()
	used := part.values[key]
	if used == nil {
		if part.values == nil {
			part.values = map[string]*usedValue[V]{}
		}
		used = &usedValue[V]{value: create()}
		part.values[key] = used
	}
	used.users++
	return used.value, func() {
		part.mu.Lock()
		defer part.mu.Unlock()
		if used.users--; used.users == 0 {
			delete(part.values, key)
		}
	}
}

// keyedMutex is a mutex per key. The zero value is ready to use.
type keyedMutex struct {
	held perKey[chan struct{}] // full while a goroutine holds the mutex
}

// lock waits for the mutex of a key, unless the context is done before.
func (m *keyedMutex) lock(ctx context.Context, key string) (unlock func(), err error) {
	held, done := m.held.use(key, func() chan struct{} { return make(chan struct{}, 1) })
	select {
	case held <- struct{}{}:
		return func() { <-held; done() }, nil
	case <-ctx.Done():
		done()
		return nil, ctx.Err()
	}
}

// keyedRWMutex is a sync.RWMutex per key. The zero value is ready to use.
type keyedRWMutex struct {
	mutexes perKey[*sync.RWMutex]
}

func newRWMutex() *sync.RWMutex { return new(sync.RWMutex) }

func (m *keyedRWMutex) lock(key string) (unlock func()) {
	mutex, done := m.mutexes.use(key, newRWMutex)
	mutex.Lock()
	return func() { mutex.Unlock(); done() }
}

func (m *keyedRWMutex) rLock(key string) (unlock func()) {
	mutex, done := m.mutexes.use(key, newRWMutex)
	mutex.RLock()
	return func() { mutex.RUnlock(); done() }
}
