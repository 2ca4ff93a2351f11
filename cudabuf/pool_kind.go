package cudabuf

import (
	"errors"
	"fmt"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"github.com/quiver-gpu/quiver/cudabuf/internal/pool"
)

// PoolKind says how a Pool gets memory.
type PoolKind int

const (
	// CachingPool keeps what it took from the driver (cuMemAlloc), and cuts
	// small buffers from shared allocations. It calls the driver least.
	CachingPool PoolKind = iota
	// StreamOrderedPool is a pool of the driver's (cuMemAllocFromPoolAsync,
	// cuMemFreeAsync).
	StreamOrderedPool
	// DirectPool takes every buffer from the driver (cuMemAlloc) and gives it
	// back when it is released (cuMemFree), after waiting for the streams that
	// use it. With it, compute-sanitizer sees each buffer's bounds.
	DirectPool
)

// String is the name in lower case.
func (k PoolKind) String() string {
	switch k {
	case CachingPool:
		return "caching"
	case StreamOrderedPool:
		return "stream-ordered"
	case DirectPool:
		return "direct"
	}
	return fmt.Sprintf("PoolKind(%d)", int(k))
}

// poolKind is what differs between the kinds.
type poolKind struct {
	books   pool.Pool[*queue]
	account *pool.Account
	// setIdleLimit bounds what is kept.
	setIdleLimit func(n int64) error
	// largest is the largest idle block; nil where there is none.
	largest func() int64
	// held is what the driver's pool holds, now and at most; nil where the
	// account knows.
	held func() (now, peak int64, err error)
	// close comes after that of books.
	close func() error
}

func (d *Device) openKind(o PoolOptions) (poolKind, error) {
	nothing := func() error { return nil }
	switch o.Kind {
	case CachingPool:
		c := pool.NewCaching(d.upstream(d.memAlloc, d.memFree), pool.Config{Slack: o.Slack})
		return poolKind{books: c, account: c.Account(), setIdleLimit: c.SetIdleLimit, largest: c.Largest, close: nothing}, c.SetIdleLimit(d.idleLimit)
	case DirectPool:
		p := pool.NewDirect(d.upstream(d.memAlloc, d.memFree))
		return poolKind{books: p, account: p.Account(), setIdleLimit: func(int64) error { return nil }, close: nothing}, nil
	case StreamOrderedPool:
		return d.openOrdered()
	}
	return poolKind{}, fmt.Errorf("%v: %w", o.Kind, errors.ErrUnsupported)
}

// upstream is memory of the driver, and the queues of this device and others,
// as a pool asks for them.
func (d *Device) upstream(alloc func(int64) (uintptr, error), free func(uintptr) error) pool.Upstream[*queue] {
	return pool.Upstream[*queue]{Alloc: alloc, Free: free, Done: (*queue).done, Order: order, Wait: (*queue).synchronize}
}

// order lets what after is given from now on wait for what before has been given
// till now.
func order(before, after *queue) error {
	return after.dev.do(func() error { return after.waitFor(before) })
}

// openOrdered makes a pool of the driver's.
func (d *Device) openOrdered() (poolKind, error) {
	home, err := d.queues.open(queueKind{flags: driver.StreamNonBlocking})
	if err != nil {
		return poolKind{}, err
	}
	var handle driver.MemPool
	err = d.do(func() (err error) { handle, err = d.api.MemPoolCreate(d.handle, false); return err })
	if err != nil {
		d.queues.put(home)
		return poolKind{}, err
	}
	ordered := pool.NewOrdered(pool.StreamOrdered[*queue]{
		Alloc: func(n int64, q *queue) (address uintptr, err error) {
			err = d.do(func() error { address, err = d.api.MemAllocFromPoolAsync(n, handle, q.handle); return err })
			return address, err
		},
		Free: func(address uintptr, q *queue) error {
			on := q
			if q.dev != d || q.gone.Load() { // not a stream that this device's memory can be freed on
				if on = home; q != home {
					if err := order(q, home); err != nil {
						return err
					}
				}
			}
			return d.do(func() error { return d.api.MemFreeAsync(address, on.handle) })
		},
		Trim:  func() error { return d.do(func() error { return d.api.MemPoolTrimTo(handle, 0) }) },
		Order: order,
		Wait:  (*queue).synchronize,
	}, home)
	k := poolKind{
		books:   ordered,
		account: ordered.Account(),
		setIdleLimit: func(n int64) error {
			return d.do(func() error { return d.api.MemPoolSetAttribute(handle, driver.PoolReleaseThreshold, uint64(max(n, 0))) })
		},
		held: func() (int64, int64, error) {
			var now, peak uint64
			err := d.do(func() (err error) {
				if now, err = d.api.MemPoolGetAttribute(handle, driver.PoolReservedCurrent); err == nil {
					peak, err = d.api.MemPoolGetAttribute(handle, driver.PoolReservedHigh)
				}
				return err
			})
			return int64(now), int64(peak), err
		},
		close: func() error {
			defer d.queues.put(home)
			return d.do(func() error { return d.api.MemPoolDestroy(handle) })
		},
	}
	if err := k.setIdleLimit(d.idleLimit); err != nil {
		return poolKind{}, errors.Join(err, k.close())
	}
	return k, nil
}
