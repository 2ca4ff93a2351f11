package cudabuf

import (
	"fmt"
	"math"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/pool"
)

// PoolStats are sizes in bytes and numbers of buffers: InUse and Held now, Peak
// and PeakHeld at most, Total over time, and Count, PeakCount and TotalCount of
// buffers. Held is what was taken from the driver. Sizes count as rounded up to
// a multiple of 512.
type PoolStats = pool.Stats

// Leak is a buffer that was not released: its Address, its Size, and the Stack
// of who allocated it.
type Leak = pool.Leak

// Stats say what the pool lends and holds. They are read one by one: while
// others allocate, they need not fit together.
func (p *Pool) Stats() PoolStats {
	s := p.kind.account.Stats()
	if p.kind.held != nil && !p.closed.Load() {
		if now, peak, err := p.kind.held(); err == nil {
			s.Held, s.PeakHeld = now, peak
		}
	}
	return s
}

// ResetPeak makes what counts now the peaks, of the innermost scope if one is
// open.
func (p *Pool) ResetPeak() { p.kind.account.ResetPeak() }

// PushScope begins a scope of statistics; scopes nest.
func (p *Pool) PushScope() { p.kind.account.Push() }

// PopScope ends the innermost scope, and says what was allocated since it began.
// InUse and Count are negative where more was released. It answers false where
// no scope has begun. A StreamOrderedPool does not count Held.
func (p *Pool) PopScope() (PoolStats, bool) { return p.kind.account.Pop() }

// SetLimit bounds what the pool takes from the driver, in bytes; 0 is no bound.
// What it holds already may be more. Beyond it, allocating is
// arrowbuf.ErrOutOfMemory.
func (p *Pool) SetLimit(bytes int64) {
	if bytes <= 0 {
		bytes = math.MaxInt64
	}
	p.kind.account.SetLimit(bytes)
}

// SetLimitPercent is SetLimit by a share of the GPU's memory, of 0 to 100.
func (p *Pool) SetLimitPercent(percent float64) error {
	if !(percent > 0 && percent <= 100) {
		return fmt.Errorf("%v: a limit of %v percent, not of 0 to 100: %w", p.dev, percent, arrowbuf.ErrOutOfRange)
	}
	_, total, err := p.dev.MemInfo()
	if err == nil {
		p.SetLimit(max(int64(float64(total)*percent/100), 1))
	}
	return err
}

// Limit is what SetLimit bounds, 0 where it does not.
func (p *Pool) Limit() int64 {
	if n := p.kind.account.Limit(); n != math.MaxInt64 {
		return n
	}
	return 0
}

// SetIdleLimit bounds the released memory that is kept for later buffers, in
// bytes; at first that is a quarter of the GPU's memory. Zero keeps none, as far
// as the driver's allocations are idle as a whole. A DirectPool keeps none
// anyway.
func (p *Pool) SetIdleLimit(n int64) error { return p.kind.setIdleLimit(n) }

// Leaks are the buffers in use, in the order of their addresses, if the pool was
// made with Stacks.
func (p *Pool) Leaks() []Leak {
	if p.tracker == nil {
		return nil
	}
	return p.tracker.Leaks()
}
