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

// lend counts a block as in use.
func (a *Account) lend(n int64) {
	raise(&a.peak, a.inUse.Add(n))
	raise(&a.peakCount, a.count.Add(1))
	a.total.Add(n)
	a.totalCount.Add(1)
}

// takeBack counts a block as in use no more. It comes before the block is lent
// again, so that no byte is ever counted twice.
func (a *Account) takeBack(n int64) {
	a.inUse.Add(-n)
	a.count.Add(-1)
}

// excess is what is held and not lent, beyond the idle limit.
func (a *Account) excess() int64 { return a.held.Load() - a.inUse.Load() - a.idleLimit.Load() }

// hold counts n bytes more as held and gets them by alloc, within the limit.
func (a *Account) hold(n int64, alloc func(n int64) (uintptr, error)) (uintptr, error) {
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
	raise(&a.peakHeld, held)
	return address, nil
}

// drop counts n bytes as held no more.
func (a *Account) drop(n int64) { a.held.Add(-n) }

// unused fails while a block is lent.
func (a *Account) unused() error {
	if n := a.inUse.Load(); n > 0 {
		return fmt.Errorf("%d bytes still in use", n)
	}
	return nil
}

// explain says how things stood when there was no memory.
func (a *Account) explain(want int64, err error) error {
	if !outOfMemory(err) {
		return err
	}
	limit := ""
	if l := a.limit.Load(); l != math.MaxInt64 {
		limit = fmt.Sprintf(", limit %d", l)
	}
	return fmt.Errorf("%d bytes wanted, %d in use, %d held%s: %w", want, a.inUse.Load(), a.held.Load(), limit, err)
}

func raise(peak *atomic.Int64, n int64) {
	for old := peak.Load(); n > old; old = peak.Load() {
		if peak.CompareAndSwap(old, n) {
			return
		}
	}
}
