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

// gpu is a driver and its streams, 1 and up. It knows which work has been given
// to which stream, what that work uses, and after what it runs; so it finds
// memory that is used again too early, freed too early, or lent twice.
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
	holders map[uintptr]*holder // by each 512 bytes
}

type stream struct {
	given int64         // number of works
	done  int64         // of them
	after map[int]int64 // what runs before the next work: so many of each stream's
	works []map[int]int64
	gone  bool // destroyed
}

// stream is one that is there.
func (g *gpu) stream(s int) *stream {
	x := g.streams[s]
	if x.gone {
		g.t.Errorf("stream %d was destroyed", s)
	}
	return x
}

// holder is the last that a piece of memory was lent to.
type holder struct {
	lent bool
	on   int           // the stream that it got it for
	uses map[int]int64 // its last work on each stream
	was  *holder       // the one before, while it may have work to do
}

func newGPU(t testing.TB, capacity int64) *gpu {
	g := &gpu{t: t, capacity: capacity, next: 1 << 21, live: map[uintptr]int64{}, streams: map[int]*stream{}, holders: map[uintptr]*holder{}}
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
		g.t.Errorf("the driver is asked for %d bytes", n)
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

// free checks that the work that uses the memory is done, or runs before what s
// is given next.
func (g *gpu) free(a uintptr, s int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, ok := g.live[a]
	if !ok {
		g.t.Errorf("the driver never allocated %#x", a)
		return nil
	}
	for p := a; p < a+uintptr(n); p += pool.Align {
		if h := g.holders[p]; h != nil {
			if h.lent {
				g.t.Errorf("%#x is freed while it is lent", p)
			}
			g.mustFollow(h, s, "freed")
			delete(g.holders, p)
		}
	}
	delete(g.live, a)
	g.used -= n
	g.frees++
	return g.failure("free")
}

// Done counts waits as work, as cuStreamQuery does.
func (g *gpu) Done(s int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	x := g.stream(s)
	done := x.done == x.given
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
	b, a := g.stream(before), g.stream(after)
	for s, n := range b.after {
		a.after[s] = max(a.after[s], n)
	}
	a.after[before] = max(a.after[before], b.given)
	return nil
}

func (g *gpu) Wait(s int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waits++
	if err := g.failure("wait"); err != nil {
		return err
	}
	g.finish(s, g.stream(s).given)
	for t, n := range g.streams[s].after {
		g.finish(t, n)
	}
	return nil
}

// finish lets a stream do its first n works, and what they come after.
func (g *gpu) finish(s int, n int64) {
	x := g.streams[s]
	for x.done < n {
		x.done++
		for t, m := range x.works[x.done-1] {
			g.finish(t, m)
		}
	}
}

// progress lets a stream do one work.
func (g *gpu) progress(s int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.finish(s, min(g.streams[s].done+1, g.streams[s].given))
}

// mustFollow fails unless all that h used is done, or before the next of s.
func (g *gpu) mustFollow(h *holder, s int, what string) {
	for ; h != nil; h = h.was {
		for t, n := range h.uses {
			if t != s && g.streams[t].done < n && (s == 0 || g.streams[s].after[t] < n) {
				g.t.Errorf("memory that stream %d still uses is %s on stream %d", t, what, s)
			}
		}
	}
}

// lend marks what a pool lent for s.
func (g *gpu) lend(b *block, s int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b.Address%pool.Align != 0 {
		g.t.Errorf("%#x is not aligned", b.Address)
	}
	for p := b.Address; p < b.Address+uintptr(b.Size); p += pool.Align {
		was := g.holders[p]
		if was != nil && was.lent {
			g.t.Errorf("%#x is lent twice", p)
		}
		g.mustFollow(was, s, "lent")
		g.holders[p] = &holder{lent: true, on: s, uses: map[int]int64{}, was: g.busy(was)}
	}
}

func (g *gpu) busy(h *holder) *holder {
	if h != nil {
		h.was = nil // it was followed when h was lent
		for t, n := range h.uses {
			if g.streams[t].done < n {
				return h
			}
		}
	}
	return nil
}

// use gives s work on a block.
func (g *gpu) use(b *block, s int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	x := g.streams[s]
	for p := b.Address; p < b.Address+uintptr(b.Size); p += pool.Align {
		h := g.holders[p]
		g.mustFollow(h.was, s, "used")
		h.uses[s] = x.given + 1
	}
	x.given++
	x.works = append(x.works, maps.Clone(x.after))
}

// back marks a block as not lent, and answers which streams may still use it.
func (g *gpu) back(b *block) []int {
	g.mu.Lock()
	defer g.mu.Unlock()
	pending := map[int]bool{}
	for p := b.Address; p < b.Address+uintptr(b.Size); p += pool.Align {
		h := g.holders[p]
		h.lent = false
		for s, n := range h.uses {
			if g.streams[s].done < n {
				pending[s] = true
			}
		}
		if h.on != 0 && g.busy(h.was) != nil {
			pending[h.on] = true
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

// accounted is a pool of any kind.
type accounted interface {
	memPool
	Account() *pool.Account
}

// forEachKind runs a test on a pool of every kind over a driver of its own, and
// looks for leaks.
func forEachKind(t *testing.T, test func(t *testing.T, g *gpu, p accounted)) {
	t.Helper()
	for name, open := range map[string]func(g *gpu) accounted{
		"caching": func(g *gpu) accounted { return pool.NewCaching(g.upstream(), pool.Config{Granule: 1 << 13}) },
		"caching without": func(g *gpu) accounted {
			c := pool.NewCaching(g.upstream(), pool.Config{Granule: 1 << 13, Slack: -1})
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

// get gets a block that the driver knows of as lent.
func get(t testing.TB, g *gpu, p memPool, n int64, s int) *block {
	t.Helper()
	b, err := p.Get(n, s)
	if !assert.NoError(t, err) {
		t.FailNow()
	}
	assert.GreaterOrEqual(t, b.Size, n)
	g.lend(b, s)
	return b
}

func put(t testing.TB, g *gpu, p memPool, b *block) {
	t.Helper()
	assert.NoError(t, p.Put(b, g.back(b)))
}

func seeded(n uint64) *rand.Rand { return rand.New(rand.NewPCG(n, 7)) }

// got is the address of a block that is put at the end of the test.
func got(t testing.TB, g *gpu, p memPool, n int64) uintptr {
	t.Helper()
	b := get(t, g, p, n, 0)
	t.Cleanup(func() { put(t, g, p, b) })
	return b.Address
}
