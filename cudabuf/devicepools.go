package cudabuf

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// pools are those of a device that are not closed.
type pools struct {
	own *Pool // what the device has from the start
	use atomic.Pointer[Pool]

	mu  sync.Mutex
	all []*Pool
}

// open makes the device's own pool.
func (x *pools) open(d *Device) (err error) {
	if x.own, err = d.NewPool(PoolOptions{Stacks: d.driver.stacks}); err == nil {
		x.use.Store(x.own)
	}
	return err
}

func (x *pools) add(p *Pool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.all = append(x.all, p)
}

func (x *pools) remove(p *Pool) {
	x.use.CompareAndSwap(p, x.own)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.all = slices.DeleteFunc(x.all, func(q *Pool) bool { return q == p })
}

func (x *pools) list() []*Pool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.all)
}

func (x *pools) close() error {
	var failure error
	for _, p := range x.list() {
		failure = errors.Join(failure, p.close())
	}
	return failure
}

// withLeaks lists the buffers in use behind an error, as far as pools know them.
func (x *pools) withLeaks(err error) error {
	for _, p := range x.list() {
		err = p.withLeaks(err)
	}
	return err
}

// Pool is the pool that NewBuffer and Alloc take memory from.
func (d *Device) Pool() *Pool { return d.pools.use.Load() }

// SetPool makes NewBuffer and Alloc take memory from a pool of this device, or
// for nil from the device's own again. Buffers that there are keep theirs.
func (d *Device) SetPool(p *Pool) error {
	switch {
	case p == nil:
		p = d.pools.own
	case p.dev != d:
		return fmt.Errorf("a pool of %v for %v: %w", p.dev, d, arrowbuf.ErrDevice)
	case p.closed.Load():
		return fmt.Errorf("%v: pool: %w", d, ErrClosed)
	}
	d.pools.use.Store(p)
	return nil
}
