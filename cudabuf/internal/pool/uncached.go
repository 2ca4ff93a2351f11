package pool

import (
	"errors"
	"sync"
)

// Direct asks the driver for every block, and waits for the pending streams
// before it gives one back.
type Direct[S comparable] struct {
	account  *Account
	upstream Upstream[S]
}

// NewDirect needs Alloc, Free and Wait.
func NewDirect[S comparable](up Upstream[S]) *Direct[S] {
	return &Direct[S]{newAccount(), up}
}

// Account is what the pool lends, and so holds.
func (d *Direct[S]) Account() *Account { return d.account }

// Get is Pool's.
func (d *Direct[S]) Get(n int64, _ S) (*Block[S], error) {
	n, err := roundSize(n)
	if err != nil || n == 0 {
		return &Block[S]{}, err
	}
	address, err := d.account.reserve(n, d.upstream.Alloc)
	if err != nil {
		return nil, d.account.describeFailure(n, err)
	}
	d.account.countAlloc(n)
	return &Block[S]{Address: address, Size: n, accounted: n}, nil
}

// Put is Pool's.
func (d *Direct[S]) Put(b *Block[S], pending []S) error {
	if b.Address == 0 {
		return nil
	}
	if err := b.markReturned(nil); err != nil {
		return err
	}
	d.account.countFree(b.accounted)
	var failure error
	for _, s := range pending {
		if err := d.upstream.Wait(s); failure == nil {
			failure = err
		}
	}
	if err := d.upstream.Free(b.Address); failure == nil {
		failure = err
	}
	d.account.unreserve(b.accounted)
	return failure
}

// Trim has nothing to give back.
func (d *Direct[S]) Trim() error { return nil }

// Forget has nothing to forget.
func (d *Direct[S]) Forget(S) {}

// Close is Pool's.
func (d *Direct[S]) Close() error { return d.account.requireUnused() }

// StreamOrdered is a driver's allocation in the order of a stream
// (cuMemAllocAsync, cuMemFreeAsync), and the Order and Wait of an Upstream.
type StreamOrdered[S comparable] struct {
	Alloc func(n int64, s S) (address uintptr, err error)
	Free  func(address uintptr, s S) error
	// Trim gives what the driver keeps back to the device.
	Trim func() error

	Order func(before, after S) error
	Wait  func(s S) error
}

// Ordered gets every block in the order of the stream that it is for, and gives
// it back in the order of a stream that may still use it. Memory for no stream
// is of home, a stream that does nothing else.
type Ordered[S comparable] struct {
	account       *Account
	upstream      StreamOrdered[S]
	defaultStream S

	mu    sync.Mutex
	freed map[S]bool // the streams in whose order something was freed
}

// NewOrdered makes a pool over a driver's own.
func NewOrdered[S comparable](up StreamOrdered[S], defaultStream S) *Ordered[S] {
	return &Ordered[S]{account: newAccount(), upstream: up, defaultStream: defaultStream, freed: map[S]bool{}}
}

// Account is what the pool lends. What the driver keeps for it is not in it.
func (o *Ordered[S]) Account() *Account { return o.account }

// Get is Pool's. Where the driver has no more, it waits for the streams in whose
// order memory was freed, and asks once more.
func (o *Ordered[S]) Get(n int64, s S) (*Block[S], error) {
	n, err := roundSize(n)
	if err != nil || n == 0 {
		return &Block[S]{}, err
	}
	address, err := o.account.reserve(n, func(n int64) (uintptr, error) { return o.alloc(n, s) })
	if err != nil {
		return nil, o.account.describeFailure(n, err)
	}
	o.account.countAlloc(n)
	return &Block[S]{Address: address, Size: n, accounted: n}, nil
}

func (o *Ordered[S]) alloc(n int64, s S) (uintptr, error) {
	var none S
	on := s
	if s == none {
		on = o.defaultStream
	}
	address, err := o.upstream.Alloc(n, on)
	if outOfMemory(err) {
		if failure := errors.Join(o.waitFreed(), o.upstream.Trim()); failure != nil {
			return 0, failure
		}
		address, err = o.upstream.Alloc(n, on)
	}
	if err != nil || s != none {
		return address, err
	}
	if err := o.upstream.Wait(o.defaultStream); err != nil {
		return 0, errors.Join(err, o.upstream.Free(address, o.defaultStream))
	}
	return address, nil
}

// Put is Pool's. Where streams cannot be ordered, the memory stays held.
func (o *Ordered[S]) Put(b *Block[S], pending []S) error {
	if b.Address == 0 {
		return nil
	}
	if err := b.markReturned(nil); err != nil {
		return err
	}
	o.account.countFree(b.accounted)
	on := o.defaultStream
	if len(pending) > 0 {
		on = pending[0]
		for _, s := range pending[1:] {
			if err := o.upstream.Order(s, on); err != nil {
				return err
			}
		}
	}
	o.mu.Lock()
	o.freed[on] = true
	o.mu.Unlock()
	err := o.upstream.Free(b.Address, on)
	o.account.unreserve(b.accounted)
	return err
}

// waitFreed returns when all that was freed is.
func (o *Ordered[S]) waitFreed() error {
	o.mu.Lock()
	streams := o.freed
	o.freed = map[S]bool{}
	o.mu.Unlock()
	for s := range streams {
		if err := o.upstream.Wait(s); err != nil {
			return err
		}
	}
	return nil
}

// Trim is Pool's.
func (o *Ordered[S]) Trim() error { return o.upstream.Trim() }

// Forget is Pool's.
func (o *Ordered[S]) Forget(s S) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.freed, s)
}

// Close is Pool's.
func (o *Ordered[S]) Close() error {
	if err := o.account.requireUnused(); err != nil {
		return err
	}
	return errors.Join(o.waitFreed(), o.upstream.Trim())
}
