package pool

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
