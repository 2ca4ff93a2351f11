package pool

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Stats are sizes in bytes and counts of blocks. Sizes are rounded up to Align.
type Stats struct {
	InUse      int64 // allocated by Get and not freed by Put
	Held       int64 // allocated from the driver: in use, idle, or pending on a stream
	Peak       int64 // maximum of InUse
	PeakHeld   int64 // maximum of Held
	Total      int64 // sum of all allocations
	Count      int64 // blocks in use
	PeakCount  int64 // maximum of Count
	TotalCount int64 // number of allocations
}

// Account counts the memory of a pool and enforces its limits. Each kind of
// pool has one.
type Account struct {
	// These change with each call.
	inUse, total, peak           atomic.Int64
	count, totalCount, peakCount atomic.Int64
	_                            [64]byte
	// These rarely change, so they have a cache line of their own.
	held, peakHeld, limit, idleLimit atomic.Int64

	mu     sync.Mutex
	scopes []Stats // the statistics at each Push
}

func newAccount() *Account {
	a := &Account{}
	a.limit.Store(math.MaxInt64)
	a.idleLimit.Store(math.MaxInt64)
	return a
}

// Limit returns the maximum of Held, initially math.MaxInt64.
func (a *Account) Limit() int64 { return a.limit.Load() }

// SetLimit bounds Held from now on. Memory that is held already stays.
func (a *Account) SetLimit(n int64) { a.limit.Store(max(n, 0)) }

// countAlloc counts a block as in use.
func (a *Account) countAlloc(n int64) {
	raiseTo(&a.peak, a.inUse.Add(n))
	raiseTo(&a.peakCount, a.count.Add(1))
	a.total.Add(n)
	a.totalCount.Add(1)
}

// countFree counts a block as no longer in use. The pool calls it before the
// block is allocated again, so that no byte counts twice.
func (a *Account) countFree(n int64) {
	a.inUse.Add(-n)
	a.count.Add(-1)
}

// excessIdle returns the idle bytes beyond the idle limit.
func (a *Account) excessIdle() int64 { return a.held.Load() - a.inUse.Load() - a.idleLimit.Load() }

// reserve counts n more bytes as held, within the limit, and calls alloc for
// them.
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

// unreserve counts n bytes as no longer held.
func (a *Account) unreserve(n int64) { a.held.Add(-n) }

// requireUnused returns an error while a block is in use.
func (a *Account) requireUnused() error {
	if n := a.inUse.Load(); n > 0 {
		return fmt.Errorf("%d bytes still in use", n)
	}
	return nil
}

// describeFailure adds the present sizes to an out-of-memory error.
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

// Stats returns the current statistics.
func (a *Account) Stats() Stats {
	return Stats{
		InUse: a.inUse.Load(), Peak: a.peak.Load(), Total: a.total.Load(),
		Count: a.count.Load(), PeakCount: a.peakCount.Load(), TotalCount: a.totalCount.Load(),
		Held: a.held.Load(), PeakHeld: a.peakHeld.Load(),
	}
}

// ResetPeak sets the peaks of the innermost scope to the current values.
func (a *Account) ResetPeak() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.resetPeak()
}

// resetPeak also raises the peaks after it stores them, because an allocation
// may change the values between load and store.
func (a *Account) resetPeak() {
	a.peak.Store(a.inUse.Load())
	a.peakCount.Store(a.count.Load())
	a.peakHeld.Store(a.held.Load())
	raiseTo(&a.peak, a.inUse.Load())
	raiseTo(&a.peakCount, a.count.Load())
	raiseTo(&a.peakHeld, a.held.Load())
}

// Push begins a scope inside the current ones.
func (a *Account) Push() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.scopes = append(a.scopes, a.Stats())
	a.resetPeak()
}

// Pop ends the innermost scope and returns the changes since it began. InUse,
// Held and Count are negative if more was freed than allocated. Pop reports
// false if no scope has begun.
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

func raiseTo(peak *atomic.Int64, n int64) {
	for old := peak.Load(); n > old; old = peak.Load() {
		if peak.CompareAndSwap(old, n) {
			return
		}
	}
}
