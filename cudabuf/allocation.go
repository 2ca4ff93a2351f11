package cudabuf

import "sync/atomic"

// allocation is memory of the driver or of another owner, which buffers show.
// It has a reference from the buffer that owns it, and one from each graph that
// works on it.
type allocation struct {
	id   uint64 // tells allocations apart and orders them
	refs atomic.Int64
	uses uses
	// sharing says how other processes get at the memory, nil where they do
	// not: memory of the pool, and of other libraries.
	sharing *sharing
	// owner takes the memory back.
	owner owner
}

// owner is who memory comes from. The queues in pending may still be using what
// it takes back.
type owner interface {
	takeBack(a *allocation, pending []*queue)
}

// ownerFunc is an owner of one allocation.
type ownerFunc func(pending []*queue)

func (f ownerFunc) takeBack(_ *allocation, pending []*queue) { f(pending) }

var allocations atomic.Uint64

func newAllocation(free func(pending []*queue)) *allocation {
	a := &allocation{}
	a.belong(ownerFunc(free))
	return a
}

// belong begins the allocation's life, with one reference.
func (a *allocation) belong(o owner) {
	a.id, a.owner = allocations.Add(1), o
	a.refs.Store(1)
}

// tryRetain adds a reference, unless the memory is on its way back.
func (a *allocation) tryRetain() bool {
	for {
		n := a.refs.Load()
		if n == 0 {
			return false
		}
		if a.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (a *allocation) release() {
	if a.refs.Add(-1) == 0 {
		a.owner.takeBack(a, a.uses.pending())
	}
}

// wait returns when no stream uses the memory any more.
func (a *allocation) wait() error {
	for _, q := range a.uses.pending() {
		if err := q.synchronize(); err != nil {
			return err
		}
	}
	return nil
}
