package pool

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
	raise(&a.peak, a.inUse.Load())
	raise(&a.peakCount, a.count.Load())
	raise(&a.peakHeld, a.held.Load())
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
	raise(&a.peak, then.Peak)
	raise(&a.peakCount, then.PeakCount)
	raise(&a.peakHeld, then.PeakHeld)
	return Stats{
		InUse: now.InUse - then.InUse, Peak: now.Peak - then.InUse, Total: now.Total - then.Total,
		Count: now.Count - then.Count, PeakCount: now.PeakCount - then.Count, TotalCount: now.TotalCount - then.TotalCount,
		Held: now.Held - then.Held, PeakHeld: now.PeakHeld - then.Held,
	}, true
}
