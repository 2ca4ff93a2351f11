package pool_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/pool"
	"github.com/stretchr/testify/assert"
)

type (
	block   = pool.Block[int]
	memPool = pool.Pool[int]
)

// gpu is a simulated driver with streams 1 to 8. It records the operations of
// each stream, the memory that they use, and their order. It reports memory
// that is reused too early, freed too early, or allocated twice.
type gpu struct {
	t testing.TB

	mu       sync.Mutex
	capacity int64
	used     int64
	next     uintptr
	live     map[uintptr]int64
	allocs   int
	frees    int
	waits    int
	orders   int
	failing  func(call string) error // may be nil

	streams map[int]*stream
	owners  map[uintptr]*owner // for each 512 bytes
}

type stream struct {
	submitted  int64         // number of operations
	done       int64         // number of finished operations
	after      map[int]int64 // the next operation waits for this many of each stream
	operations []map[int]int64
}

// owner is the last block that contained some memory.
type owner struct {
	allocated bool
	stream    int           // the stream of Get
	uses      map[int]int64 // its last operation on each stream
	previous  *owner        // the owner before, while its operations may run
}

func newGPU(t testing.TB, capacity int64) *gpu {
	g := &gpu{t: t, capacity: capacity, next: 1 << 21, live: map[uintptr]int64{}, streams: map[int]*stream{}, owners: map[uintptr]*owner{}}
	for s := range 9 {
		g.streams[s] = &stream{after: map[int]int64{}}
	}
	return g
}

func (g *gpu) failure(call string) error {
	if g.failing == nil {
		return nil
	}
	return g.failing(call)
}

func (g *gpu) Alloc(n int64) (uintptr, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.failure("alloc"); err != nil {
		return 0, err
	}
	if n <= 0 || n%pool.Align != 0 {
		g.t.Errorf("driver allocation of %d bytes", n)
	}
	if g.used+n > g.capacity {
		return 0, fmt.Errorf("mock: %w", arrowbuf.ErrOutOfMemory)
	}
	a := g.next
	g.next += uintptr(n)
	g.used += n
	g.live[a] = n
	g.allocs++
	return a, nil
}

func (g *gpu) Free(a uintptr) error { return g.free(a, 0) }

// free fails unless the operations that use the memory are done, or run before
// the next operation of s.
func (g *gpu) free(a uintptr, s int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, ok := g.live[a]
	if !ok {
		g.t.Errorf("the driver never allocated %#x", a)
		return nil
	}
	for p := a; p < a+uintptr(n); p += pool.Align {
		if h := g.owners[p]; h != nil {
			if h.allocated {
				g.t.Errorf("%#x is freed while it is allocated", p)
			}
			g.mustFollow(h, s, "freed")
			delete(g.owners, p)
		}
	}
	delete(g.live, a)
	g.used -= n
	g.frees++
	return g.failure("free")
}

// Done counts waits as operations, as cuStreamQuery does.
func (g *gpu) Done(s int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	x := g.streams[s]
	done := x.done == x.submitted
	for t, n := range x.after {
		done = done && g.streams[t].done >= n
	}
	return done
}

func (g *gpu) Order(before, after int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.orders++
	if err := g.failure("order"); err != nil {
		return err
	}
	b, a := g.streams[before], g.streams[after]
	for s, n := range b.after {
		a.after[s] = max(a.after[s], n)
	}
	a.after[before] = max(a.after[before], b.submitted)
	return nil
}

func (g *gpu) Wait(s int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waits++
	if err := g.failure("wait"); err != nil {
		return err
	}
	g.finish(s, g.streams[s].submitted)
	for t, n := range g.streams[s].after {
		g.finish(t, n)
	}
	return nil
}

// finish runs the first n operations of a stream, and the operations that they
// wait for.
func (g *gpu) finish(s int, n int64) {
	x := g.streams[s]
	for x.done < n {
		x.done++
		for t, m := range x.operations[x.done-1] {
			g.finish(t, m)
		}
	}
}

// progress runs one operation of a stream.
func (g *gpu) progress(s int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.finish(s, min(g.streams[s].done+1, g.streams[s].submitted))
}

// mustFollow fails unless all uses of h are done, or run before the next
// operation of s.
func (g *gpu) mustFollow(h *owner, s int, what string) {
	for ; h != nil; h = h.previous {
		for t, n := range h.uses {
			if t != s && g.streams[t].done < n && (s == 0 || g.streams[s].after[t] < n) {
				g.t.Errorf("memory that stream %d still uses is %s on stream %d", t, what, s)
			}
		}
	}
}

// markAllocated records a block that a pool allocated for s.
func (g *gpu) markAllocated(b *block, s int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b.Address%pool.Align != 0 {
		g.t.Errorf("%#x is not aligned", b.Address)
	}
	for p := b.Address; p < b.Address+uintptr(b.Size); p += pool.Align {
		was := g.owners[p]
		if was != nil && was.allocated {
			g.t.Errorf("%#x is allocated twice", p)
		}
		g.mustFollow(was, s, "allocated")
		g.owners[p] = &owner{allocated: true, stream: s, uses: map[int]int64{}, previous: g.ifBusy(was)}
	}
}

// ifBusy returns h if its operations are not done, and nil otherwise.
func (g *gpu) ifBusy(h *owner) *owner {
	if h != nil {
		h.previous = nil // mustFollow checked it when h was allocated
		for t, n := range h.uses {
			if g.streams[t].done < n {
				return h
			}
		}
	}
	return nil
}

// use submits an operation on a block to a stream.
func (g *gpu) use(b *block, s int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	x := g.streams[s]
	for p := b.Address; p < b.Address+uintptr(b.Size); p += pool.Align {
		h := g.owners[p]
		g.mustFollow(h.previous, s, "used")
		h.uses[s] = x.submitted + 1
	}
	x.submitted++
	x.operations = append(x.operations, maps.Clone(x.after))
}

// markFreed records that a block was freed. It returns the streams that may
// still use it.
func (g *gpu) markFreed(b *block) []int {
	g.mu.Lock()
	defer g.mu.Unlock()
	pending := map[int]bool{}
	for p := b.Address; p < b.Address+uintptr(b.Size); p += pool.Align {
		h := g.owners[p]
		h.allocated = false
		for s, n := range h.uses {
			if g.streams[s].done < n {
				pending[s] = true
			}
		}
		if h.stream != 0 && g.ifBusy(h.previous) != nil {
			pending[h.stream] = true
		}
	}
	return slices.Collect(maps.Keys(pending))
}

func (g *gpu) upstream() pool.Upstream[int] {
	return pool.Upstream[int]{Alloc: g.Alloc, Free: g.Free, Done: g.Done, Order: g.Order, Wait: g.Wait}
}

func (g *gpu) ordered() pool.StreamOrdered[int] {
	return pool.StreamOrdered[int]{
		Alloc: func(n int64, _ int) (uintptr, error) { return g.Alloc(n) },
		Free:  g.free, Trim: func() error { return nil }, Order: g.Order, Wait: g.Wait,
	}
}

// accounted is the common interface of all pools.
type accounted interface {
	memPool
	Account() *pool.Account
}

// forEachKind runs a test on each kind of pool with its own driver, and checks
// for leaks.
func forEachKind(t *testing.T, test func(t *testing.T, g *gpu, p accounted)) {
	t.Helper()
	for name, open := range map[string]func(g *gpu) accounted{
		"caching": func(g *gpu) accounted { return pool.NewCaching(g.upstream(), pool.Config{Granularity: 1 << 13}) },
		"caching without": func(g *gpu) accounted {
			c := pool.NewCaching(g.upstream(), pool.Config{Granularity: 1 << 13, Slack: -1})
			assert.NoError(t, c.SetIdleLimit(0))
			return c
		},
		"direct":  func(g *gpu) accounted { return pool.NewDirect(g.upstream()) },
		"ordered": func(g *gpu) accounted { return pool.NewOrdered(g.ordered(), 8) },
	} {
		t.Run(name, func(t *testing.T) {
			g := newGPU(t, 1<<22)
			p := open(g)
			test(t, g, p)
			assert.NoError(t, p.Close())
			assert.Empty(t, g.live, "leaked")
			s := p.Account().Stats()
			assert.Zero(t, s.InUse)
			assert.Zero(t, s.Count)
			assert.Zero(t, s.Held)
		})
	}
}

// getBlock allocates a block and records it with the driver.
func getBlock(t testing.TB, g *gpu, p memPool, n int64, s int) *block {
	t.Helper()
	b, err := p.Get(n, s)
	if !assert.NoError(t, err) {
		t.FailNow()
	}
	assert.GreaterOrEqual(t, b.Size, n)
	g.markAllocated(b, s)
	return b
}

func putBlock(t testing.TB, g *gpu, p memPool, b *block) {
	t.Helper()
	assert.NoError(t, p.Put(b, g.markFreed(b)))
}

func newRand(n uint64) *rand.Rand { return rand.New(rand.NewPCG(n, 7)) }

// getAddress returns the address of a block that is freed at the end of the
// test.
func getAddress(t testing.TB, g *gpu, p memPool, n int64) uintptr {
	t.Helper()
	b := getBlock(t, g, p, n, 0)
	t.Cleanup(func() { putBlock(t, g, p, b) })
	return b.Address
}
