package pool

import (
	"errors"
	"sync"
)

// Direct is a pool that allocates each block from the driver. Put waits for the
// pending streams before it frees the block.
type Direct[S comparable] struct {
	account  *Account
	upstream Upstream[S]
}

// NewDirect returns a Direct pool. It needs only Alloc, Free and Wait of up.
func NewDirect[S comparable](up Upstream[S]) *Direct[S] {
	return &Direct[S]{newAccount(), up}
}

// Account returns the statistics and limits of the pool. Held equals InUse.
func (d *Direct[S]) Account() *Account { return d.account }

// Get implements Pool.
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

// Put implements Pool.
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

// Trim does nothing, because the pool has no idle memory.
func (d *Direct[S]) Trim() error { return nil }

// Close implements Pool.
func (d *Direct[S]) Close() error { return d.account.requireUnused() }

// StreamOrdered is stream-ordered allocation of a driver (cuMemAllocAsync,
// cuMemFreeAsync), with Order and Wait of Upstream.
type StreamOrdered[S comparable] struct {
	Alloc func(n int64, s S) (address uintptr, err error)
	Free  func(address uintptr, s S) error
	// Trim returns memory that the driver caches to the device.
	Trim func() error

	Order func(before, after S) error
	Wait  func(s S) error
}

// Ordered is a pool that allocates and frees each block in the order of a
// stream that uses it. Memory for no stream belongs to a default stream that
// has no other operations.
type Ordered[S comparable] struct {
	account       *Account
	upstream      StreamOrdered[S]
	defaultStream S

	mu    sync.Mutex
	freed map[S]bool // streams with a free since the last waitFreed
}

// NewOrdered returns a pool that uses the driver's stream-ordered allocation.
func NewOrdered[S comparable](up StreamOrdered[S], defaultStream S) *Ordered[S] {
	return &Ordered[S]{account: newAccount(), upstream: up, defaultStream: defaultStream, freed: map[S]bool{}}
}

// Account returns the statistics and limits of the pool. It does not count
// memory that the driver caches.
func (o *Ordered[S]) Account() *Account { return o.account }

// Get implements Pool. If the driver has no memory, Get waits for the streams
// with pending frees and tries once more.
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

// Put implements Pool. If ordering the streams fails, the memory stays held.
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

// waitFreed waits until all frees have run.
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

// Trim implements Pool.
func (o *Ordered[S]) Trim() error { return o.upstream.Trim() }

// Close implements Pool.
func (o *Ordered[S]) Close() error {
	if err := o.account.requireUnused(); err != nil {
		return err
	}
	return errors.Join(o.waitFreed(), o.upstream.Trim())
}
