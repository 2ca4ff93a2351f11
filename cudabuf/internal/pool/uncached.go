package pool

import (
	"errors"
	"sync"
)

// Direct asks the driver for every block, and waits for the pending streams
// before it gives one back.
type Direct[S comparable] struct {
	account *Account
	up      Upstream[S]
}

// NewDirect needs Alloc, Free and Wait.
func NewDirect[S comparable](up Upstream[S]) *Direct[S] {
	return &Direct[S]{newAccount(), up}
}

// Account is what the pool lends, and so holds.
func (d *Direct[S]) Account() *Account { return d.account }

// Get is Pool's.
func (d *Direct[S]) Get(n int64, _ S) (*Block[S], error) {
	n, err := round(n)
	if err != nil || n == 0 {
		return &Block[S]{}, err
	}
	address, err := d.account.hold(n, d.up.Alloc)
	if err != nil {
		return nil, d.account.explain(n, err)
	}
	d.account.lend(n)
	return &Block[S]{Address: address, Size: n, charge: n}, nil
}

// Put is Pool's.
func (d *Direct[S]) Put(b *Block[S], pending []S) error {
	if b.Address == 0 {
		return nil
	}
	if err := b.giveBack(nil); err != nil {
		return err
	}
	d.account.takeBack(b.charge)
	var failure error
	for _, s := range pending {
		if err := d.up.Wait(s); failure == nil {
			failure = err
		}
	}
	if err := d.up.Free(b.Address); failure == nil {
		failure = err
	}
	d.account.drop(b.charge)
	return failure
}

// Trim has nothing to give back.
func (d *Direct[S]) Trim() error { return nil }

// Forget has nothing to forget.
func (d *Direct[S]) Forget(S) {}

// Close is Pool's.
func (d *Direct[S]) Close() error { return d.account.unused() }

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
	account *Account
	up      StreamOrdered[S]
	home    S

	mu    sync.Mutex
	freed map[S]bool // the streams in whose order something was freed
}

// NewOrdered makes a pool over a driver's own.
func NewOrdered[S comparable](up StreamOrdered[S], home S) *Ordered[S] {
	return &Ordered[S]{account: newAccount(), up: up, home: home, freed: map[S]bool{}}
}

// Account is what the pool lends. What the driver keeps for it is not in it.
func (o *Ordered[S]) Account() *Account { return o.account }

// Get is Pool's. Where the driver has no more, it waits for the streams in whose
// order memory was freed, and asks once more.
func (o *Ordered[S]) Get(n int64, s S) (*Block[S], error) {
	n, err := round(n)
	if err != nil || n == 0 {
		return &Block[S]{}, err
	}
	address, err := o.account.hold(n, func(n int64) (uintptr, error) { return o.alloc(n, s) })
	if err != nil {
		return nil, o.account.explain(n, err)
	}
	o.account.lend(n)
	return &Block[S]{Address: address, Size: n, charge: n}, nil
}

func (o *Ordered[S]) alloc(n int64, s S) (uintptr, error) {
	var none S
	on := s
	if s == none {
		on = o.home
	}
	address, err := o.up.Alloc(n, on)
	if outOfMemory(err) {
		if failure := errors.Join(o.wait(), o.up.Trim()); failure != nil {
			return 0, failure
		}
		address, err = o.up.Alloc(n, on)
	}
	if err != nil || s != none {
		return address, err
	}
	if err := o.up.Wait(o.home); err != nil {
		return 0, errors.Join(err, o.up.Free(address, o.home))
	}
	return address, nil
}

// Put is Pool's. Where streams cannot be ordered, the memory stays held.
func (o *Ordered[S]) Put(b *Block[S], pending []S) error {
	if b.Address == 0 {
		return nil
	}
	if err := b.giveBack(nil); err != nil {
		return err
	}
	o.account.takeBack(b.charge)
	on := o.home
	if len(pending) > 0 {
		on = pending[0]
		for _, s := range pending[1:] {
			if err := o.up.Order(s, on); err != nil {
				return err
			}
		}
	}
	o.mu.Lock()
	o.freed[on] = true
	o.mu.Unlock()
	err := o.up.Free(b.Address, on)
	o.account.drop(b.charge)
	return err
}

// wait returns when all that was freed is.
func (o *Ordered[S]) wait() error {
	o.mu.Lock()
	streams := o.freed
	o.freed = map[S]bool{}
	o.mu.Unlock()
	for s := range streams {
		if err := o.up.Wait(s); err != nil {
			return err
		}
	}
	return nil
}

// Trim is Pool's.
func (o *Ordered[S]) Trim() error { return o.up.Trim() }

// Forget is Pool's.
func (o *Ordered[S]) Forget(s S) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.freed, s)
}

// Close is Pool's.
func (o *Ordered[S]) Close() error {
	if err := o.account.unused(); err != nil {
		return err
	}
	return errors.Join(o.wait(), o.up.Trim())
}
