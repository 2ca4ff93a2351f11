package pool

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Stats are sizes in bytes, and numbers of blocks. Sizes count as rounded up to
// Align.
type Stats struct {
	InUse      int64 // lent
	Held       int64 // taken from the driver: lent, idle, or pending on a stream
	Peak       int64 // the most that was lent at once
	PeakHeld   int64 // the most that was held at once
	Total      int64 // lent over time
	Count      int64 // of blocks lent
	PeakCount  int64
	TotalCount int64
}

// Account is what a pool lends and holds, and how much of it may be. Every kind
// of pool keeps one.
type Account struct {
	// These change with every call,
	inUse, total, peak           atomic.Int64
	count, totalCount, peakCount atomic.Int64
	_                            [64]byte
	// these seldom: another cache line.
	held, peakHeld, limit, idleLimit atomic.Int64

	mu     sync.Mutex
	scopes []Stats // what counted when each began
}

func newAccount() *Account {
	a := &Account{}
	a.limit.Store(math.MaxInt64)
	a.idleLimit.Store(math.MaxInt64)
	return a
}

// Limit is the most that the pool may hold, at first math.MaxInt64.
func (a *Account) Limit() int64 { return a.limit.Load() }

// SetLimit bounds what the pool takes from the driver from now on.
func (a *Account) SetLimit(n int64) { a.limit.Store(max(n, 0)) }

// countAlloc counts a block as in use.
func (a *Account) countAlloc(n int64) {
	raiseTo(&a.peak, a.inUse.Add(n))
	raiseTo(&a.peakCount, a.count.Add(1))
	a.total.Add(n)
	a.totalCount.Add(1)
}

// countFree counts a block as in use no more. It comes before the block is lent
// again, so that no byte is ever counted twice.
func (a *Account) countFree(n int64) {
	a.inUse.Add(-n)
	a.count.Add(-1)
}

// excessIdle is what is held and not lent, beyond the idle limit.
func (a *Account) excessIdle() int64 { return a.held.Load() - a.inUse.Load() - a.idleLimit.Load() }

// reserve counts n bytes more as held and gets them by alloc, within the limit.
func (a *Account) reserve(n int64, alloc func(n int64) (uintptr, error)) (uintptr, error) {
	held := a.held.Add(n)
	if limit := a.limit.Load(); held > limit {
		a.held.Add(-n)
		return 0, fmt.Errorf("limit reached: %w", arrowbuf.ErrOutOfMemory)
	}
	address, err := alloc(n)
	if err != nil {
		a.held.Add(-n)
		return 0, err
	}
	raiseTo(&a.peakHeld, held)
	return address, nil
}

// unreserve counts n bytes as held no more.
func (a *Account) unreserve(n int64) { a.held.Add(-n) }

// requireUnused fails while a block is lent.
func (a *Account) requireUnused() error {
	if n := a.inUse.Load(); n > 0 {
		return fmt.Errorf("%d bytes still in use", n)
	}
	return nil
}

// describeFailure says how things stood when there was no memory.
func (a *Account) describeFailure(want int64, err error) error {
	if !outOfMemory(err) {
		return err
	}
	limit := ""
	if l := a.limit.Load(); l != math.MaxInt64 {
		limit = fmt.Sprintf(", limit %d", l)
	}
	return fmt.Errorf("%d bytes wanted, %d in use, %d held%s: %w", want, a.inUse.Load(), a.held.Load(), limit, err)
}

func raiseTo(peak *atomic.Int64, n int64) {
	for old := peak.Load(); n > old; old = peak.Load() {
		if peak.CompareAndSwap(old, n) {
			return
		}
	}
}

// Stats are the sizes and numbers of now.
func (a *Account) Stats() Stats {
	return Stats{
		InUse: a.inUse.Load(), Peak: a.peak.Load(), Total: a.total.Load(),
		Count: a.count.Load(), PeakCount: a.peakCount.Load(), TotalCount: a.totalCount.Load(),
		Held: a.held.Load(), PeakHeld: a.peakHeld.Load(),
	}
}

// ResetPeak makes what counts now the peaks, of the innermost scope if there is
// one.
func (a *Account) ResetPeak() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.resetPeak()
}

// resetPeak raises after storing, since a block lent between loading and storing
// would be missed.
func (a *Account) resetPeak() {
	a.peak.Store(a.inUse.Load())
	a.peakCount.Store(a.count.Load())
	a.peakHeld.Store(a.held.Load())
	raiseTo(&a.peak, a.inUse.Load())
	raiseTo(&a.peakCount, a.count.Load())
	raiseTo(&a.peakHeld, a.held.Load())
}

// Push begins a scope, inside of those that have begun.
func (a *Account) Push() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.scopes = append(a.scopes, a.Stats())
	a.resetPeak()
}

// Pop ends the innermost scope and answers what counted since it began: InUse,
// Held and Count are negative where more was given back than got. It answers
// false where no scope has begun.
func (a *Account) Pop() (Stats, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.scopes) == 0 {
		return Stats{}, false
	}
	now, then := a.Stats(), a.scopes[len(a.scopes)-1]
	a.scopes = a.scopes[:len(a.scopes)-1]
	raiseTo(&a.peak, then.Peak)
	raiseTo(&a.peakCount, then.PeakCount)
	raiseTo(&a.peakHeld, then.PeakHeld)
	return Stats{
		InUse: now.InUse - then.InUse, Peak: now.Peak - then.InUse, Total: now.Total - then.Total,
		Count: now.Count - then.Count, PeakCount: now.PeakCount - then.Count, TotalCount: now.TotalCount - then.TotalCount,
		Held: now.Held - then.Held, PeakHeld: now.PeakHeld - then.Held,
	}, true
}
